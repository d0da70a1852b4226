"""A few hundred signs for a vector, compared by counting the bits that differ.

A vector's centre is taken off and what is left is turned by random rotations, so that every bit
tells about as much as every other. The bits stand in planes, 64 of every row together: a plane is
one long run of words, which numpy compares and counts at the speed of memory.
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ..session import usable_cores
from .nearest import Floats

Planes = NDArray[np.uint64]
Distances = NDArray[np.uint16]

BITS = 512
_WORD = 64
_BLOCK = 65_536  # 512 KB of words, which stay in a core's own cache


class Codes:
    """How vectors of `dimension` become planes of bits: a centre (dim,) and a frame (dim, bits)."""

    def __init__(self, mean: Floats, frame: Floats) -> None:
        self.mean, self.frame = mean, frame

    @classmethod
    def of(cls, sample: Floats) -> "Codes":
        """Fit the centre to a sample of vectors (n, dim)."""
        dimension = sample.shape[1]
        random = np.random.default_rng(0)
        turns = [
            np.linalg.qr(random.standard_normal((dimension, dimension)))[0]
            for _ in range(-(-BITS // dimension))
        ]
        frame = np.concatenate(turns, axis=1)[:, :BITS].astype(np.float32)
        return cls(sample.mean(axis=0, dtype=np.float64).astype(np.float32), frame)

    def planes(self, vectors: Floats) -> Planes:
        """Turn vectors (n, dim) into planes (bits / 64, n)."""
        bits = np.packbits((vectors - self.mean) @ self.frame > 0, axis=1)  # (n, bits / 8)
        return np.ascontiguousarray(bits.view(np.uint64).T)


def count_bits(planes: Planes, code: Planes, out: Distances) -> None:
    """Write into `out` (n,) how many bits of each column differ from the code (words, 1)."""

    def part(start: int, end: int) -> None:
        differing = np.empty(_BLOCK, dtype=np.uint64)
        counted = np.empty(_BLOCK, dtype=np.uint8)
        for at in range(start, end, _BLOCK):
            size = min(_BLOCK, end - at)
            total = out[at : at + size]
            total[:] = 0
            for plane, word in zip(planes, code[:, 0], strict=True):
                np.bitwise_xor(plane[at : at + size], word, out=differing[:size])
                np.bitwise_count(differing[:size], out=counted[:size])
                np.add(total, counted[:size], out=total)

    in_threads(part, planes.shape[1])


def in_threads(part: Callable[[int, int], None], count: int) -> None:
    """Run `part(start, end)` over `count` things, a stretch a core."""
    cores = min(usable_cores(), max(1, count // _BLOCK))
    if cores == 1:
        part(0, count)
        return
    ends = [count * i // cores for i in range(cores + 1)]
    list(_pool().map(part, ends[:-1], ends[1:]))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="malmoi-index")
