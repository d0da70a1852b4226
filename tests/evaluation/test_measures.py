"""Measures against scipy and scikit-learn, with ties and under resampling."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from malmoi.evaluation import measures
from malmoi.evaluation.report import draw, interval, resample

# A few values only, so that most are tied.
TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30)


def resampled(counts: NDArray[np.float64], *columns: NDArray[np.float64]) -> list[NDArray]:
    """Write out a resample: each row as often as its count says."""
    return [np.repeat(column, counts.astype(int)) for column in columns]


@settings(max_examples=50, deadline=None)
@given(TIED)
def test_ranks_with_ties_are_scipys(pairs: list[tuple[int, int]]) -> None:
    values = [x for x, _ in pairs]
    found = measures.ranks(values)(np.ones((1, len(values))))[0]
    assert found.tolist() == scipy.stats.rankdata(values).tolist()


@settings(max_examples=50, deadline=None)
@given(TIED, st.integers(0, 2**31))
def test_correlations_of_resamples_are_scipys(pairs: list[tuple[int, int]], seed: int) -> None:
    x, y = np.array(pairs, dtype=float).T
    [weights] = draw(len(x), rounds=3, seed=seed)
    ours = measures.spearman(x, y)(weights), measures.pearson(x, y)(weights)
    for i, counts in enumerate(weights):
        left, right = resampled(counts, x, y)
        if np.ptp(left) == 0 or np.ptp(right) == 0:
            assert np.isnan(ours[0][i])
            assert np.isnan(ours[1][i])
        else:
            assert ours[0][i] == pytest.approx(scipy.stats.spearmanr(left, right)[0], abs=1e-9)
            assert ours[1][i] == pytest.approx(scipy.stats.pearsonr(left, right)[0], abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(TIED, st.integers(0, 2**31))
def test_average_precision_of_resamples_is_sklearns(
    pairs: list[tuple[int, int]], seed: int
) -> None:
    scores, same = np.array(pairs, dtype=float).T
    same = same >= 2
    [weights] = draw(len(scores), rounds=3, seed=seed)
    ours = measures.average_precision(scores, same)(weights)
    for i, counts in enumerate(weights):
        left, right = resampled(counts, scores, same)
        if right.any():
            judge = sklearn.metrics.average_precision_score(right, left)
            assert ours[i] == pytest.approx(judge, abs=1e-9)
        else:
            assert np.isnan(ours[i])


@settings(max_examples=50, deadline=None)
@given(TIED)
def test_best_thresholds_are_those_of_trying_all(pairs: list[tuple[int, int]]) -> None:
    scores, same = np.array(pairs, dtype=float).T
    same = same >= 2
    edges = [*np.unique(scores), scores.max() + 1]
    accuracies = [float(((scores >= edge) == same).mean()) for edge in edges]
    f1s = [sklearn.metrics.f1_score(same, scores >= edge, zero_division=0) for edge in edges]
    count = len(scores)
    assert measures.value(measures.best_accuracy(scores, same), count) == max(accuracies)
    assert measures.value(measures.best_f1(scores, same), count) == pytest.approx(max(f1s))
    at_accuracy, at_f1 = measures.best_thresholds(scores, same)
    assert ((scores >= at_accuracy) == same).mean() == max(accuracies)
    found = sklearn.metrics.f1_score(same, scores >= at_f1, zero_division=0)
    assert found == pytest.approx(max(f1s))


@settings(max_examples=50, deadline=None)
@given(TIED)
def test_macro_f1_is_sklearns(pairs: list[tuple[int, int]]) -> None:
    predicted, gold = np.array(pairs).T
    ours = measures.value(measures.macro_f1(predicted, gold), len(gold))
    judge = sklearn.metrics.f1_score(gold, predicted, average="macro", zero_division=0)
    assert ours == pytest.approx(judge)


def test_a_constant_has_no_correlation_whatever_rounding_does() -> None:
    flat = np.full(1000, 0.1 + 0.2)
    rising = np.arange(1000.0)
    [weights] = draw(1000, rounds=50, seed=1)
    assert np.isnan(measures.pearson(flat, rising)(weights)).all()
    assert np.isnan(measures.spearman(flat, rising)(weights)).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 50), st.integers(1, 40), st.integers(0, 2**31))
def test_draws_are_whole_and_repeatable(count: int, rounds: int, seed: int) -> None:
    drawn = np.concatenate(list(draw(count, rounds=rounds, seed=seed)))
    assert drawn.shape == (rounds, count)
    assert (drawn.sum(axis=1) == count).all()
    again = np.concatenate(list(draw(count, rounds=rounds, seed=seed)))
    assert (drawn == again).all()


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Of a hundred samples from a known correlation, about 95 intervals hold it."""
    truth, held = 0.6, 0
    random = np.random.default_rng(3)
    for seed in range(100):
        x = random.standard_normal(200)
        y = truth * x + np.sqrt(1 - truth**2) * random.standard_normal(200)
        measure = {"r": measures.pearson(x, y)}
        samples = resample(measure, np.arange(200), rounds=300, seed=seed)["r"]
        low, high = interval(samples)
        held += low <= truth <= high
    assert 87 <= held <= 99


def test_units_are_drawn_whole() -> None:
    """Ten copies of each item say no more than one: the interval must not shrink."""
    values = np.random.default_rng(0).random(50)
    once = resample({"m": measures.mean(values)}, np.arange(50), seed=1)["m"]
    copied = {"m": measures.mean(np.repeat(values, 10))}
    tenfold = resample(copied, np.repeat(np.arange(50), 10), seed=1)["m"]
    assert tenfold == pytest.approx(once)
