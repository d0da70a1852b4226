"""The contract of every vector index, and its exact search."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, counted
from ..types import Floats
from .knn import Best, Rows
from .table import Mask, Positions, VectorTable

# From so many queries on, one matrix product over all rows is as fast as proposals for each.
MANY_QUERIES = 32
# Up to so many rows, scoring all of them takes less than a millisecond.
FEW_ROWS = 16_384
_AT_ONCE = 512
# Up to so many queries, each is a product of its own: memory is the limit, not the arithmetic.
_ALONE = 4
_ROW_BLOCK = 16_384
_CACHED = 1024  # rows gathered at once: 1.5 MB of floats, in memory that is used again
_PADDED = 4096  # the most columns of an answer that has fewer rows


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of each query, best first, and their scores: both (queries, k).

    Where there are fewer rows than k, the row is -1 and the score -inf.
    """

    rows: Rows
    scores: Floats


class Index(ABC):
    """Unit vectors under increasing row numbers, searched by cosine.

    Engines differ in which rows they propose; proposals are scored with the stored vectors, so
    that a row's score is the same whichever engine found it.
    """

    engine: ClassVar[str]

    def __init__(self, table: VectorTable) -> None:
        self.table = table
        self.dimension = table.dimension
        self.precision = table.precision

    @abstractmethod
    def _propose(self, query: Floats, k: int, allowed: Mask | None) -> Positions:
        """Positions to score for one query (dim,); removed or excluded ones may be among them."""

    def _added(self, vectors: Floats, rows: Rows) -> None:
        """Called after vectors were stored, for engines that keep more than the table."""
        return

    def __len__(self) -> int:
        return self.table.alive

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {counted(len(self), 'vector')}, "
            f"{self.dimension} dimensions, {self.precision}>"
        )

    def add(self, vectors: Floats, rows: Rows | None = None) -> Rows:
        """Add unit vectors (n, dim); returns their row numbers (n,).

        Given row numbers must increase, and be greater than all before; by default they continue
        after the last one.
        """
        checked = self._checked(vectors, "vectors")
        numbers = self.table.numbers(len(checked), rows)
        self.table.add(checked, numbers)
        self._added(checked, numbers)
        return numbers

    def remove(self, rows: Rows) -> int:
        """Remove rows; returns how many of them existed."""
        return len(self.table.remove(np.asarray(rows, dtype=np.int64)))

    def search(
        self, queries: Floats, k: int, *, exact: bool = False, only: Rows | None = None
    ) -> Neighbors:
        """Find the `k` rows of highest cosine for each unit query, (m, dim) or (dim,).

        Args:
            exact: score every row.
            only: the rows that may be found.

        Of equal scores the earlier row wins; where there are fewer than `k` rows, the last are -1,
        and there are no more columns than rows where `k` is in the thousands.
        """
        if k < 1:
            raise OptionError(f"k is {k}; expected 1 or more. Ask for at least one row.")
        asked = self._checked(np.atleast_2d(queries), "queries")
        allowed = None if only is None else self.table.positions(only)
        count = len(self) if allowed is None else len(allowed)
        width, k = min(k, max(count, _PADDED)), min(k, max(count, 1))
        if not count:
            best = Best(len(asked), k)
        elif allowed is not None and count <= max(FEW_ROWS, 4 * k):
            best = self._among(asked, k, allowed)
        elif exact or len(asked) >= MANY_QUERIES or count <= max(FEW_ROWS, 4 * k):
            best = self._everywhere(asked, k, self._mask(allowed))
        else:
            best = self._proposed(asked, k, self._mask(allowed))
        return _padded(self.table.rows_at(best.rows), best.scores, width)

    def recall(self, queries: Floats, k: int = 10) -> float:
        """The share of the true `k` nearest rows of each query that the engine finds.

        Rows that tie with the last true one count as found.
        """
        asked = np.atleast_2d(queries)
        true = self.search(asked, k, exact=True).scores[:, -1:]
        found = np.concatenate([self.search(query, k).scores for query in asked])
        return float((found >= true - 1e-6).mean())

    def _among(self, asked: Floats, k: int, positions: Positions) -> Best:
        """Score all of these positions."""
        best = Best(len(asked), k)
        for start in range(0, len(positions), _ROW_BLOCK):
            part = positions[start : start + _ROW_BLOCK]
            scores = np.empty((len(asked), len(part)), dtype=np.float32)
            for at in range(0, len(part), _CACHED):
                vectors = self.table.take(part[at : at + _CACHED])
                scores[:, at : at + _CACHED] = _products(asked * self.table.factor, vectors)
            best.add(scores, start)
        best.rows = np.where(best.rows < 0, -1, positions[best.rows])
        return best

    def _everywhere(self, asked: Floats, k: int, allowed: Mask | None) -> Best:
        """Score every position, block by block of queries and rows."""
        if len(asked) <= _ALONE and self.precision == "float32":
            return self._one_by_one(asked, k, allowed)
        best = Best(len(asked), k)
        for start in range(0, len(asked), _AT_ONCE):
            block: Floats = asked[start : start + _AT_ONCE] * self.table.factor
            own = Best(len(block), k)
            for at, vectors in self.table.blocks(_ROW_BLOCK):
                scores = block @ vectors.T
                self._exclude(scores, at, allowed)
                own.add(scores, at)
            best.scores[start : start + len(block)] = own.scores
            best.rows[start : start + len(block)] = own.rows
        return best

    def _one_by_one(self, asked: Floats, k: int, allowed: Mask | None) -> Best:
        """Score every position for each query in one product, at the speed of memory."""
        best = Best(len(asked), k)
        scores = np.empty((1, len(self.table)), dtype=np.float32)
        for i, query in enumerate(asked):
            at = 0
            for part in self.table.parts:
                end = at + len(part.rows)
                np.dot(np.asarray(part.vectors), query, out=scores[0, at:end])
                at = end
            self._exclude(scores, 0, allowed)
            best.scores[i], best.rows[i] = _highest(scores[0], k)
        return best

    def _exclude(self, scores: Floats, at: int, allowed: Mask | None) -> None:
        """Set the scores of positions that must not be found to -inf, in place."""
        end = at + scores.shape[1]
        if allowed is not None:
            scores[:, ~allowed[at:end]] = -np.inf
        elif len(self.table) > len(self):
            scores[:, ~self.table.live[at:end]] = -np.inf

    def _proposed(self, asked: Floats, k: int, allowed: Mask | None) -> Best:
        """Score the engine's proposals, query by query."""
        keep = self.table.live if allowed is None else allowed
        best = Best(len(asked), k)
        for i, query in enumerate(asked):
            positions = self._propose(query, k, allowed)
            positions = np.sort(positions[keep[positions]])
            if len(positions) < k:  # too few proposals: score all rows
                own = self._everywhere(query[None], k, allowed)
            else:
                own = self._among(query[None], k, positions)
            best.scores[i], best.rows[i] = own.scores[0], own.rows[0]
        return best

    def _mask(self, positions: Positions | None) -> Mask | None:
        if positions is None:
            return None
        mask = np.zeros(len(self.table), dtype=np.bool_)
        mask[positions] = True
        return mask

    def _checked(self, vectors: NDArray[np.float32], name: str) -> Floats:
        checked = np.asarray(vectors, dtype=np.float32)
        if checked.ndim == 2 and checked.shape[1] == self.dimension and np.isfinite(checked).all():
            return checked
        raise OptionError(
            f"{name} is an array of shape {checked.shape}; expected finite numbers in rows of "
            f"{self.dimension}. Use vectors of the model that the index was made with."
        )


def _products(queries: Floats, vectors: Floats) -> Floats:
    """The products of queries (m, dim) with vectors (n, dim), (m, n)."""
    if len(queries) > _ALONE:
        return queries @ vectors.T
    # For a few thousand products BLAS would start threads, which on a busy machine takes far longer
    # than the work: 150 ms instead of 0.25.
    return np.stack([np.vecdot(vectors, query) for query in queries])


def _highest(scores: Floats, k: int) -> tuple[Floats, Positions]:
    """The k highest scores of (n,), best first, of equal ones the earlier, and their positions."""
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    found = np.flatnonzero(scores >= least)
    order = np.argsort(-scores[found], kind="stable")[:k]
    return scores[found[order]], found[order]


def _padded(rows: Rows, scores: Floats, width: int) -> Neighbors:
    """Mark what was not found, and pad to `width` columns."""
    missing = width - rows.shape[1]
    rows = np.where(np.isneginf(scores), -1, rows)
    if not missing:
        return Neighbors(rows, scores)
    return Neighbors(
        np.pad(rows, ((0, 0), (0, missing)), constant_values=-1),
        np.pad(scores, ((0, 0), (0, missing)), constant_values=-np.inf),
    )


class ExactIndex(Index):
    """Scores every row, every time; the reference for the other engines."""

    engine = "exact"

    def _propose(self, query: Floats, k: int, allowed: Mask | None) -> Positions:
        return np.arange(len(self.table), dtype=np.int64)

    def _proposed(self, asked: Floats, k: int, allowed: Mask | None) -> Best:
        return self._everywhere(asked, k, allowed)
