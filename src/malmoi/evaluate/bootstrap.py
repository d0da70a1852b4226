"""How sure a number is: seeded bootstrap samples, their intervals, and pairs of them.

Resamples are drawn as counts, so that one draw serves every measure of a report, and the same
seed draws the same items for two models: that is what makes a comparison a paired one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..types import Doubles
from .measures import Measure

ROUNDS = 1000
LEVEL = 0.95
_BLOCK = 2_000_000  # weights held at once: 16 MB, which a cache can nearly hold


@dataclass(frozen=True)
class Interval:
    """Where 95 % of the samples lie; NaN where there are none."""

    low: float
    high: float


def draw(count: int, *, rounds: int, seed: int) -> Iterator[Doubles]:
    """Draw `count` of `count` items with replacement, `rounds` times, as counts (block, count).

    >>> [block.sum(axis=1).tolist() for block in draw(4, rounds=2, seed=0)]
    [[4.0, 4.0]]
    """
    random = np.random.default_rng(seed)
    step = max(1, _BLOCK // max(count, 1))
    for start in range(0, rounds, step):
        size = min(step, rounds - start)
        drawn = random.integers(0, count, size=(size, count))
        drawn += np.arange(size)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count)
        yield counts.reshape(size, count).astype(np.float64)


def resample(
    measures: Mapping[str, Measure],
    units: NDArray[np.intp],
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> dict[str, Doubles]:
    """Give every measure's samples, (rounds,) each.

    `units` (n,) says which unit each item belongs to: units are drawn, and their items with them,
    since ten paraphrases of one question are no ten questions.
    """
    if rounds < 0:
        raise OptionError(f"rounds is {rounds}; expected 0 or more. 0 leaves the intervals out.")
    found: dict[str, list[Doubles]] = {name: [np.empty(0)] for name in measures}
    for drawn in draw(int(units.max()) + 1, rounds=rounds, seed=seed):
        weights = drawn[:, units]  # (block, n)
        for name, measure in measures.items():
            found[name].append(measure(weights))
    return {name: np.concatenate(blocks) for name, blocks in found.items()}


def interval(samples: Doubles, *, level: float = LEVEL) -> Interval:
    """The middle part of the samples, by percentiles.

    >>> interval(np.arange(5.0), level=0.5)
    Interval(low=1.0, high=3.0)
    """
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def p_value(differences: Doubles) -> float:
    """How likely so clear a difference would be if there were none; two-sided.

    One is added to the counts, so that a thousand rounds never claim more than a thousandth.

    >>> p_value(np.ones(999))
    0.002
    """
    defined = differences[~np.isnan(differences)]
    if not len(defined):
        return float("nan")
    lesser = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (lesser + 1) / (len(defined) + 1))
