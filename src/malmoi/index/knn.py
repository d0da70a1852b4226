"""The nearest rows of a large table, block by block, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..types import Floats

Rows = NDArray[np.int64]

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


class Best:
    """The best k so far of every query, kept sorted."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.scores: Floats = np.full((queries, k), -np.inf, dtype=np.float32)
        self.rows: Rows = np.full((queries, k), -1, dtype=np.int64)

    def add(self, scores: Floats, start: int) -> None:
        """Add the scores (queries, part) of the documents from `start` on."""
        # Only scores above the worst kept one matter; after a few blocks they are few.
        least = self.scores[:, -1:]
        if self.k < scores.shape[1] and np.isneginf(least).any():
            # Not full yet: the block's own k-th best is as good a bound.
            own = np.partition(scores, -self.k, axis=1)[:, -self.k, None]
            better = (scores >= own) & (scores > least)
        else:
            better = scores > least
        queries, columns = np.nonzero(better)
        if len(queries):
            self._merge(queries, columns + start, scores[queries, columns])

    def _merge(self, queries: Rows, rows: Rows, scores: Floats) -> None:
        touched, at = np.unique(queries, return_inverse=True)
        owners = np.concatenate([np.repeat(np.arange(len(touched)), self.k), at])
        all_scores = np.concatenate([self.scores[touched].ravel(), scores])
        all_rows = np.concatenate([self.rows[touched].ravel(), rows])
        # Of equal scores the kept ones come first, which are the earlier rows.
        order = np.lexsort((-all_scores, owners))
        begins = np.searchsorted(owners[order], np.arange(len(touched)))
        kept = order[begins[:, None] + np.arange(self.k)]  # (touched, k)
        self.scores[touched] = all_scores[kept]
        self.rows[touched] = all_rows[kept]


def _as_floats(vectors: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(vectors, dtype=np.float32)
