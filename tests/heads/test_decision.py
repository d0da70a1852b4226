"""The rules against numbers worked out by hand."""

import numpy as np
import pytest

from malmoi.errors import OptionError, TextError
from malmoi.heads.decision import Rule, combine, joint, tune

# Three windows that say 0.1, 0.6 and 0.2 of one event; max 0.6, mean 0.3.
WINDOWS = [[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]


@pytest.mark.parametrize(
    ("c", "expected"),
    [
        (1.0, (0.6 + 0.3 * 3) / 4),  # 0.375
        (2.0, (0.6 + 0.3 * 1.5) / 2.5),  # 0.42
        (3.0, (0.6 + 0.3) / 2),  # 0.45
        (1e12, 0.6),  # c → ∞: the largest alone
        (1e-12, 0.3),  # c → 0: the mean alone
    ],
)
def test_the_formula(c: float, expected: float) -> None:
    assert joint([row[1] for row in WINDOWS], c)[0] == pytest.approx(expected, abs=1e-9)
    assert combine(WINDOWS, Rule("joint", c)) == pytest.approx([1 - expected, expected], abs=1e-9)


@pytest.mark.parametrize("name", ["joint", "max", "mean", "first"])
def test_one_window_keeps_its_own_probability(name: str) -> None:
    assert combine([[0.7, 0.3]], Rule(name, 2.0)) == pytest.approx([0.7, 0.3])


@pytest.mark.parametrize(("name", "expected"), [("max", 0.6), ("mean", 0.3), ("first", 0.1)])
def test_the_plain_rules(name: str, expected: float) -> None:
    assert combine(WINDOWS, Rule(name))[1] == pytest.approx(expected)


def test_three_labels_add_up_to_one() -> None:
    found = combine([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], Rule("max"))
    assert found == pytest.approx(np.array([0.6, 0.5, 0.3]) / 1.4)


def test_an_empty_note_is_refused() -> None:
    with pytest.raises(TextError, match="no text"):
        joint([], 2.0)


@pytest.mark.parametrize(("name", "c"), [("median", 1.0), ("joint", 0.0), ("joint", -1.0)])
def test_unknown_rules_and_impossible_c(name: str, c: float) -> None:
    with pytest.raises(OptionError):
        Rule(name, c)


def test_tuning_takes_what_separates_best() -> None:
    # One event shows in a lone window of many; its opposite is middling everywhere. By the mean
    # (small c) the order is wrong, by the largest (large c) it is right.
    positive = [[0.05], [0.05], [0.05], [0.9]]
    negative = [[0.5], [0.5], [0.5], [0.5]]
    documents = [[[1 - p, p] for [p] in one] for one in (positive, negative)]

    def score(found: list[np.ndarray]) -> float:
        return float(found[0][1] > found[1][1])

    # joint > 0.5 where (0.9 + 0.2625 · 4/c) / (1 + 4/c) > 0.5, that is c > 2.375: of the grid's
    # right ones, 3.2 to 1000, the middle.
    assert tune(documents, score) == 20.0
    assert tune(documents, score, grid=[1.0, 2.0, 3.0]) == 3.0


def test_of_equals_the_middle_is_taken() -> None:
    assert tune([WINDOWS], lambda found: 1.0, grid=[1.0, 2.0, 3.0]) == 2.0
