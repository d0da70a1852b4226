"""What smaller vectors cost: the share of the true ten nearest that each size still finds.

    python bench/run.py search_sizes [--model ko-en-small] [--count 200000] [--queries 200]

Real sentences in two languages; the judge is exact search over the whole float32 vectors.
"exact" compares with every stored vector; "default" is the index's first pass over 512-bit codes
with the stored vectors for the scores. Scores of the first ten are compared by what they find.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.common import QUERIES, Row, vectors
from malmoi.index import Index, make_index
from malmoi.runtime.pooling import normalize

K = 10
PRECISIONS = ("float32", "int8", "binary")


def built(table: NDArray[np.float32], precision: str) -> Index:
    """An index of the table in a precision."""
    index = make_index(table.shape[1], precision=precision)
    index.add(table)
    return index


def recall(index: Index, queries: NDArray[np.float32], true: list[set[int]], exact: bool) -> float:
    """The share of the true nearest that are found."""
    rows = [index.search(query, K, exact=exact).rows[0].tolist() for query in queries]
    return sum(len(set(a) & b) for a, b in zip(rows, true, strict=True)) / (K * len(true))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="ko-en-small")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=200)


def run(options: argparse.Namespace) -> Iterator[Row]:
    every = vectors(options.model, options.count + QUERIES)
    table = np.array(every[: options.count])
    queries = np.array(every[-QUERIES:][: options.queries])
    whole = built(table, "float32")
    found = whole.search(queries, K, exact=True).rows
    true = [set(rows) for rows in found.tolist()]
    for dim in sorted({table.shape[1], 256, 128, 64}, reverse=True):
        if dim > table.shape[1]:
            continue
        cut, asked = normalize(table[:, :dim]), normalize(queries[:, :dim])
        for precision in PRECISIONS:
            index = built(cut, precision)
            stored = index.table.base.vectors
            yield {
                "vectors": f"{dim} {precision}",
                "bytes": stored.dtype.itemsize * stored.shape[1],
                "exact": round(recall(index, asked, true, True), 4),
                "default": round(recall(index, asked, true, False), 4),
            }
