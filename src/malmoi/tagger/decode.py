"""Probabilities of labels → entities, by the most probable valid sequence.

Labels are "O", "B-X" and "I-X". An I-X may only follow a B-X or an I-X.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import Floats, Ints

OUTSIDE = "O"
# Units that are "O" with this probability need no search; sequences are found between them.
_SURE = 0.999


@dataclass(frozen=True, slots=True)
class LabelRun:
    """Units first…last-1 are an entity; `score` is the mean probability of its labels."""

    first: int
    last: int
    type: str
    score: float


def make_labels(types: Sequence[str]) -> tuple[str, ...]:
    """Give the labels of entity types, "O" first.

    >>> make_labels(["Disease"])
    ('O', 'B-Disease', 'I-Disease')
    """
    return (OUTSIDE, *(f"{mark}-{name}" for name in types for mark in "BI"))


def decode(shares: Floats, labels: Sequence[str]) -> list[LabelRun]:
    """Find entities in (n, labels) probabilities."""
    path = np.zeros(len(shares), dtype=np.int64)
    allowed = _allowed(labels)
    unsure = np.concatenate([[False], shares[:, 0] < _SURE, [False]])
    edges = np.flatnonzero(np.diff(unsure.astype(np.int8)))
    for first, last in edges.reshape(-1, 2).tolist():
        path[first:last] = _likeliest(shares[first:last], allowed)
    return list(_runs(path, shares, labels))


def _allowed(labels: Sequence[str]) -> NDArray[np.bool_]:
    """Which label may follow which: (labels, labels), from the row to the column."""
    table = np.ones((len(labels), len(labels)), dtype=bool)
    for column, name in enumerate(labels):
        if name.startswith("I-"):
            table[:, column] = [before[2:] == name[2:] for before in labels]
    return table


def _likeliest(shares: Floats, allowed: NDArray[np.bool_]) -> Ints:
    """Viterbi: the best sum of logarithms among sequences whose steps are allowed."""
    scores = np.log(np.maximum(shares, 1e-12).astype(np.float64))
    steps = np.where(allowed, 0.0, -np.inf)
    best = scores[0] + steps[0]  # the unit before is no entity
    back = np.zeros(shares.shape, dtype=np.int64)
    for i in range(1, len(scores)):
        ways = best[:, None] + steps
        back[i] = ways.argmax(axis=0)
        best = ways.max(axis=0) + scores[i]
    path = np.zeros(len(scores), dtype=np.int64)
    path[-1] = best.argmax()
    for i in range(len(scores) - 1, 0, -1):
        path[i - 1] = back[i, path[i]]
    return path


def _runs(path: Ints, shares: Floats, labels: Sequence[str]) -> Iterator[LabelRun]:
    begins = [i for i in np.flatnonzero(path).tolist() if labels[path[i]].startswith("B-")]
    for first in begins:
        name = labels[path[first]][2:]
        last = first + 1
        while last < len(path) and labels[path[last]] == f"I-{name}":
            last += 1
        score = float(np.mean(shares[np.arange(first, last), path[first:last]]))
        yield LabelRun(first, last, name, score)
