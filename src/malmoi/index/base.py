"""The contract of every vector index, its exact search, and the table of vectors under it.

A table is a file that is memory-mapped and never modified, and what was added since, which is kept
in memory until the index is saved. A removed row keeps its position, marked as removed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, counted
from ..runtime.pooling import check_precision, int8_scale, to_precision
from ..types import Floats

Rows = NDArray[np.int64]
Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]

# From this many queries on, one matrix product over all rows is as fast as proposals for each.
MANY_QUERIES = 32
# Up to this many rows, scoring all of them takes less than a millisecond.
FEW_ROWS = 16_384
_AT_ONCE = 512
# Up to this many queries, each is a product of its own: memory is the limit, not the arithmetic.
_ALONE = 4
_ROW_BLOCK = 16_384
_CACHED = 1024  # rows gathered at once: 1.5 MB of floats, in memory that is used again
_PADDED = 4096  # the most columns of an answer that has fewer rows
_FIRST = 256  # rows that a growing array starts with


@dataclass(frozen=True)
class TablePart:
    """Increasing row numbers (n,) and their stored vectors (n, width)."""

    rows: Rows
    vectors: NDArray[Any]


class Growing:
    """An array that grows along one axis by doubling, so that appending stays cheap."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, *, axis: int = 0) -> None:
        self._axis, self.count = axis, 0
        self._buffer = np.empty(shape, dtype=dtype)

    def append(self, block: NDArray[Any]) -> None:
        """Append a block."""
        end = self.count + block.shape[self._axis]
        if end > self._buffer.shape[self._axis]:
            shape = list(self._buffer.shape)
            shape[self._axis] = max(end, 2 * shape[self._axis], _FIRST)
            buffer = np.empty(shape, dtype=self._buffer.dtype)
            buffer[self._slice(0, self.count)] = self.filled
            self._buffer = buffer
        self._buffer[self._slice(self.count, end)] = block
        self.count = end

    @property
    def filled(self) -> NDArray[Any]:
        """What has been appended so far, as a view."""
        return self._buffer[self._slice(0, self.count)]

    def _slice(self, start: int, end: int) -> tuple[slice, ...]:
        return (slice(None),) * self._axis + (slice(start, end),)


class VectorTable:
    """Stored vectors by row number, in a given precision.

    A *position* counts all rows ever added, removed ones too; a *row* is the number by which
    users of the index know a vector.
    """

    def __init__(
        self, dimension: int, *, precision: str = "float32", base: TablePart | None = None
    ) -> None:
        check_precision(precision)
        self.dimension, self.precision = dimension, precision
        template = to_precision(np.zeros((0, dimension), dtype=np.float32), precision)
        self.base = base or TablePart(np.empty(0, dtype=np.int64), template)
        self._rows = Growing((0,), np.int64)
        self._vectors = Growing(template.shape, template.dtype)
        self._live = Growing((0,), np.bool_)
        self._live.append(np.ones(len(self.base.rows), dtype=np.bool_))
        self.alive = len(self.base.rows)

    def __len__(self) -> int:
        return self._live.count

    @property
    def parts(self) -> list[TablePart]:
        """The rows of the file and those added since, as views."""
        return [self.base, TablePart(self._rows.filled, self._vectors.filled)]

    @property
    def live(self) -> Mask:
        """Which positions have not been removed."""
        return self._live.filled

    @property
    def fresh(self) -> int:
        """How many rows were added since the file was written."""
        return self._rows.count

    @property
    def factor(self) -> np.float32:
        """What turns a product with a stored vector into a cosine; float32 keeps arrays so."""
        if self.precision == "int8":
            return np.float32(1 / int8_scale(self.dimension))
        return np.float32(1 / np.sqrt(self.dimension) if self.precision == "binary" else 1)

    def numbers(self, count: int, rows: Rows | None) -> Rows:
        """Check the given row numbers, or make the next ones."""
        last = max((int(part.rows[-1]) for part in self.parts if len(part.rows)), default=-1)
        if rows is None:
            return np.arange(last + 1, last + 1 + count, dtype=np.int64)
        given: Rows = np.asarray(rows, dtype=np.int64)
        if given.shape != (count,) or (np.diff(given, prepend=last) <= 0).any():
            raise OptionError(
                f"{counted(given.size, 'row number was', 'row numbers were')} given for "
                f"{counted(count, 'vector')}, after row {last}; "
                "expected as many, each greater than the one before. Leave them out to number them."
            )
        return given

    def add(self, vectors: Floats, rows: Rows) -> None:
        """Store vectors (n, dim) under rows (n,)."""
        self._rows.append(rows)
        self._vectors.append(to_precision(vectors, self.precision))
        self._live.append(np.ones(len(rows), dtype=np.bool_))
        self.alive += len(rows)

    def remove(self, rows: Rows) -> Positions:
        """Mark rows as removed; returns the positions of those that existed."""
        removed = self.positions(rows)
        self.live[removed] = False
        self.alive -= len(removed)
        return removed

    def positions(self, rows: Rows) -> Positions:
        """The positions of rows, increasing; missing and removed rows are left out."""
        wanted = np.unique(np.asarray(rows, dtype=np.int64))
        found, start = [np.empty(0, dtype=np.int64)], 0
        for part in self.parts:
            at = np.searchsorted(part.rows, wanted)
            inside = at < len(part.rows)
            at = at[inside]
            found.append(at[part.rows[at] == wanted[inside]] + start)
            start += len(part.rows)
        positions = np.concatenate(found)
        return positions[self.live[positions]]

    def rows_at(self, positions: Positions) -> Rows:
        """The row numbers at positions of any shape; -1 stays -1."""
        split = len(self.base.rows)
        rows = np.full(positions.shape, -1, dtype=np.int64)
        old = (positions >= 0) & (positions < split)
        rows[old] = self.base.rows[positions[old]]
        new = positions >= split
        rows[new] = self._rows.filled[positions[new] - split]
        return rows

    def take(self, positions: Positions) -> Floats:
        """The vectors at positions (n,), as floats (n, dim), without the factor."""
        split = len(self.base.rows)
        if (positions < split).all():
            return self.as_floats(self.base.vectors[positions])
        old = positions < split
        raw = np.empty((len(positions), self.base.vectors.shape[1]), self.base.vectors.dtype)
        raw[old] = self.base.vectors[positions[old]]
        raw[~old] = self._vectors.filled[positions[~old] - split]
        return self.as_floats(raw)

    def as_floats(self, raw: NDArray[Any]) -> Floats:
        """Turn stored values into float32 (n, dim), without the factor."""
        if self.precision == "binary":
            bits = np.unpackbits(raw, axis=1, count=self.dimension)
            return bits.astype(np.float32) * 2 - 1
        return np.asarray(raw, dtype=np.float32)

    def blocks(self, size: int, *, start: int = 0) -> Iterator[tuple[int, Floats]]:
        """Yield the vectors block by block with their first positions, without the factor."""
        first = 0
        for part in self.parts:
            for at in range(max(0, start - first), len(part.rows), size):
                yield first + at, self.as_floats(part.vectors[at : at + size])
            first += len(part.rows)


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of each query, best first, and their scores: both (queries, k).

    Where there are fewer rows than k, the row is -1 and the score -inf.
    """

    rows: Rows
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
