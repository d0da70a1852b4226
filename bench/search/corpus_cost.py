"""What a large corpus costs: making it, opening it, searching it, and its memory.

    python bench/run.py corpus_cost [--model ko-en-small] [--count 1000000] [--precision int8]
                                [--rate 20000] [--words word-morphemes]

The vectors are made beforehand (`vectors` in bench/common.py), so that what is timed is the
store's own work. The corpus is opened in a process of its own, whose memory is measured.
`--rate N` instead compares `malmoi index` with encoding alone, in four turns on N / 4 texts for
each; every turn begins with a new file and with no word remembered from the turn before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row, spread, texts, vectors, work_folder
from malmoi.corpus import Corpus, Document, StoredDocument, index_files
from malmoi.corpus.keywords import cut, word_cache
from malmoi.runtime.pooling import to_precision

TURNS = 4
OPEN = """
import json, sys, time
import numpy as np
started = time.perf_counter()
from malmoi.corpus import Corpus
corpus = Corpus.open(sys.argv[1])
opened = time.perf_counter()
query = np.load(sys.argv[2])
corpus.store.vector_search(query[0], 10)
first = time.perf_counter()
took = []
for vector in query:
    at = time.perf_counter()
    corpus.store.vector_search(vector, 10)
    took.append(time.perf_counter() - at)
words = []
for word in ("서버", "파일", "error", "사용자"):
    at = time.perf_counter()
    corpus.store.keyword_search([word, "설정"], 10)
    words.append(time.perf_counter() - at)
status = open("/proc/self/status").read()  # getrusage would count the parent's memory too
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps({
    "step": "opened",
    "documents": len(corpus),
    "imported and opened, s": round(opened - started, 2),
    "first search, s": round(first - started, 2),
    "p50, ms": round(1000 * float(np.median(took)), 2),
    "by words p50, ms": round(1000 * float(np.median(words)), 2),
    "peak, MB": round(peak),
}))
"""


def make(path: Path, model: str, count: int, precision: str) -> Iterator[Row]:
    """Put texts with ready vectors into a corpus."""
    if path.exists():
        return
    started = time.perf_counter()
    table, listed = vectors(model, count), texts(count)
    with Corpus.open(path, malmoi.load(model), precision=precision, words="bigrams") as corpus:  # type: ignore[arg-type]
        for start in range(0, count, 2048):
            block = to_precision(np.array(table[start : start + 2048]), precision)
            batch = [
                StoredDocument(Document(str(start + i), text), vector)
                for i, (text, vector) in enumerate(
                    zip(listed[start : start + 2048], block, strict=True)
                )
            ]
            corpus.store.write(batch)
        stored = time.perf_counter()
        corpus.store.flush()
    yield {
        "step": "made",
        "documents": count,
        "written/s": round(count / (stored - started)),
        "index, s": round(time.perf_counter() - stored, 1),
        "file, MiB": round(path.stat().st_size / 2**20),
        "index, MiB": round(path.with_name(path.name + ".index").stat().st_size / 2**20),
    }


def rate(model: str, count: int, words: str) -> Row:
    """Compare indexing with encoding, in turn, each time as in a new process and a new file."""
    part = count // TURNS
    listed = texts(2 * part * TURNS)
    encoder = malmoi.load(model)
    encoder.encode(listed[:256])
    next(cut(["준비"], words))  # an analyser takes seconds to wake
    ratios, worked, rates = list[float](), list[float](), list[float]()
    for turn in range(TURNS):
        some = listed[2 * turn * part : 2 * (turn + 1) * part]
        # Whoever comes second finds the machine as the other left it: they change places.
        indexed = spent(encoder, some[::2], words) if turn % 2 else None
        alone = spent(encoder, some[1::2], None)
        indexed = indexed or spent(encoder, some[::2], words)
        ratios.append(alone.seconds / indexed.seconds)
        worked.append(alone.work / indexed.work)
        rates.append(part / indexed.seconds)
    return {
        "words": words,
        "texts a turn": part,
        "share of the encoding rate": spread(ratios),
        "by processor time": spread(worked),
        "texts/s": round(float(np.median(rates))),
    }


@dataclass(frozen=True)
class Spent:
    """Seconds that passed, and seconds that processors worked."""

    seconds: float
    work: float


def spent(encoder: malmoi.TextEncoder, some: list[str], words: str | None) -> Spent:
    """Index texts into a new corpus, or only encode them where no words are named."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(" ".join(text.split()) for text in some), "utf-8")
        corpus = Corpus.open(Path(folder) / "x.malmoi", encoder, words=words) if words else None
        word_cache.clear()  # a new process knows no word
        started, busy = time.perf_counter(), time.process_time()
        if corpus is None:
            encoder.encode(some)
        else:
            index_files(corpus, [str(file)], lines=True)
        found = Spent(time.perf_counter() - started, time.process_time() - busy)
        if corpus is not None:
            corpus.close()
        return found


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="ko-en-small")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--words", default="word-morphemes")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.rate:
        yield rate(options.model, options.rate, options.words)
        return
    path = work_folder() / f"{options.model}-{options.precision}-{options.count}.malmoi"
    yield from make(path, options.model, options.count, options.precision)
    asked = work_folder() / "queries.npy"
    np.save(asked, np.array(vectors(options.model, options.count)[:: options.count // 100]))
    for _ in range(3):
        command = [sys.executable, "-c", OPEN, str(path), str(asked)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        yield json.loads(done.stdout)
