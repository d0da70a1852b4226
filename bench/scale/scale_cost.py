"""What a million documents cost, in time of one core and in bytes, measured on fewer.

    python bench/run.py scale_cost [--texts 3000] [--static 60000] [--vectors 200000]
                                   [--graph 100000] [--documents 20000]

Times are the processor's (`time.process_time`) on one thread, so that other work on the machine
counts little; every figure is scaled to a million in proportion, which is fair to all but the
graph, whose cost for each vector grows with their number.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import malmoi
from bench.common import Row, texts, vectors
from malmoi.corpus import Corpus, Document, StoredDocument
from malmoi.index import FlatIndex, HnswIndex, make_index, save_index
from malmoi.runtime.pooling import to_precision

MILLION = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--static", type=int, default=60_000)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--graph", type=int, default=100_000)
    parser.add_argument("--documents", type=int, default=20_000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    listed = texts(max(options.texts, options.static, options.documents))
    yield encoding("ko-en-small", listed[: options.texts])
    yield encoding("ko-en-static", listed[: options.static])
    table = np.array(vectors("ko-en-small", options.vectors))
    yield flat(table)
    yield graph(table[: options.graph])
    yield from store(listed[: options.documents], table[: options.documents])


def encoding(model: str, listed: list[str]) -> Row:
    """Texts to vectors on one thread."""
    encoder = malmoi.load(model, threads=1)
    encoder.encode(listed[:64])
    seconds = spent(lambda: encoder.encode(listed))
    return {
        "stage": f"encode, {model}",
        "measured on": len(listed),
        "a core second": round(len(listed) / seconds),
        "core hours a million": round(MILLION * seconds / len(listed) / 3600, 3),
        "characters a text": round(float(np.mean([len(text) for text in listed])), 1),
    }


def flat(table: np.ndarray) -> Row:
    """The default index in int8: codes and vectors in a file; one search."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.index"
        index = make_index(table.shape[1], precision="int8")
        assert isinstance(index, FlatIndex)
        seconds = spent(lambda: (index.add(table), index.planes(), save_index(index, path)))
        size = path.stat().st_size
    rows = np.linspace(0, len(table) - 1, 20, dtype=int)
    queries = table[rows]
    index.search(queries[0], k=10)
    took = [spent(lambda q=query: index.search(q, k=10)) for query in queries]
    scale = MILLION / len(table)
    return {
        "stage": "flat index in int8 (a query at a million)",
        "measured on": len(table),
        "a core second": round(len(table) / seconds),
        "MB a million": round(size / len(table)),
        "a query, core ms": round(1000 * scale * float(np.median(took)), 2),
    }


def graph(table: np.ndarray) -> Row:
    """The graph of neighbours over the same vectors."""
    index = HnswIndex.over(_flat(table[:0]))
    seconds = spent(lambda: index.add(table))
    took = [spent(lambda q=query: index.search(q, k=10)) for query in table[:20]]
    with tempfile.TemporaryDirectory() as folder:
        index.save_graph(Path(folder) / "x.graph")
        size = (Path(folder) / "x.graph").stat().st_size
    return {
        "stage": "graph in int8",
        "measured on": len(table),
        "a core second": round(len(table) / seconds),
        "MB a million": round(size / len(table)),
        "a query, core ms": round(1000 * float(np.median(took)), 2),
    }


def _flat(table: np.ndarray) -> FlatIndex:
    index = make_index(384, precision="int8")
    assert isinstance(index, FlatIndex)
    if len(table):
        index.add(table)
    return index


def store(listed: list[str], table: np.ndarray) -> Iterator[Row]:
    """A corpus file with its words, vectors ready."""
    encoder = malmoi.load("ko-en-small", threads=1)
    for words in ("bigrams", "word-morphemes"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.malmoi"
            with Corpus.open(path, encoder, precision="int8", words=words) as corpus:  # type: ignore[arg-type]
                corpus.upsert(
                    [{"id": "first", "text": "준비"}]
                )  # an analyser takes seconds to wake
                seconds = spent(lambda c=corpus: write(c, listed, table))
            size = path.stat().st_size
        yield {
            "stage": f"SQLite store, {words}",
            "measured on": len(listed),
            "a core second": round(len(listed) / seconds),
            "MB a million": round(size / len(listed)),
        }


def write(corpus: Corpus, listed: list[str], table: np.ndarray) -> None:
    """Put documents in by batches, as `malmoi index` does."""
    for start in range(0, len(listed), 2048):
        block = to_precision(table[start : start + 2048], "int8")
        part = listed[start : start + 2048]
        rows = zip(part, block, strict=True)
        corpus.store.write(
            [
                StoredDocument(Document(str(start + i), text), vector)
                for i, (text, vector) in enumerate(rows)
            ]
        )


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time that a piece of work took."""
    started = time.process_time()
    work()
    return time.process_time() - started
