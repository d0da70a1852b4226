"""Vector search: exact, flat (binary codes, then exact scores) and HNSW under one contract."""

from ..errors import OptionError
from .base import ExactIndex, Index, Neighbors, VectorTable
from .flat import FlatIndex
from .hnsw import HnswIndex
from .knn import Close, Nearest, RowPairs, nearest
from .storage import open_index, save_index

__all__ = [
    "Close",
    "ExactIndex",
    "FlatIndex",
    "HnswIndex",
    "Index",
    "Nearest",
    "Neighbors",
    "RowPairs",
    "make_index",
    "nearest",
    "open_index",
    "save_index",
]

ENGINES: dict[str, type[Index]] = {kind.engine: kind for kind in (ExactIndex, FlatIndex, HnswIndex)}


def make_index(dimension: int, *, engine: str = "flat", precision: str = "float32") -> Index:
    """Make an empty index of one of the engines "exact", "flat" and "hnsw".

    >>> import numpy as np
    >>> index = make_index(2)
    >>> _ = index.add(np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32))
    >>> index.search(np.array([0, 1], dtype=np.float32), k=2).rows.tolist()
    [[1, 2]]
    """
    if engine not in ENGINES:
        raise OptionError(
            f"engine is {engine!r}; known are {', '.join(ENGINES)}. Choose one of these."
        )
    return ENGINES[engine](VectorTable(dimension, precision=precision))
