"""Rounding to 8 bits, as the quantised graph does it, and the range that costs least."""

from collections.abc import Iterator

import numpy as np

Range = tuple[float, float]

# Names in 8-bit graphs, which smoothing gives and training from such a graph looks for.
EVENED = "_even_weights"  # a matrix whose input's columns are divided
FACTORS = "_even_factors"  # … by multiplying with these

# Shares of the range that are tried: a few far values are worth cutting off when every other
# value is then rounded more finely.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


def scale_and_zero(limits: Range) -> tuple[np.ndarray, np.ndarray]:
    """Give the step and the zero point with which 0 … 255 span the range.

    >>> [value.item() for value in scale_and_zero((-1.0, 254.0))]
    [1.0, 1]
    """
    low, high = limits
    scale = np.array(max(high - low, 1e-6) / 255, dtype=np.float32)
    return scale, np.array(np.clip(np.rint(-low / scale), 0, 255), dtype=np.uint8)


def round_values(values: np.ndarray, limits: Range) -> np.ndarray:
    """Round to the 256 values that span the range; what lies outside becomes its end."""
    scale, zero = scale_and_zero(limits)
    offset = np.float32(zero)
    rounded: np.ndarray = (np.clip(np.rint(values / scale) + offset, 0, 255) - offset) * scale
    return rounded


def round_weights(weights: np.ndarray) -> np.ndarray:
    """Round a matrix to 8 bits with one scale a column."""
    scales = np.maximum(np.abs(weights).max(axis=0), np.finfo(np.float32).tiny) / 127
    rounded: np.ndarray = np.rint(weights / scales) * scales
    return rounded


def narrower(limits: Range, shares: tuple[float, ...] = SHARES) -> Iterator[Range]:
    """The range, and those cut at either end."""
    low, high = limits
    for lower in shares if low else (1.0,):
        for upper in shares if high else (1.0,):
            yield low * lower, high * upper


def least_loss(rows: np.ndarray, limits: Range, weights: np.ndarray) -> Range:
    """Choose the range whose rounding changes a product with the weights least.

    `weights` holds what an error in each column costs: the squared length of its row in the
    matrix that the rows are multiplied by.
    """

    def loss(tried: Range) -> float:
        return float(np.square(round_values(rows, tried) - rows).sum(axis=0) @ weights)

    return min(narrower(limits), key=loss)
