"""All pairs above a cosine, among very many vectors: none missed, most looked at briefly.

Vectors are turned so that their first coordinates hold most of their length. The product of the
heads, plus the product of what is left of their lengths, is never less than the cosine (Cauchy
and Schwarz), so the full product is needed only for the few pairs whose short one is enough.
"""

from collections.abc import Iterator

import numpy as np

from ..index import Close, close_pairs
from ..pooling import Floats

_FEW = 20_000  # below this, the full product is as fast
_SAMPLE = 20_000
_TAIL = 0.3  # a head is long enough when less than this is left of half of the vectors
_STEP = 16
_ROWS = 65_536
_PAIRS = 200_000  # full products at once
_ROUNDING = 1e-5  # float32 products of unit vectors are right to less than this


def all_close(vectors: Floats, *, least: float, seed: int = 0) -> Iterator[Close]:
    """Yield every pair of unit vectors (n, dim) whose cosine is `least` or more, once each."""
    if len(vectors) < _FEW:
        yield from close_pairs(vectors, least=least)
        return
    short = _shortened(vectors, seed)
    for block in close_pairs(short, least=least - _ROUNDING):
        for at in range(0, len(block.left), _PAIRS):
            left, right = block.left[at : at + _PAIRS], block.right[at : at + _PAIRS]
            scores = np.einsum("nd,nd->n", vectors[left], vectors[right])
            kept = scores >= least
            if kept.any():
                yield Close(left[kept], right[kept], scores[kept])


def _shortened(vectors: Floats, seed: int) -> Floats:
    """Give each vector's head and the length of its rest, (n, head + 1)."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(vectors), size=min(_SAMPLE, len(vectors)), replace=False))
    sample = np.ascontiguousarray(vectors[chosen])
    # The directions in which the sample is longest; any rotation keeps products as they are.
    _, axes = np.linalg.eigh(sample.T @ sample)
    axes = np.ascontiguousarray(axes[:, ::-1]).astype(np.float32)  # (dim, dim), the longest first
    left = 1 - np.cumsum(np.square(sample @ axes), axis=1)  # (sample, dim) of the squared length
    enough = np.flatnonzero(np.median(left, axis=0) <= _TAIL**2)
    head = min(vectors.shape[1], (int(enough[0]) // _STEP + 1) * _STEP)
    short = np.empty((len(vectors), head + 1), dtype=np.float32)
    for at in range(0, len(vectors), _ROWS):
        part = vectors[at : at + _ROWS]
        own = short[at : at + _ROWS]
        own[:, :head] = part @ axes[:, :head]
        rest = np.square(part).sum(axis=1) - np.square(own[:, :head]).sum(axis=1)
        own[:, head] = np.sqrt(np.maximum(rest, 0))
    return short
