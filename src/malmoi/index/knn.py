"""The nearest rows of a large table, block by block, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .base import Best, Rows

# A block of scores: 512 × 16,384 float32 are 32 MB, enough for a matrix product to run at full
# speed and small enough to be searched while it is still in a cache.
QUERY_BLOCK = 512
DOCUMENT_BLOCK = 16_384


class VectorRows(Protocol):
    """Rows of numbers that can be sliced: an array, a memory-mapped file, or the like."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class RowPairs:
    """Pairs of a query's row and a document's row, as two columns of equal length."""

    queries: Rows
    documents: Rows

    def within(self, start: int, end: int) -> "RowPairs":
        """The pairs of the queries `start` to `end`, counted from `start`."""
        kept = (self.queries >= start) & (self.queries < end)
        return RowPairs(self.queries[kept] - start, self.documents[kept])


@dataclass(frozen=True)
class Nearest:
    """The best documents of a block of queries, best first: both (queries, k).

    Where there are fewer documents than k, the row is -1 and the score -inf.
    """

    start: int
    scores: Floats
    rows: Rows


NO_PAIRS = RowPairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def nearest(
    queries: VectorRows,
    documents: VectorRows,
    k: int,
    *,
    without: RowPairs = NO_PAIRS,
    query_block: int = QUERY_BLOCK,
    document_block: int = DOCUMENT_BLOCK,
) -> Iterator[Nearest]:
    """Yield the `k` documents of highest dot product for each query, a block of queries at a time.

    Of equal scores the earlier row wins. Pairs in `without` are excluded.
    """
    k = min(k, len(documents))
    for start in range(0, len(queries), query_block):
        block = _as_floats(queries[start : start + query_block])
        excluded = without.within(start, start + len(block))
        best = Best(len(block), k)
        for at in range(0, len(documents), document_block):
            part = _as_floats(documents[at : at + document_block])
            scores = block @ part.T  # (queries, part)
            here = (excluded.documents >= at) & (excluded.documents < at + len(part))
            scores[excluded.queries[here], excluded.documents[here] - at] = -np.inf
            best.add(scores, at)
        yield Nearest(start, best.scores, best.rows)


@dataclass(frozen=True)
class Close:
    """Pairs of rows above a threshold, as three columns of equal length."""

    left: Rows
    right: Rows
    scores: Floats


def _as_floats(vectors: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(vectors, dtype=np.float32)
