"""Calibration of probabilities: temperature scaling, and the reliability of the result."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..runtime.pooling import softmax
from ..types import Doubles

_LEAST, _MOST = 0.05, 20.0
_ROUNDS = 60
_GOLDEN = (5**0.5 - 1) / 2
_TINY = 1e-9  # the smallest probability of which a logarithm is taken


@dataclass(frozen=True, slots=True)
class Bin:
    """Decisions of similar probability: their count, mean probability and share that was true."""

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
    logs: Doubles = np.log(np.clip(np.asarray(probabilities, dtype=np.float64), _TINY, 1.0))
    return softmax(logs / temperature)


def fit_temperature(probabilities: object, labels: object) -> float:
    """Find the temperature under which the labels are most probable, by golden section.

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
    """Sort decisions by probability into bins of equal width; empty ones are left out.

    >>> reliability([0.05, 0.95], [0, 1], bins=2)
    [Bin(low=0.0, high=0.5, count=1, said=0.05, was=0.0), \
Bin(low=0.5, high=1.0, count=1, said=0.95, was=1.0)]
    """
    said = np.asarray(probabilities, dtype=np.float64)
    was = np.asarray(happened, dtype=np.float64)
    owners = np.minimum((said * bins).astype(np.intp), bins - 1)
    found = []
    for i in sorted(set(owners.tolist())):
        here = owners == i
        means = float(said[here].mean()), float(was[here].mean())
        found.append(Bin(i / bins, (i + 1) / bins, int(here.sum()), *means))
    return found


def expected_error(bins: list[Bin]) -> float:
    """The mean distance between probability and truth, weighted by count."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.said - one.was) for one in bins) / total


def _surprise(table: Doubles, gold: NDArray[np.intp], logarithm: float) -> float:
    softened = soften(table, float(np.exp(logarithm)))
    return float(-np.log(np.clip(softened[np.arange(len(gold)), gold], _TINY, 1.0)).mean())
