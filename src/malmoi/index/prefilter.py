"""A short form of many vectors: a third of their size, enough to tell which are worth a look.

Names of a lexicon do not fill their space evenly. Along the 127 directions in which they differ
most lies nine tenths of them, so a product of 127 numbers says nearly what one of 384 does; how
much of a name lies elsewhere is kept beside it, as a margin that its product may be short of.
What the sketch lets pass is scored by the whole vectors.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from ..types import Floats

WIDTH = 128  # directions, and the margin as the last column
LEAST = 1 << 14  # fewer names are multiplied whole as quickly
# The margin is where a product could be at worst; so far off are next to none.
_MARGIN = 0.7
# Of 2,166 mentions over KCD-9 the 40 nearest names all passed for 99 %; one name in 1,700 did
# not, mostly such as were about the 40th.
_SHARE, _FEWEST = 0.006, 5
_ROWS = 2048  # a block of sums for 256 mentions stays in the processor's cache
_SAMPLE = 4096
_LEARNT = 1 << 14  # names from which the directions are found
_SPREAD = 5.0  # deviations that an eighth bit holds; the rest is cut and adds to the margin


@dataclass(frozen=True)
class Prefilter:
    """Names along a few directions, eight bits a value, and how long the rest of each is."""

    rows: NDArray[np.int8]  # (names, WIDTH)
    axes: Floats  # (dim, WIDTH - 1), orthonormal
    steps: Floats  # (WIDTH,), what one unit of a column is worth

    @classmethod
    def build(cls, codes: NDArray[np.int8]) -> "Prefilter":
        """Sketch codes of shape (names, dim)."""
        learnt = codes[:: max(1, len(codes) // _LEARNT)].astype(np.float32)
        spread, vectors = np.linalg.eigh(learnt.T @ learnt / np.float32(len(learnt)))
        axes = np.ascontiguousarray(vectors[:, ::-1][:, : WIDTH - 1])
        deviations = np.sqrt(np.maximum(spread[::-1][: WIDTH - 1], 1e-6))
        longest = np.float32(np.sqrt(codes.shape[1]) * 127)  # of a vector, and so of a rest
        steps = np.append(deviations * _SPREAD / 127, longest / 127).astype(np.float32)
        rows = np.empty((len(codes), WIDTH), np.int8)
        for start in range(0, len(codes), _ROWS):
            block = codes[start : start + _ROWS].astype(np.float32)
            rows[start : start + _ROWS] = _sketched(block, axes, steps)
        return cls(rows, axes, steps)

    @classmethod
    def open(cls, folder: Path) -> "Prefilter":
        """Map what `save` has written."""
        return cls(*(np.asarray(open_array(folder / f"{name}.npy")) for name in _FILES))

    def save(self, folder: Path) -> None:
        """Write the sketch as .npy files."""
        for name in _FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    def shortlists(self, queries: Floats, count: int) -> list[NDArray[np.int32]]:
        """Give for each unit vector (n, dim) the names that may be among its `count` nearest."""
        asked = self._asked(queries)
        least = self._least(asked, count)
        owners: list[NDArray[np.intp]] = []
        rows: list[NDArray[np.int32]] = []
        for start in range(0, len(self.rows), _ROWS):
            block = self.rows[start : start + _ROWS].astype(np.float32)
            found = np.flatnonzero(asked @ block.T > least)
            owner, row = np.divmod(found, len(block))
            owners.append(owner)
            rows.append((row + start).astype(np.int32))
        owned = np.concatenate(owners).astype(np.uint16)  # which is sorted by radix
        order = np.argsort(owned, kind="stable")
        ends = np.cumsum(np.bincount(owned, minlength=len(queries)))
        return np.split(np.concatenate(rows)[order], ends[:-1])

    def _asked(self, queries: Floats) -> Floats:
        """Bring unit vectors into the sketch's columns. Shape (n, WIDTH)."""
        along = queries @ self.axes
        rest = np.sqrt(np.maximum(1 - np.square(along).sum(axis=1, keepdims=True), 0))
        asked: Floats = np.concatenate([along, _MARGIN * rest], axis=1) * self.steps
        return asked

    def _least(self, asked: Floats, count: int) -> Floats:
        """Find the scores that few names exceed, from a sample of these. Shape (n, 1)."""
        sample = self.rows[:: max(1, len(self.rows) // _SAMPLE)].astype(np.float32)
        wanted = max(_FEWEST * count, _SHARE * len(self.rows)) / len(self.rows)
        place = len(sample) - 1 - min(int(wanted * len(sample)), len(sample) - 1)
        return np.partition(asked @ sample.T, place, axis=1)[:, place : place + 1]


_FILES = ("rows", "axes", "steps")


def _sketched(block: Floats, axes: Floats, steps: Floats) -> NDArray[np.int8]:
    """Give rows of the sketch for vectors (n, dim)."""
    along = block @ axes
    codes = np.clip(np.rint(along / steps[:-1]), -127, 127)
    outside = np.square(block).sum(axis=1) - np.square(along).sum(axis=1)
    cut = np.square(along - codes * steps[:-1]).sum(axis=1)
    rest = np.sqrt(np.maximum(outside, 0) + cut)
    made: NDArray[np.int8] = np.column_stack([codes, np.rint(rest / steps[-1])]).astype(np.int8)
    return made
