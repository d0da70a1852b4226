"""Token states → one vector a text: poolings and activations, chosen by name.

Shapes: states (n, length, hidden) float32, mask (n, length) with 1 for real tokens, vectors
(n, hidden) float32. Bundles that malmoi exports pool inside their graph; these functions are for
folders of sentence-transformers and for chosen layers.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import check_choice
from ..types import Doubles, Floats, Ints

F = TypeVar("F", np.float32, np.float64)


def cls(states: Floats, mask: Ints) -> Floats:
    """The first token's state."""
    return states[:, 0]


def mean(states: Floats, mask: Ints) -> Floats:
    """The mean over real tokens."""
    return _sum(states, mask) / _count(mask)


def mean_sqrt_len(states: Floats, mask: Ints) -> Floats:
    """The sum over real tokens, divided by the root of their number."""
    roots: Floats = np.sqrt(_count(mask))
    return _sum(states, mask) / roots


def maximum(states: Floats, mask: Ints) -> Floats:
    """The largest value over real tokens, in each dimension."""
    lowest = np.float32(np.finfo(np.float32).min)
    largest = np.where(mask[:, :, None] == 1, states, lowest).max(axis=1)
    return np.where(mask.any(axis=1, keepdims=True), largest, np.float32(0))


def weightedmean(states: Floats, mask: Ints) -> Floats:
    """The mean with weights 1, 2, 3 … by position, as decoder models use it."""
    weights = np.cumsum(mask, axis=1) * mask  # (n, length)
    return _sum(states, weights) / _count(weights)


def lasttoken(states: Floats, mask: Ints) -> Floats:
    """The last real token's state."""
    last = np.maximum(mask.sum(axis=1) - 1, 0)
    found: Floats = states[np.arange(len(states)), last]
    return found


def _sum(states: Floats, weights: Ints) -> Floats:
    total: Floats = np.einsum("nld,nl->nd", states, weights.astype(np.float32), dtype=np.float32)
    return total


def _count(weights: Ints) -> Floats:
    """The sum of each row, at least 1 for a text without tokens; (n, 1)."""
    count: Floats = np.maximum(weights.sum(axis=1, keepdims=True), 1).astype(np.float32)
    return count


FUNCTIONS: dict[str, Callable[[Floats, Ints], Floats]] = {
    "cls": cls,
    "mean": mean,
    "max": maximum,
    "mean_sqrt_len": mean_sqrt_len,
    "weightedmean": weightedmean,
    "lasttoken": lasttoken,
}


def pool(states: Floats, mask: Ints, pooling: str) -> Floats:
    """Apply a pooling by name; names joined by "+" give concatenated vectors."""
    parts = [FUNCTIONS[name](states, mask) for name in pooling.split("+")]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def normalize(vectors: Floats) -> Floats:
    """Give each row length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    # The bound is that of torch's functional.normalize.
    unit: Floats = vectors / np.maximum(lengths, np.float32(1e-12))
    return unit


def softmax(logits: NDArray[F]) -> NDArray[F]:
    """Turn scores into probabilities that sum to 1 over the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: NDArray[F] = raised / raised.sum(axis=-1, keepdims=True)
    return shares


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "identity": lambda x: x,
    "tanh": lambda x: np.tanh(x),
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(np.float32),
    "gelu": lambda x: (x * 0.5 * (1 + _erf(x / np.sqrt(2)))).astype(np.float32),
}


def _erf(x: Floats) -> Doubles:
    """The error function, by Abramowitz and Stegun 7.1.26 (numpy has none); exact to 1.5e-7."""
    size = np.abs(x.astype(np.float64))
    t = 1 / (1 + 0.3275911 * size)
    series = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t
    tail = (series + 0.254829592) * t * np.exp(-(size**2))
    found: Doubles = np.sign(x) * (1 - tail)
    return found


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
