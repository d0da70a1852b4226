"""Vectors at a quarter (int8) or a thirty-second (binary) of their size.

int8 uses one scale for every vector of a model, so that integer dot products are comparable;
binary keeps the sign of each dimension, eight to a byte.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import check_choice

Precision = Literal["float32", "int8", "binary"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

# A unit vector's values have a standard deviation of 1/√dim. Six of these hold all but a few
# in a million, and outliers are clipped.
_DEVIATIONS = 6.0


def int8_scale(dim: int) -> float:
    """The factor between a unit vector's value and its int8 code."""
    return 127.0 * float(np.sqrt(dim)) / _DEVIATIONS


def to_precision(vectors: NDArray[np.float32], precision: str) -> NDArray[Any]:
    """Turn unit vectors (…, dim) into float32, int8 (…, dim) or binary uint8 (…, dim/8).

    >>> to_precision(np.array([[0.6, -0.8]], dtype=np.float32), "binary").tolist()
    [[128]]
    """
    check_precision(precision)
    if precision == "int8":
        scaled = np.rint(vectors * np.float32(int8_scale(vectors.shape[-1])))
        codes: NDArray[np.int8] = np.clip(scaled, -127, 127).astype(np.int8)
        return codes
    if precision == "binary":
        return np.packbits(vectors > 0, axis=-1)
    return vectors


def from_int8(codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Turn int8 codes back into float32 vectors, exact to half a step of the scale."""
    return codes.astype(np.float32) / np.float32(int8_scale(codes.shape[-1]))


def check_precision(precision: str) -> None:
    """Raise an OptionError for a precision that is not known."""
    check_choice("precision", precision, PRECISIONS)
