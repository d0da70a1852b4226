"""What a corpus of passages costs: its files, opening it, and a search by both sides.

    python bench/run.py passage_cost [--passages 200000] [--precision int8] [--queries 200]
    python bench/run.py passage_cost --pages 10000

Passages of about 200 tokens are put together from sentences of Korean Wikipedia and translated
documentation, in both languages; five vectors each are drawn at random, which takes no time and
makes no difference to the search. Times are of the processor, so that a machine that does other
work gives the same figures as a quiet one; encoding the query is not part of them.

`--pages N` instead writes N pages of documentation as Markdown files, and compares syncing them
with encoding alone the texts that their passages have vectors of.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row, data_root, resident, spread
from malmoi.corpus import Corpus, Document, StoredDocument, StoreInfo
from malmoi.corpus.keywords import cut
from malmoi.corpus.ranking import fuse
from malmoi.corpus.sqlite import SqliteStore
from malmoi.corpus.store import Vector, vector_texts
from malmoi.documents import Passage
from malmoi.io.tables import read_rows
from malmoi.runtime.pooling import to_precision

DIM, VECTORS, SENTENCES = 384, 5, 5
BATCH = 1000


def sentences() -> list[str]:
    """Real sentences in both languages."""
    found = [row["text"] for row in read_rows(data_root() / "text/kowiki-sentences.tsv")]
    for row in read_rows(data_root() / "parallel/kubernetes.tsv"):
        found += [row["ko"], row["en"]]
    return found


def made(numbers: range, known: list[str], precision: str) -> list[StoredDocument]:
    """Documents of ten passages each."""
    chance, drawn = random.Random(numbers.start), np.random.default_rng(numbers.start)
    found = []
    for number in numbers[::10]:
        passages, stored = list[Passage](), list[Vector]()
        for _ in range(10):
            text = " ".join(chance.choices(known, k=SENTENCES))
            vectors = drawn.standard_normal((VECTORS, DIM)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            passages.append(Passage(text))
            stored.append(to_precision(vectors, precision))
        document = Document(f"d{number}", "", {}, f"문서 {number}", "", "md")
        found.append(StoredDocument(document, tuple(passages), tuple(stored), f"/{number}"))
    return found


def took(work: Callable[[], object]) -> float:
    """The milliseconds that this thread's work took the processor."""
    started = time.process_time()
    work()
    return 1000 * (time.process_time() - started)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--words", default="word-morphemes")
    parser.add_argument("--pages", type=int, default=0)


def write_pages(folder: Path, count: int) -> None:
    """Pages of two sections with some twelve sentences each, Korean and English in turn."""
    files = ("kubernetes", "react", "python-docs", "mdn", "microsoft-docs")
    rows = [row for name in files for row in read_rows(data_root() / f"parallel/{name}.tsv")]
    for number in range(count):
        language = ("ko", "en")[number % 2]
        some = [row[language] for row in rows[12 * number : 12 * number + 12]]
        text = "\n\n".join([f"# {some[0]}", " ".join(some[1:6]), f"## {some[6]}", *some[7:]])
        (folder / f"{number // 500}").mkdir(parents=True, exist_ok=True)
        (folder / f"{number // 500}" / f"{number}.md").write_text(text, "utf-8")


def rate(options: argparse.Namespace) -> Iterator[Row]:
    """Compare a sync with encoding alone, in the processor's time."""
    encoder = malmoi.load(threads=1)
    next(cut(["준비"], options.words))  # an analyser takes seconds to wake
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "docs"
        write_pages(folder, options.pages)
        precision = options.precision
        with Corpus.open(Path(place) / "x", encoder, precision=precision) as corpus:
            synced = took(lambda: corpus.sync(folder))
            texts = [
                text
                for one in corpus.store.scan()
                for passage in one.passages
                for text in vector_texts(one.document.title, passage)
            ]
            passages, unique = corpus.store.passage_count(), list(dict.fromkeys(texts))
            alone = took(lambda: corpus.vectors_of(unique, query=False))
            again = took(lambda: corpus.sync(folder))
        yield {
            "step": "pages",
            "pages": options.pages,
            "passages": passages,
            "texts": len(unique),
            "pages/s": round(1000 * options.pages / synced, 1),
            "share of the encoding rate": round(alone / synced, 3),
            "nothing changed, s": round(again / 1000, 2),
            "resident, MiB": round(resident()),
        }


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.pages:
        yield from rate(options)
        return
    known = sentences()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.malmoi"
        about = StoreInfo("none", DIM, options.precision, options.words)
        store = SqliteStore(path, create=lambda: about)
        written = sum(
            took(
                lambda start=start: store.write(  # type: ignore[misc]
                    made(range(start, start + BATCH), known, options.precision)
                )
            )
            for start in range(0, options.passages, BATCH)
        )
        flushed = took(store.flush)
        store.close()
        yield {
            "step": "made",
            "passages": options.passages,
            "written, s": round(written / 1000, 1),
            "index, s": round(flushed / 1000, 1),
            "file, MiB": round(path.stat().st_size / 2**20),
            "index, MiB": round(path.with_name("x.malmoi.index").stat().st_size / 2**20),
        }
        yield searched(path, known, options)


def searched(path: Path, known: list[str], options: argparse.Namespace) -> Row:
    """Open the corpus and search it by both sides, step by step."""
    opened = time.process_time()
    store = SqliteStore(path)
    store.vector_search(np.ones(DIM, dtype=np.float32), 1)
    first = time.process_time() - opened
    steps: dict[str, list[float]] = {}
    chance, drawn = random.Random(1), np.random.default_rng(1)
    for _ in range(options.queries):
        words = chance.choice(known).split()
        query = " ".join(words[: chance.randint(2, 7)])
        vector = drawn.standard_normal(DIM).astype(np.float32)
        vector /= np.linalg.norm(vector)
        at = [time.process_time()]
        dense = store.vector_search(vector, 100)
        at.append(time.process_time())
        terms, more = store.query_terms(query)
        at.append(time.process_time())
        seen = {one.key for one in dense}
        keyword = store.keyword_candidates([*terms, *more], 100, seen, depth=1000)
        at.append(time.process_time())
        best = store.best_keyword_score(terms)
        missing = [one.key for one in keyword[:100] if one.key not in seen]
        scored = dense + store.vector_scores(vector, missing)
        at.append(time.process_time())
        store.passages([one.key for one in fuse(query, scored, keyword, best=best)[:10]])
        at.append(time.process_time())
        names = ("vectors", "query's words", "keywords", "other scores", "fusion and hits")
        for name, start, end in zip(names, at, at[1:], strict=False):
            steps.setdefault(name, []).append(1000 * (end - start))
        steps.setdefault("search", []).append(1000 * (at[-1] - at[0]))
    row: Row = {"step": "searched", "opened and first search, s": round(first, 2)}
    row |= {f"{name} p50, ms": round(float(np.median(own)), 1) for name, own in steps.items()}
    row |= {"search, ms": spread(steps["search"], 1), "resident, MiB": round(resident())}
    store.close()
    return row
