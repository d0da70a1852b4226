"""Temperature and reliability against numbers worked out by hand."""

import numpy as np
import pytest

from malmoi.errors import DataError
from malmoi.heads.decision import (
    calibrate,
    expected_error,
    fit_temperature,
    reliability,
    soften,
)


def test_a_temperature_of_one_changes_nothing() -> None:
    table = [[0.25, 0.75], [0.9, 0.1]]
    assert soften(table, 1.0) == pytest.approx(np.array(table))


def test_a_high_temperature_doubts_everything() -> None:
    assert soften([[0.01, 0.99]], 1e6) == pytest.approx(np.array([[0.5, 0.5]]), abs=1e-4)


def test_temperature_by_hand() -> None:
    # log-odds of 0.8 are log 4; halved they are log 2, a probability of 2/3.
    assert soften([[0.2, 0.8]], 2.0)[0, 1] == pytest.approx(2 / 3)


def test_fitted_temperature_brings_what_is_said_to_what_is_so() -> None:
    rng = np.random.default_rng(0)
    real = rng.uniform(0.05, 0.95, 4000)
    happened = (rng.random(4000) < real).astype(int)
    odds = np.log(real / (1 - real)) * 3  # three times too sure
    said = 1 / (1 + np.exp(-odds))
    found = fit_temperature(np.stack([1 - said, said], axis=1), happened)
    assert found == pytest.approx(3.0, rel=0.1)


def test_certainty_that_is_wrong_stays_finite() -> None:
    assert np.isfinite(fit_temperature([[0.0, 1.0], [1.0, 0.0]], [0, 0]))


def test_nothing_to_calibrate_on() -> None:
    with pytest.raises(DataError, match="no decision"):
        fit_temperature(np.empty((0, 2)), [])


def test_bins_by_hand() -> None:
    bins = reliability([0.0, 0.04, 0.55, 1.0], [0, 1, 1, 1], bins=10)
    assert [(one.count, one.was) for one in bins] == [(2, 0.5), (1, 1.0), (1, 1.0)]
    # |0.02 − 0.5| · 2 + |0.55 − 1| + 0, over four.
    assert expected_error(bins) == pytest.approx((0.48 * 2 + 0.45) / 4)


def test_few_decisions_are_not_calibrated() -> None:
    """Two notes that happen to be right must not make 0.58 into 0.998."""
    temperature, told = calibrate([[0.42, 0.58], [0.6, 0.4]], [1, 0])
    assert temperature == 1.0 and "2 dev documents, 50 are needed" in told
    temperature, told = calibrate([[0.42, 0.58]] * 60, [1] * 58 + [0] * 2)
    assert temperature == 1.0 and "a label has 2 dev documents" in told


def test_a_temperature_is_bounded_and_told() -> None:
    said = [[0.42, 0.58], [0.58, 0.42]] * 40
    temperature, told = calibrate(said, [1, 0] * 40)  # always right, so never sure enough
    assert temperature == pytest.approx(0.5, rel=0.01) and "at its bound" in told
    assert soften([[0.42, 0.58]], temperature)[0, 1] < 0.7


def test_labels_that_do_not_exclude_each_other() -> None:
    assert soften([[0.8, 0.8]], 2.0, exclusive=False) == pytest.approx(np.array([[2 / 3, 2 / 3]]))
    said, gold = [[0.9, 0.1]] * 60, [[1, 0]] * 42 + [[0, 1]] * 18
    temperature, told = calibrate(said, gold)
    assert soften(said, temperature, exclusive=False)[0] == pytest.approx([0.7, 0.3], abs=0.01)
    assert "calibrated on 60 dev documents" in told
    assert calibrate(said, [[1, 0]] * 60)[0] == 1.0
