"""The vectors of an index under their row numbers: a file, and what was added since.

A file is memory-mapped and never modified; rows added later are kept in memory until the index is
saved. A removed row keeps its position, marked as removed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, counted
from ..runtime.pooling import check_precision, int8_scale, to_precision
from ..types import Floats
from .knn import Rows

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]

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
