"""The probabilities of many windows → the document's, by a rule, and their calibration.

Shapes: a document's windows (n, labels), a document's probabilities (labels,), both float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError, TextError, check_choice, counted
from ..runtime.pooling import softmax
from ..types import Doubles

RULES = ("joint", "max", "mean", "first")
C = 2.0
# From "nearly the mean" to "nearly the largest", each about 1.6 times the one before.
GRID = (0.1, 0.2, 0.3, 0.5, 0.8, 1.3, 2.0, 3.2, 5.0, 8.0, 13.0, 20.0, 32.0, 50.0, 100.0, 1000.0)
# Beyond these a temperature says that the notes are too few or too easy, not how sure to be.
_LEAST, _MOST = 0.5, 5.0
ENOUGH = 50  # documents to fit a temperature on
ENOUGH_OF_EACH = 5  # of each label
_ROUNDS = 60
_GOLDEN = (5**0.5 - 1) / 2
_TINY = 1e-9  # the smallest probability of which a logarithm is taken


@dataclass(frozen=True)
class Rule:
    """How windows decide: the name of one of `RULES`, and the `c` of "joint"."""

    name: str = "joint"
    c: float = C

    def __post_init__(self) -> None:
        check_choice("rule", self.name, RULES)
        if not self.c > 0:
            raise OptionError(f"c is {self.c}; expected more than 0. Leave it out for {C:g}.")


def joint(windows: object, c: float = C) -> Doubles:
    """Give (P_max + P_mean · n/c) / (1 + n/c) for each label.

    With few windows the strongest one decides, with many their mean; `c` says how many that is.
    One window keeps its own probability.

    >>> joint([[0.2], [0.8]], c=2.0).round(4).tolist()
    [0.65]
    """
    table = _table(windows)
    share = len(table) / c
    found: Doubles = (table.max(axis=0) + table.mean(axis=0) * share) / (1 + share)
    return found


def combine(windows: object, rule: Rule, *, exclusive: bool = True) -> Doubles:
    """Decide by a rule; of labels that exclude each other the probabilities add up to 1 again."""
    table = _table(windows)
    if rule.name == "joint":
        found = joint(table, rule.c)
    elif rule.name == "max":
        found = table.max(axis=0)
    else:
        found = table[0] if rule.name == "first" else table.mean(axis=0)
    if not exclusive:
        return found
    # The formula is for the probability of one event, which dividing by the sum would change: of
    # two labels the second, the positive one, stays as the rule made it.
    if len(found) == 2:
        return np.array([1 - found[1], found[1]])
    return found / found.sum() if len(found) > 2 else found


def tune(
    documents: Sequence[object],
    score: Callable[[list[Doubles]], float],
    *,
    grid: object = GRID,
    exclusive: bool = True,
) -> float:
    """Choose the `c` whose decisions have the best score; of equal ones the middle one.

    `documents` are tables of windows; `score` takes the list of their decisions.
    """
    choices = [float(c) for c in np.asarray(grid, dtype=np.float64)]
    rules = [Rule("joint", c) for c in choices]
    scores = [score([combine(d, rule, exclusive=exclusive) for d in documents]) for rule in rules]
    best = [c for c, found in zip(choices, scores, strict=True) if found >= max(scores) - 1e-12]
    return best[len(best) // 2]


def _table(windows: object) -> Doubles:
    table = np.asarray(windows, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if not len(table):
        raise TextError("the note has no text; expected some. Leave empty notes out.")
    return table


@dataclass(frozen=True, slots=True)
class Bin:
    """Decisions of similar probability: their count, mean probability and share that was true."""

    low: float
    high: float
    count: int
    said: float
    was: float


def soften(probabilities: object, temperature: float, *, exclusive: bool = True) -> Doubles:
    """Divide log-probabilities by the temperature and make them add up to 1 again; (n, labels).

    Of labels that do not exclude each other, each adds up to 1 with its absence.

    >>> soften([[0.2, 0.8]], 1.0).round(3).tolist()
    [[0.2, 0.8]]
    """
    given = np.asarray(probabilities, dtype=np.float64)
    if not exclusive:
        return soften(np.stack([1 - given, given], axis=-1), temperature)[..., 1]
    logs: Doubles = np.log(np.clip(given, _TINY, 1.0))
    return softmax(logs / temperature)


def fit_temperature(probabilities: object, labels: object) -> float:
    """Find the temperature, from 0.5 to 5, under which the labels are most probable.

    `labels` are numbers (n,), or 0 and 1 for each label (n, labels) where several may be right.

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


def calibrate(probabilities: object, labels: object) -> tuple[float, str]:
    """Fit a temperature where there are enough decisions, else 1, and say which in one line.

    The labels are those of `fit_temperature`.

    >>> calibrate([[0.42, 0.58]], [1])
    (1.0, 'probabilities are as the model gives them: 1 dev document, 50 are needed to calibrate')
    """
    gold = np.asarray(labels, dtype=np.intp)
    columns = np.asarray(probabilities).shape[-1]
    if gold.ndim == 2:
        fewest = int(np.minimum(gold.sum(axis=0), (1 - gold).sum(axis=0)).min())
    else:
        fewest = int(np.bincount(gold, minlength=columns).min())
    as_given = "probabilities are as the model gives them"
    if len(gold) < ENOUGH:
        documents = counted(len(gold), "dev document")
        return 1.0, f"{as_given}: {documents}, {ENOUGH} are needed to calibrate"
    if fewest < ENOUGH_OF_EACH:
        few = f"a label {'or its absence ' * (gold.ndim == 2)}has {counted(fewest, 'dev document')}"
        return 1.0, f"{as_given}: {few}, {ENOUGH_OF_EACH} are needed to calibrate"
    found = fit_temperature(probabilities, gold)
    bound = ", at its bound" if not _LEAST * 1.01 < found < _MOST / 1.01 else ""
    documents = counted(len(gold), "dev document")
    return found, f"probabilities are calibrated on {documents}: temperature {found:.2f}{bound}"


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
    several = gold.ndim == 2
    softened = soften(table, float(np.exp(logarithm)), exclusive=not several)
    right = (
        np.where(gold, softened, 1 - softened) if several else softened[np.arange(len(gold)), gold]
    )
    return float(-np.log(np.clip(right, _TINY, 1.0)).mean())
