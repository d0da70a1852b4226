"""What a million documents cost, in time of one core and in bytes, measured on fewer.

    python bench/scale_cost.py [--texts 3000] [--static 60000] [--vectors 200000] [--graph 100000]
                               [--documents 20000]

Times are the processor's (`time.process_time`) on one thread, so that other work on the machine
counts little; every figure is scaled to a million in proportion, which is fair to all but the
graph, whose cost for each vector grows with their number.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from search_data import texts, vectors

import malmoi
from malmoi.corpus import Corpus, Document, Stored
from malmoi.index import FlatIndex, HnswIndex, make_index, save_index
from malmoi.runtime.precision import to_precision

MILLION = 1_000_000


def main() -> None:
    """Measure each stage and print a JSON line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--static", type=int, default=60_000)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--graph", type=int, default=100_000)
    parser.add_argument("--documents", type=int, default=20_000)
    options = parser.parse_args()
    listed = texts(max(options.texts, options.static, options.documents))
    encoding("ko-en-small", listed[: options.texts])
    encoding("ko-en-static", listed[: options.static])
    table = np.array(vectors("ko-en-small", options.vectors))
    flat(table)
    graph(table[: options.graph])
    store(listed[: options.documents], table[: options.documents])


def encoding(model: str, listed: list[str]) -> None:
    """Texts to vectors on one thread."""
    encoder = malmoi.load(model, threads=1)
    encoder.encode(listed[:64])
    seconds = spent(lambda: encoder.encode(listed))
    show(
        stage=f"encode, {model}",
        measured_on=len(listed),
        characters_a_text=round(float(np.mean([len(text) for text in listed])), 1),
        texts_a_core_second=round(len(listed) / seconds),
        core_hours_a_million=round(MILLION * seconds / len(listed) / 3600, 3),
    )


def flat(table: np.ndarray) -> None:
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
    show(
        stage="index, flat, int8",
        measured_on=len(table),
        bytes_a_vector=round(size / len(table)),
        core_seconds_a_million=round(scale * seconds, 1),
        query_core_ms_at_a_million=round(1000 * scale * float(np.median(took)), 2),
    )


def graph(table: np.ndarray) -> None:
    """The graph of neighbours over the same vectors."""
    index = HnswIndex.over(_flat(table[:0]))
    seconds = spent(lambda: index.add(table))
    took = [spent(lambda q=query: index.search(q, k=10)) for query in table[:20]]
    with tempfile.TemporaryDirectory() as folder:
        index.save_graph(Path(folder) / "x.graph")
        size = (Path(folder) / "x.graph").stat().st_size
    show(
        stage="index, graph, int8",
        measured_on=len(table),
        bytes_a_vector=round(size / len(table)),
        vectors_a_core_second=round(len(table) / seconds),
        core_hours_a_million_at_least=round(MILLION * seconds / len(table) / 3600, 2),
        query_core_ms=round(1000 * float(np.median(took)), 2),
    )


def _flat(table: np.ndarray) -> FlatIndex:
    index = make_index(384, precision="int8")
    assert isinstance(index, FlatIndex)
    if len(table):
        index.add(table)
    return index


def store(listed: list[str], table: np.ndarray) -> None:
    """A corpus file with its words, vectors ready."""
    encoder = malmoi.load("ko-en-small", threads=1)
    for words in ("bigrams", "word-morphemes"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.malmoi"
            with Corpus.open(path, encoder, precision="int8", words=words) as corpus:  # type: ignore[arg-type]
                corpus.put([{"id": "first", "text": "준비"}])  # an analyser takes seconds to wake
                seconds = spent(lambda c=corpus: write(c, listed, table))
            size = path.stat().st_size
        show(
            stage=f"store, SQLite, {words}",
            measured_on=len(listed),
            bytes_of_text=round(float(np.mean([len(text.encode()) for text in listed]))),
            bytes_a_document=round(size / len(listed)),
            documents_a_core_second=round(len(listed) / seconds),
        )


def write(corpus: Corpus, listed: list[str], table: np.ndarray) -> None:
    """Put documents in by batches, as `malmoi index` does."""
    for start in range(0, len(listed), 2048):
        block = to_precision(table[start : start + 2048], "int8")
        part = listed[start : start + 2048]
        rows = zip(part, block, strict=True)
        corpus.store.write(
            [
                Stored(Document(str(start + i), text), vector)
                for i, (text, vector) in enumerate(rows)
            ]
        )


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time that a piece of work took."""
    started = time.process_time()
    work()
    return time.process_time() - started


def show(**row: object) -> None:
    """Print one line."""
    print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
