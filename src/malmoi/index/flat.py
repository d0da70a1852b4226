"""The default engine: binary codes propose rows, which are then scored exactly.

A code is a few hundred signs of a vector. Its mean is subtracted and the rest is multiplied by
random rotations, so that every bit is about equally informative; codes are compared by counting
differing bits. They are stored as planes, 64 bits of every row together: a plane is one long array
of words, which numpy compares and counts at the speed of memory.
"""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ..runtime.session import usable_cores
from ..types import Floats
from .base import Growing, Index, Mask, Positions, VectorTable

Planes = NDArray[np.uint64]
Distances = NDArray[np.uint16]

BITS = 512
_CODE_BLOCK = 65_536  # 512 KB of words, which stay in a core's own cache
# How many rows the codes propose: a hundred for each that is wanted, and a share of all, since in
# a larger table more rows are nearly as near. See docs/decisions/flat-index.md.
_FOR_EACH = 100
_SHARE = 250
_SAMPLE = 16_384
_BLOCK = 4096  # rows turned into codes at once: 6 MB, which is reused memory
_FAR = np.iinfo(np.uint16).max


class BinaryCodes:
    """How vectors become planes of bits: a mean (dim,) and rotations (dim, bits)."""

    def __init__(self, mean: Floats, frame: Floats) -> None:
        self.mean, self.frame = mean, frame

    @classmethod
    def of(cls, sample: Floats) -> "BinaryCodes":
        """Fit the mean to a sample of vectors (n, dim)."""
        dimension = sample.shape[1]
        random = np.random.default_rng(0)
        rotations = [
            np.linalg.qr(random.standard_normal((dimension, dimension)))[0]
            for _ in range(-(-BITS // dimension))
        ]
        frame = np.concatenate(rotations, axis=1)[:, :BITS].astype(np.float32)
        return cls(sample.mean(axis=0, dtype=np.float64).astype(np.float32), frame)

    def planes(self, vectors: Floats) -> Planes:
        """Turn vectors (n, dim) into planes (bits / 64, n)."""
        bits = np.packbits((vectors - self.mean) @ self.frame > 0, axis=1)  # (n, bits / 8)
        return np.ascontiguousarray(bits.view(np.uint64).T)


def count_bits(planes: Planes, code: Planes, out: Distances) -> None:
    """Write into `out` (n,) how many bits of each row differ from the code (words, 1)."""

    def part(start: int, end: int) -> None:
        differing = np.empty(_CODE_BLOCK, dtype=np.uint64)
        counted = np.empty(_CODE_BLOCK, dtype=np.uint8)
        for at in range(start, end, _CODE_BLOCK):
            size = min(_CODE_BLOCK, end - at)
            total = out[at : at + size]
            total[:] = 0
            for plane, word in zip(planes, code[:, 0], strict=True):
                np.bitwise_xor(plane[at : at + size], word, out=differing[:size])
                np.bitwise_count(differing[:size], out=counted[:size])
                np.add(total, counted[:size], out=total)

    in_threads(part, planes.shape[1])


def in_threads(part: Callable[[int, int], None], count: int) -> None:
    """Run `part(start, end)` over a range of `count`, one section a core."""
    cores = min(usable_cores(), max(1, count // _CODE_BLOCK))
    if cores == 1:
        part(0, count)
        return
    ends = [count * i // cores for i in range(cores + 1)]
    list(_pool().map(part, ends[:-1], ends[1:]))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="malmoi-index")


class FlatIndex(Index):
    """Compares every row's code with the query's, and scores the nearest exactly.

    Codes are made when they are first needed, so that a small index never has any.
    """

    engine = "flat"

    def __init__(
        self, table: VectorTable, *, codes: BinaryCodes | None = None, planes: Planes | None = None
    ) -> None:
        super().__init__(table)
        self.codes = codes
        self._base = planes
        self._grown: Growing | None = None
        self._lock = threading.Lock()

    def shared_with(self, other: "FlatIndex") -> None:
        """Use the codes of another index over the same table."""
        self.codes, self._base, self._grown = other.codes, other._base, other._grown

    def proposals(self, k: int) -> int:
        """How many rows are scored exactly when `k` are wanted."""
        return max(_FOR_EACH * k, len(self.table) // _SHARE)

    def planes(self) -> list[Planes]:
        """The codes of all rows; missing ones are made first."""
        with self._lock:
            codes = self.codes = self.codes or BinaryCodes.of(self._sample())
            base = self._base if self._base is not None else np.empty((0, 0), dtype=np.uint64)
            words = codes.frame.shape[1] // 64
            grown = self._grown = self._grown or Growing((words, 0), np.uint64, axis=1)
            for _, block in self.table.blocks(_BLOCK, start=base.shape[1] + grown.count):
                grown.append(codes.planes(block * self.table.factor))
            return [part for part in (base, grown.filled) if part.size]

    def _propose(self, query: Floats, k: int, allowed: Mask | None) -> Positions:
        planes = self.planes()
        assert self.codes is not None  # planes() made them
        code = self.codes.planes(query[None])  # (words, 1)
        distances = np.empty(sum(part.shape[1] for part in planes), dtype=np.uint16)
        start = 0
        for part in planes:
            count_bits(part, code, distances[start : start + part.shape[1]])
            start += part.shape[1]
        if allowed is not None:
            distances[~allowed] = _FAR
        elif len(self.table) > len(self):
            distances[~self.table.live] = _FAR
        return _nearest(distances, self.proposals(k))

    def _sample(self) -> Floats:
        """Vectors from all over the table."""
        step = max(1, -(-len(self.table) // _SAMPLE))
        positions = np.arange(0, len(self.table), step)
        return self.table.take(positions) * self.table.factor


def _nearest(distances: Distances, count: int) -> Positions:
    """Positions of the `count` smallest distances, and of most that tie with the last."""
    if count >= len(distances):
        return np.arange(len(distances))
    # A bound from a sample leaves few distances to find the true limit among.
    sample = np.sort(distances[:: max(1, len(distances) // _SAMPLE)])
    bound = sample[min(len(sample) - 1, len(sample) * count // len(distances) * 5 // 4 + 10)]
    near = np.flatnonzero(distances <= bound)
    if len(near) < count:
        near = np.arange(len(distances))
    limit = np.partition(distances[near], count - 1)[count - 1]
    found: Positions = near[distances[near] <= limit]
    # Many copies may tie; then the strictly nearer rows come first.
    if len(found) > 2 * count:
        nearer = np.flatnonzero(distances < limit)
        ties = np.flatnonzero(distances == limit)
        found = np.concatenate([nearer, ties[: 2 * count - len(nearer)]])
    return found
