"""Vectors laid out flat, so that they can be looked at."""

import numpy as np
from numpy.typing import NDArray

from ..types import Floats


def flat(vectors: Floats) -> NDArray[np.float64]:
    """Give the two directions in which vectors (n, dim) differ most; (n, 2), within -1 to 1.

    >>> flat(np.eye(3, dtype=np.float32)[:1]).tolist()
    [[0.0, 0.0]]
    """
    count = len(vectors)
    if count < 2:
        return np.zeros((count, 2))
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    left, strengths, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((count, 2))
    width = min(2, len(strengths))
    points[:, :width] = left[:, :width] * strengths[:width]
    # A direction's sign is the solver's whim; the first point that differs is put on the right.
    for axis in range(2):
        largest = np.argmax(np.abs(points[:, axis]))
        points[:, axis] *= 1.0 if points[largest, axis] >= 0 else -1.0
    longest = float(np.abs(points).max())
    return points / longest if longest > 1e-9 else np.zeros((count, 2))
