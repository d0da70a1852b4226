"""A cheap bound on dot products, which says what pairs of vectors are worth a full one.

Vectors are rotated so that their first coordinates, the head, hold most of their length. The
product of two heads plus the product of the lengths that are left over (the residuals) is never
less than the product of the vectors (Cauchy–Schwarz). `join` finds pairs with it and misses none;
`Prefilter` stores it in eight bits and finds the nearest rows.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from ..types import Floats

WIDTH = 128  # columns of a Prefilter: the head, and the residual as the last one
LEAST = 1 << 14  # with fewer rows the full product is as fast
# The bound is the worst case. Seven tenths of it are enough for nearly all rows: of 2,166 mentions
# over KCD-9 99 % kept all of their 40 nearest names, and one name in 1,700 was lost, mostly one
# that was about the 40th.
_MARGIN = 0.7
_SHARE, _FEWEST = 0.006, 5  # how many rows pass: a share of all, and at least so many times k
_ROWS = 2048  # a block of products with 256 queries stays in the processor's cache
_SAMPLE = 4096
_FITTED = 1 << 14  # rows from which the axes are computed
_SPREAD = 5.0  # standard deviations that eight bits hold; what is cut off adds to the residual


def principal_axes(sample: Floats) -> tuple[Floats, Floats]:
    """Give the axes (dim, dim) along which vectors (n, dim) are longest, and their mean squares."""
    squares, axes = np.linalg.eigh(sample.T @ sample / np.float32(len(sample)))
    return np.ascontiguousarray(axes[:, ::-1]), squares[::-1]


def with_residual(heads: Floats, squares: Floats | float) -> Floats:
    """Append to heads (n, head) the length they lack of vectors with these squared lengths."""
    residual = np.sqrt(np.maximum(squares - np.square(heads).sum(axis=1), 0))
    return np.concatenate([heads, residual[:, None]], axis=1)  # (n, head + 1)


@dataclass(frozen=True)
class Prefilter:
    """Heads and residuals of many vectors, eight bits a value: a third of their size."""

    rows: NDArray[np.int8]  # (n, WIDTH)
    axes: Floats  # (dim, WIDTH - 1), orthonormal
    steps: Floats  # (WIDTH,), what one unit of a column is worth

    @classmethod
    def build(cls, codes: NDArray[np.int8]) -> "Prefilter":
        """Project int8 vectors (n, dim), a block at a time."""
        axes, squares = principal_axes(codes[:: max(1, len(codes) // _FITTED)].astype(np.float32))
        axes = np.ascontiguousarray(axes[:, : WIDTH - 1])
        deviations = np.sqrt(np.maximum(squares[: WIDTH - 1], 1e-6))
        longest = np.float32(np.sqrt(codes.shape[1]) * 127)
        steps = np.append(deviations * _SPREAD / 127, longest / 127).astype(np.float32)
        rows = np.empty((len(codes), WIDTH), np.int8)
        for start in range(0, len(codes), _ROWS):
            block = codes[start : start + _ROWS].astype(np.float32)
            heads = block @ axes
            cut = np.clip(np.rint(heads / steps[:-1]), -127, 127)
            lost = np.square(heads - cut * steps[:-1]).sum(axis=1)
            residuals = with_residual(heads, np.square(block).sum(axis=1) + lost)[:, -1]
            rows[start : start + _ROWS, :-1] = cut
            rows[start : start + _ROWS, -1] = np.rint(residuals / steps[-1])
        return cls(rows, axes, steps)

    @classmethod
    def open(cls, folder: Path) -> "Prefilter":
        """Map what `save` has written."""
        return cls(*(np.asarray(open_array(folder / f"{name}.npy")) for name in _FILES))

    def save(self, folder: Path) -> None:
        """Write the arrays as .npy files."""
        for name in _FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    def shortlists(self, queries: Floats, count: int) -> list[NDArray[np.int32]]:
        """Give for each unit vector (n, dim) the rows that may be among its `count` nearest."""
        heads = with_residual(queries @ self.axes, 1.0)
        heads[:, -1] *= _MARGIN
        heads *= self.steps
        least = self._least(heads, count)
        owners: list[NDArray[np.intp]] = []
        rows: list[NDArray[np.int32]] = []
        for start in range(0, len(self.rows), _ROWS):
            block = self.rows[start : start + _ROWS].astype(np.float32)
            found = np.flatnonzero(heads @ block.T > least)
            owner, row = np.divmod(found, len(block))
            owners.append(owner)
            rows.append((row + start).astype(np.int32))
        owned = np.concatenate(owners).astype(np.uint16)  # which is sorted by radix
        order = np.argsort(owned, kind="stable")
        ends = np.cumsum(np.bincount(owned, minlength=len(queries)))
        return np.split(np.concatenate(rows)[order], ends[:-1])

    def _least(self, heads: Floats, count: int) -> Floats:
        """Find from a sample the bounds that few rows exceed. Shape (n, 1)."""
        sample = self.rows[:: max(1, len(self.rows) // _SAMPLE)].astype(np.float32)
        wanted = max(_FEWEST * count, _SHARE * len(self.rows)) / len(self.rows)
        at = len(sample) - 1 - min(int(wanted * len(sample)), len(sample) - 1)
        return np.partition(heads @ sample.T, at, axis=1)[:, at : at + 1]


_FILES = ("rows", "axes", "steps")
