"""Probabilities that mean what they say: temperature, and the reliability of what is left."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..types import Doubles

_LEAST, _MOST = 0.05, 20.0
_ROUNDS = 60
_GOLDEN = (5**0.5 - 1) / 2
_TINY = 1e-9  # the surest probability that a logarithm is taken of


@dataclass(frozen=True, slots=True)
class Bin:
    """Decisions of like probability: how many, what they said on average, how many were so."""

    low: float
    high: float
    count: int
    said: float
    was: float


def soften(probabilities: object, temperature: float) -> Doubles:
    """Divide log-probabilities by the temperature and make them add up to 1 again; (n, labels).

    >>> soften([[0.2, 0.8]], 1.0).round(3).tolist()
    [[0.2, 0.8]]
    """
    logs = np.log(np.clip(np.asarray(probabilities, dtype=np.float64), _TINY, 1.0)) / temperature
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Doubles = raised / raised.sum(axis=1, keepdims=True)
    return found


def fit_temperature(probabilities: object, labels: object) -> float:
    """Find the temperature under which the labels are likeliest, by golden section.

    >>> said = [[0.1, 0.9]] * 10
    >>> round(float(soften(said, fit_temperature(said, [1] * 7 + [0] * 3))[0, 1]), 3)
    0.7
    """
    table = np.asarray(probabilities, dtype=np.float64)
    gold = np.asarray(labels, dtype=np.intp)
    if not len(table):
        raise DataError("no decision to calibrate on; expected some. Name a file with notes.")
    low, high = np.log(_LEAST), np.log(_MOST)
    for _ in range(_ROUNDS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _surprise(table, gold, left) < _surprise(table, gold, right):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def reliability(probabilities: object, happened: object, *, bins: int = 10) -> list[Bin]:
    """Sort decisions by what they said into equal bins; empty ones are left out.

    >>> reliability([0.05, 0.95], [0, 1], bins=2)
    [Bin(low=0.0, high=0.5, count=1, said=0.05, was=0.0), \
Bin(low=0.5, high=1.0, count=1, said=0.95, was=1.0)]
    """
    said = np.asarray(probabilities, dtype=np.float64)
    was = np.asarray(happened, dtype=np.float64)
    places = np.minimum((said * bins).astype(np.intp), bins - 1)
    found = []
    for i in range(bins):
        here = places == i
        if here.any():
            edges = (i / bins, (i + 1) / bins)
            found.append(
                Bin(*edges, int(here.sum()), float(said[here].mean()), float(was[here].mean()))
            )
    return found


def expected_error(bins: list[Bin]) -> float:
    """The mean distance between what was said and what was so, weighted by count."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.said - one.was) for one in bins) / total


def _surprise(table: Doubles, gold: NDArray[np.intp], logarithm: float) -> float:
    softened = soften(table, float(np.exp(logarithm)))
    return float(-np.log(np.clip(softened[np.arange(len(gold)), gold], _TINY, 1.0)).mean())
