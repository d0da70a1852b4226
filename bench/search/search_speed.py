"""Search over real vectors: malmoi's index next to numpy and faiss, one query at a time.

    python bench/run.py search_speed [--model ko-en-small] [--count 1000000] [--queries 100]
                                 [--precision float32] [--faiss] [--hnsw 200000]

The vectors are those of real sentences in two languages; queries are sentences that the index
does not hold. The ways take turns query by query, so that noise meets all of them. `--faiss` adds
faiss-cpu, which must be installed; `--hnsw N` also builds a graph of the first N rows.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bench.common import QUERIES, Row, vectors, work_folder
from malmoi.index import HnswIndex, Index, make_index, open_index, save_index

K = 10
Rows = NDArray[np.int64]
Way = Callable[[NDArray[np.float32]], Rows]


def saved(table: NDArray[np.float32], model: str, precision: str) -> Index:
    """Build the default index, written and opened again every so often, as a corpus does it."""
    path = work_folder() / f"speed-{model}-{precision}-{len(table)}.index"
    if path.exists():
        return open_index(path)
    index = make_index(table.shape[1], precision=precision)
    for start in range(0, len(table), 250_000):
        index.add(np.asarray(table[start : start + 250_000]))
        index.planes()  # type: ignore[attr-defined]
        save_index(index, path)
        index = open_index(path)
    return index


def by_numpy(table: NDArray[np.float32]) -> Way:
    """A product and a partition: what one writes without a library."""

    def search(query: NDArray[np.float32]) -> Rows:
        scores = table @ query
        best = np.argpartition(scores, -K)[-K:]
        found: Rows = best[np.argsort(-scores[best])]
        return found

    return search


def by_faiss(table: NDArray[np.float32]) -> Way:
    """faiss's flat index by inner product."""
    import faiss  # type: ignore[import-untyped]

    index = faiss.IndexFlatIP(table.shape[1])
    index.add(table)
    return lambda query: np.asarray(index.search(query[None], K)[1][0])


def by_index(index: Index, *, exact: bool = False) -> Way:
    """malmoi's own."""
    return lambda query: index.search(query, K, exact=exact).rows[0]


def measure(ways: dict[str, Way], queries: NDArray[np.float32], judge: str) -> Iterator[Row]:
    """Let the ways answer in turn; gives a row for each."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    worked: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Rows]] = {name: [] for name in ways}
    for turn, query in enumerate([*queries[:3], *queries]):
        for name, search in ways.items():
            started, busy = time.perf_counter(), time.process_time()
            rows = search(query)
            if turn >= 3:  # the first ones warm caches and pages
                took[name].append(time.perf_counter() - started)
                worked[name].append(time.process_time() - busy)
                found[name].append(rows)
    for name in ways:
        shared = [len(set(a) & set(b)) / K for a, b in zip(found[name], found[judge], strict=True)]
        ratios = np.array(took[judge]) / np.array(took[name])
        yield {
            "way": name,
            "p50, ms": round_to(np.median(took[name]) * 1000),
            "p90, ms": round_to(np.quantile(took[name], 0.9) * 1000),
            "processor p50, ms": round_to(np.median(worked[name]) * 1000),
            f"× {judge}": round_to(np.median(ratios)),
            "recall@10": round(float(np.mean(shared)), 4),
        }


def round_to(value: float) -> float:
    """Two decimals are all that a noisy machine can show."""
    return round(float(value), 2)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="ko-en-small")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--hnsw", type=int, default=0)
    parser.add_argument("--faiss", action="store_true")


def run(options: argparse.Namespace) -> Iterator[Row]:
    every = vectors(options.model, options.count + QUERIES)
    queries = np.array(every[-QUERIES:][: options.queries])
    table = every[: options.count]  # memory-mapped, and in memory after the first queries
    index = saved(table, options.model, options.precision)
    if options.precision == "float32":
        table = index.table.base.vectors  # the same pages for all, so that none is pushed out
    ways = {"numpy": by_numpy(table)}
    if options.faiss:
        ways["faiss flat"] = by_faiss(table)
    ways["malmoi exact"] = by_index(index, exact=True)
    ways["malmoi default"] = by_index(index)
    yield from measure(ways, queries, "numpy")
    if options.hnsw:
        part = table[: options.hnsw]
        started = time.perf_counter()
        graph = make_index(part.shape[1], engine="hnsw")
        assert isinstance(graph, HnswIndex)
        graph.add(part)
        seconds = time.perf_counter() - started
        yield {"way": f"build a graph of {len(part):,}", "s": round_to(seconds)}
        flat = make_index(part.shape[1])
        flat.add(part)
        few = {"malmoi exact": by_index(flat, exact=True), "malmoi flat": by_index(flat)}
        yield from measure({**few, "malmoi hnsw": by_index(graph)}, queries, "malmoi exact")
