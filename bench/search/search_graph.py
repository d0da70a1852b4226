"""From which size a graph of neighbours is worth its memory: one graph grown, asked as it grows.

    python bench/run.py search_graph [--model ko-en-small] [--sizes 50000,100000,200000,400000]
                                 [--queries 100]

At each size the three engines answer the same queries in turn, one at a time. The figures are
processor time, which other work on the machine inflates least; build time and memory are of all
rows so far.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np

from bench.common import QUERIES, Row, vectors
from bench.search.search_speed import K, Rows, Way, by_index, round_to
from malmoi.index import HnswIndex, make_index


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="ko-en-small")
    parser.add_argument("--sizes", default="50000,100000,200000,400000")
    parser.add_argument("--queries", type=int, default=100)


def run(options: argparse.Namespace) -> Iterator[Row]:
    sizes = sorted(int(size) for size in options.sizes.split(","))
    every = vectors(options.model, sizes[-1] + QUERIES)
    queries = np.array(every[-QUERIES:][: options.queries])
    flat = make_index(every.shape[1])
    graph = make_index(every.shape[1], engine="hnsw")
    assert isinstance(graph, HnswIndex)
    built, done = 0.0, 0
    for size in sizes:
        rows = np.array(every[done:size])
        flat.add(rows)
        started = time.process_time()
        graph.add(rows)
        built, done = built + time.process_time() - started, size
        ways = {
            "exact": by_index(flat, exact=True),
            "flat": by_index(flat),
            "graph": by_index(graph),
        }
        cost = {"build, s": round(built), "graph, MB": round(graph._graph.memory_usage / 2**20)}
        yield {"rows": size} | asked(ways, queries) | cost


def asked(ways: dict[str, Way], queries: np.ndarray) -> Row:
    """Let the ways answer in turn: median milliseconds of processor time, and recall."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Rows]] = {name: [] for name in ways}
    for turn, query in enumerate([*queries[:3], *queries]):
        for name, search in ways.items():
            started = time.process_time()
            rows = search(query)
            if turn >= 3:
                took[name].append(time.process_time() - started)
                found[name].append(rows)
    row: Row = {}
    for name in ways:
        shared = [
            len(set(a) & set(b)) / K for a, b in zip(found[name], found["exact"], strict=True)
        ]
        row[f"{name}, ms"] = round_to(1000 * float(np.median(took[name])))
        row[f"{name}, recall"] = round(float(np.mean(shared)), 4)
    return row
