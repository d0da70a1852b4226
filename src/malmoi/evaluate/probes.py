"""SentEval's way: a logistic regression on frozen vectors says what they hold."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError, by_number, require
from ..types import Floats

FOLDS = 10
# How strongly the probe may lean on single dimensions; the best is chosen on a part of the
# training rows that it has not seen.
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
_MOST_STEPS = 1000
_NEAR_ENOUGH = 1e-3  # what the probe says changes no more long before its weights stand still
_HELD_OUT = 0.2

Labels = NDArray[np.str_]


@dataclass(frozen=True)
class Probed:
    """A label predicted for every row by a probe that had not seen it."""

    predicted: Labels
    strengths: tuple[float, ...]  # the one chosen in each fold


def pair_features(left: Floats, right: Floats) -> Floats:
    """Two texts' vectors as a probe sees them: u, v, |u − v| and u·v side by side, (n, 4 dim)."""
    return np.concatenate([left, right, np.abs(left - right), left * right], axis=1)


def cross_validate(
    features: Floats,
    labels: Labels,
    groups: NDArray[np.intp],
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> Probed:
    """Predict every row by a probe fitted on the other folds; groups (n,) stay in one fold."""
    selection = _import("sklearn.model_selection")
    folds = _usable_folds(labels, folds)
    folds = min(folds, int(groups.max()) + 1)
    if folds < 2:
        raise DataError(
            f"{_all(labels)} the same first text; expected different ones. Check the columns."
        )
    parts = selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    predicted = labels.copy()
    strengths = []
    for fitted, held in parts.split(features, labels, groups):
        probe, strength = _fit(features[fitted], labels[fitted], seed)
        predicted[held] = probe.predict(features[held])
        strengths.append(strength)
    return Probed(predicted, tuple(strengths))


def train_test(features: Floats, labels: Labels, tested: Floats, *, seed: int = 0) -> Probed:
    """Fit a probe on one file's rows and predict those of another."""
    _usable_folds(labels, 2)
    probe, strength = _fit(features, labels, seed)
    return Probed(probe.predict(tested), (strength,))


def check_probe(labels: Labels) -> None:
    """Raise at once where a probe could not be fitted: too few rows, or a part not installed."""
    _usable_folds(labels, 2)
    _import("sklearn")


def _all(labels: Labels) -> str:
    count = len(labels)
    return "the only row has" if count == 1 else f"all {count:,} rows have"


def _usable_folds(labels: Labels, folds: int) -> int:
    if folds < 2:
        raise OptionError(f"folds is {folds}; expected 2 or more. 10 is usual.")
    counts = Counter(labels.tolist())
    if len(counts) < 2:
        raise DataError(f"{_all(labels)} one label; expected two labels or more. Check the column.")
    rarest = min(counts.values())
    if rarest < 2:
        single = sum(count == 1 for count in counts.values())
        raise DataError(
            f"{single:,} of {len(counts):,} labels {by_number(single, 'stands', 'stand')} in one "
            "row only; expected each in two or "
            "more, to learn from one and try on the other. Leave rare labels out of the file."
        )
    return min(folds, rarest)


def _fit(features: Floats, labels: Labels, seed: int) -> tuple[Any, float]:
    """Choose a strength on held-out rows, then fit on all."""
    if len(np.unique(labels)) == 1:  # a fold can lose every group of the other label
        return _import("sklearn.dummy").DummyClassifier().fit(features, labels), 0.0
    # On rows as few as a probe's, threads of a BLAS wait for each other longer than they work:
    # two were ten times slower than one on a busy machine.
    with _import("threadpoolctl").threadpool_limits(1):
        strength = _best_strength(features, labels, seed)
        return _probe(strength).fit(features, labels), strength


def _best_strength(features: Floats, labels: Labels, seed: int) -> float:
    counts = Counter(labels.tolist())
    if min(counts.values()) < 2 or len(labels) * _HELD_OUT < len(counts):
        return 1.0  # too few rows to hold any of each label out
    split = _import("sklearn.model_selection").train_test_split
    rows, held = split(
        np.arange(len(labels)), test_size=_HELD_OUT, stratify=labels, random_state=seed
    )
    right = [
        _probe(strength).fit(features[rows], labels[rows]).score(features[held], labels[held])
        for strength in STRENGTHS
    ]
    return STRENGTHS[int(np.argmax(right))]


def _probe(strength: float) -> Any:
    # Standardised as SentEval's probes are not, but so that one range of strengths suits vectors
    # of unit length and raw ones alike.
    linear = _import("sklearn.linear_model").LogisticRegression(
        C=strength, max_iter=_MOST_STEPS, tol=_NEAR_ENOUGH
    )
    scale = _import("sklearn.preprocessing").StandardScaler()
    return _import("sklearn.pipeline").make_pipeline(scale, linear)


def _import(module: str) -> Any:
    return require(module, extra="evaluate", purpose="a probe on vectors")
