"""Measures as functions of weights: how often each item is in a resample.

A measure is prepared once from its data; it then takes weights (rounds, n) and gives one value per
round, (rounds,). All ones give the plain value; the counts of a bootstrap's draws give its
samples, thousands at a time, with ties handled exactly. An undefined measure is NaN.
"""

from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..types import Doubles

Measure = Callable[[Doubles], Doubles]
LOWER_IS_BETTER = ("mae", "rmse")

# A spread this much smaller than the values themselves is rounding, not variation.
_ROUNDING = 1e-13


def value(measure: Measure, count: int) -> float:
    """The plain value of a measure over `count` items.

    >>> value(mean([0.0, 1.0]), 2)
    0.5
    """
    return float(measure(np.ones((1, count)))[0])


def mean(values: object) -> Measure:
    """The mean of one number per item."""
    column = np.asarray(values, dtype=np.float64)  # (n,)
    return lambda weights: np.asarray(weights @ column / weights.sum(axis=1))


def ratio(upper: Doubles, lower: Doubles) -> Measure:
    """The sum of one count per item, divided by that of another; 0 where the latter is 0."""

    def measure(weights: Doubles) -> Doubles:
        total = weights @ lower
        return np.divide(weights @ upper, total, out=np.zeros_like(total), where=total > 0)

    return measure


def number_groups(names: Iterable[Hashable]) -> NDArray[np.intp]:
    """Number the groups that items belong to, (n,), in the order in which they come.

    >>> number_groups(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.intp)


def pearson(x: object, y: object) -> Measure:
    """How well a straight line relates x and y.

    >>> round(value(pearson([1, 2, 4], [1, 3, 5]), 3), 4)
    0.982
    """
    left, right = (np.asarray(side, dtype=np.float64)[None] for side in (x, y))
    return lambda weights: _correlate(left, right, weights)


def spearman(x: object, y: object) -> Measure:
    """How well the order of x is that of y; ties share the mean of their ranks.

    >>> round(value(spearman([1, 2, 3, 4], [10, 30, 20, 40]), 4), 4)
    0.8
    """
    left, right = ranks(x), ranks(y)
    return lambda weights: _correlate(left(weights), right(weights), weights)


def ranks(values: object) -> Callable[[Doubles], Doubles]:
    """Prepare the ranks of values within resamples: weights (rounds, n) → ranks (rounds, n).

    >>> ranks([7, 5, 7])(np.ones((1, 3))).tolist()
    [[2.5, 1.0, 2.5]]
    """
    order, starts, group = _ties(np.asarray(values, dtype=np.float64))

    def ranked(weights: Doubles) -> Doubles:
        sizes = np.add.reduceat(weights[:, order], starts, axis=1)  # (rounds, groups)
        middles = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
        return middles[:, group]

    return ranked


def average_precision(scores: object, same: object) -> Measure:
    """The area under precision over recall, by steps; equal scores make one step.

    >>> round(value(average_precision([0.9, 0.8, 0.7], [1, 0, 1]), 3), 4)
    0.8333
    """
    steps = _Steps(scores, same)

    def measure(weights: Doubles) -> Doubles:
        found, hits = steps.cumulate(weights)
        gained = np.diff(hits, axis=1, prepend=0.0)
        precision = np.divide(hits, found, out=np.zeros_like(hits), where=found > 0)
        return _ratio((gained * precision).sum(axis=1), hits[:, -1])

    return measure


def auroc(scores: object, same: object) -> Measure:
    """The area under the ROC curve: how often one of the same outscores another, ties by half.

    >>> value(auroc([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0]), 4)
    0.75
    """
    steps = _Steps(scores, same)

    def measure(weights: Doubles) -> Doubles:
        found, hits = (np.pad(part, ((0, 0), (1, 0))) for part in steps.cumulate(weights))
        misses = found - hits
        area = (np.diff(misses, axis=1) * (hits[:, 1:] + hits[:, :-1]) / 2).sum(axis=1)
        return _ratio(area, hits[:, -1] * misses[:, -1])

    return measure


def recall_at_precision(scores: object, same: object, precision: float) -> Measure:
    """The largest share that is found while at least `precision` of what is found is right.

    >>> value(recall_at_precision([0.9, 0.8, 0.7, 0.1], [1, 1, 0, 1], 0.8), 4) == 2 / 3
    True
    """
    steps = _Steps(scores, same)

    def measure(weights: Doubles) -> Doubles:
        found, hits = steps.cumulate(weights)
        good = (hits >= precision * found - 1e-9) & (found > 0)
        return _ratio(np.where(good, hits, 0.0).max(axis=1), hits[:, -1])

    return measure


def best_accuracy(scores: object, same: object) -> Measure:
    """The share judged rightly by the best threshold on the scores.

    >>> value(best_accuracy([0.9, 0.8, 0.1], [1, 0, 0]), 3)
    1.0
    """
    steps = _Steps(scores, same)
    return lambda weights: np.asarray(steps.accuracies(weights).max(axis=1))


def best_f1(scores: object, same: object) -> Measure:
    """The best F1 of the pairs that are the same, over all thresholds on the scores."""
    steps = _Steps(scores, same)
    return lambda weights: np.asarray(steps.f1s(weights).max(axis=1))


def best_thresholds(scores: object, same: object) -> tuple[float, float]:
    """The thresholds of the best accuracy and of the best F1: scores at or above them are "same".

    Each is in the middle between the two scores that it separates.

    >>> best_thresholds([0.9, 0.5, 0.1], [1, 0, 0])
    (0.7, 0.7)
    """
    steps = _Steps(scores, same)
    ones = np.ones((1, len(steps.order)))
    edges = np.concatenate([steps.values, [steps.values[-1] - 1e-6]])
    middles = np.concatenate([[edges[0] + 1e-6], (edges[:-1] + edges[1:]) / 2])
    at = (int(found.argmax()) for found in (steps.accuracies(ones), steps.f1s(ones)))
    accuracy, f1 = (float(middles[i]) for i in at)
    return accuracy, f1


def macro_f1(predicted: object, gold: object) -> Measure:
    """The mean over classes of F1, each class weighing the same."""
    guess, truth = np.asarray(predicted), np.asarray(gold)
    classes = np.union1d(guess, truth)
    one_hot = (side[:, None] == classes for side in (guess, truth))  # (n, classes)
    return set_f1(*one_hot, macro=True)


def set_f1(predicted: object, gold: object, *, macro: bool = False) -> Measure:
    """F1 of sets of labels (n, labels), 0 or 1 each: over all labels, or the mean over labels.

    >>> round(value(set_f1([[1, 0], [1, 1]], [[1, 1], [0, 1]]), 2), 4)
    0.6667
    """
    guess, truth = (np.asarray(side, dtype=np.float64) for side in (predicted, gold))
    right, either = guess * truth, guess + truth
    if not macro:
        right, either = right.sum(axis=1, keepdims=True), either.sum(axis=1, keepdims=True)

    def measure(weights: Doubles) -> Doubles:
        hits, total = weights @ right, weights @ either
        return known_mean(_ratio(2 * hits, total).T)

    return measure


def known_mean(values: object) -> Doubles:
    """The mean over the first axis of what is defined: a label that a resample lost is not."""
    table = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(table)
    return _ratio(np.where(known, table, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def root_mean_square(errors: object) -> Measure:
    """The root of the mean square of one error per item."""
    squares = mean(np.square(np.asarray(errors, dtype=np.float64)))
    return lambda weights: np.asarray(np.sqrt(squares(weights)))


def r_squared(predicted: object, gold: object) -> Measure:
    """The share of the variance that is explained: 1 is perfect, 0 as good as the mean.

    >>> round(value(r_squared([1, 2, 4], [1, 2, 3]), 3), 4)
    0.5
    """
    truth = np.asarray(gold, dtype=np.float64)
    errors = np.square(np.asarray(predicted, dtype=np.float64) - truth)

    def measure(weights: Doubles) -> Doubles:
        centre = (weights @ truth / weights.sum(axis=1))[:, None]
        spread = (weights * np.square(truth[None] - centre)).sum(axis=1)
        return 1 - _ratio(weights @ errors, spread)

    return measure


class _Steps:
    """Scores from high to low in groups of equal ones, with what lies above each."""

    def __init__(self, scores: object, same: object) -> None:
        listed = np.asarray(scores, dtype=np.float64)
        self.same = np.asarray(same, dtype=np.float64)
        self.order, self.starts, _ = _ties(-listed)
        self.values = listed[self.order[self.starts]]  # (groups,) falling

    def cumulate(self, weights: Doubles) -> tuple[Doubles, Doubles]:
        """How many are at or above each group, and how many of them are the same."""
        found = np.add.reduceat(weights[:, self.order], self.starts, axis=1)
        hits = np.add.reduceat((weights * self.same)[:, self.order], self.starts, axis=1)
        return np.cumsum(found, axis=1), np.cumsum(hits, axis=1)

    def accuracies(self, weights: Doubles) -> Doubles:
        """The accuracy with 0, 1, 2 … groups called the same, (rounds, groups + 1)."""
        found, hits = (np.pad(part, ((0, 0), (1, 0))) for part in self.cumulate(weights))
        total, positive = found[:, -1:], hits[:, -1:]
        # right = hits above the threshold and misses below it
        right: Doubles = (hits + (total - found) - (positive - hits)) / total
        return right

    def f1s(self, weights: Doubles) -> Doubles:
        """F1 with 0, 1, 2 … groups called the same, (rounds, groups + 1)."""
        found, hits = (np.pad(part, ((0, 0), (1, 0))) for part in self.cumulate(weights))
        below = found + hits[:, -1:]
        return np.divide(2 * hits, below, out=np.zeros_like(hits), where=below > 0)


def _ties(values: Doubles) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The rising order of values, where each run of equal ones begins in it, and each one's run."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    fresh = np.ones(len(values), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    group = np.empty(len(values), dtype=np.intp)
    group[order] = np.cumsum(fresh) - 1
    return order, np.flatnonzero(fresh), group


def _correlate(x: Doubles, y: Doubles, weights: Doubles) -> Doubles:
    # Taken from the first item, a constant is zero everywhere, whatever rounding does later.
    x, y = x - x[:, :1], y - y[:, :1]
    total = weights.sum(axis=1, keepdims=True)
    means = [(weights * side).sum(axis=1, keepdims=True) / total for side in (x, y)]
    left, right = x - means[0], y - means[1]
    spreads = [np.sqrt((weights * side**2).sum(axis=1)) for side in (left, right)]
    flat = np.zeros(len(weights), dtype=bool)
    for spread, centre in zip(spreads, means, strict=True):
        flat |= spread <= _ROUNDING * np.abs(centre[:, 0])
    both = (weights * left * right).sum(axis=1)
    return np.where(flat, np.nan, _ratio(both, spreads[0] * spreads[1]))


def _ratio(upper: Doubles, lower: Doubles) -> Doubles:
    return np.divide(upper, lower, out=np.full_like(upper, np.nan), where=lower != 0)
