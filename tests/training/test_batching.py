"""Batches: every row once, like lengths together, the same for the same seed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.training.batching import Sizes, Step, plan_epoch


def plan(lengths: list[int], sizes: Sizes, *, epoch: int = 0, weight: float = 1.0) -> list[Step]:
    return plan_epoch([np.array(lengths)], [weight], [None], sizes, seed=1, epoch=epoch)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=300),
    st.integers(2, 40),
    st.sampled_from([0, 128, 512]),
)
def test_every_row_comes_once(lengths: list[int], size: int, tokens: int) -> None:
    steps = plan(lengths, Sizes(size, tokens))
    rows = np.concatenate([step.rows for step in steps])
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert min(len(step.rows) for step in steps) >= 2
    for step in steps:
        longest = max(lengths[row] for row in step.rows)
        if tokens and len(step.rows) > 3:
            assert longest * (len(step.rows) - 1) <= tokens
        if not tokens:
            assert len(step.rows) <= size + 1


def test_an_epoch_is_a_function_of_seed_and_number() -> None:
    lengths = list(range(1, 200))
    one, two, other = (plan(lengths, Sizes(8), epoch=epoch) for epoch in (3, 3, 4))
    assert [step.rows.tolist() for step in one] == [step.rows.tolist() for step in two]
    assert [step.rows.tolist() for step in one] != [step.rows.tolist() for step in other]


def test_like_lengths_stand_together() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 100, 2000)
    steps = plan(lengths.tolist(), Sizes(32))
    padded = sum(lengths[step.rows].max() * len(step.rows) for step in steps)
    assert padded < 1.1 * lengths.sum()


def test_weights_draw_rows_more_or_less_often() -> None:
    rows = np.concatenate([s.rows for s in plan([5] * 100, Sizes(10), weight=2.5)])
    counts = np.bincount(rows, minlength=100)
    assert (len(rows), counts.min(), counts.max()) == (250, 2, 3)
    assert sum(len(s.rows) for s in plan([5] * 100, Sizes(10), weight=0.25)) == 25


def test_no_text_stands_twice_in_a_batch() -> None:
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 150, (400, 2)).astype(np.int32)
    steps = plan_epoch([np.full(400, 5)], [1.0], [texts], Sizes(16), seed=1, epoch=0)
    for step in steps:
        numbers = [number for row in step.rows for number in set(texts[row].tolist())]
        assert len(numbers) == len(set(numbers))
    assert sum(len(step.rows) for step in steps) > 380


def test_sets_are_mixed_in_proportion_to_their_rows() -> None:
    lengths = [np.full(800, 5), np.full(200, 5)]
    steps = plan_epoch(lengths, [1.0, 1.0], [None, None], Sizes(10), seed=1, epoch=0)
    first = [step.data for step in steps[:50]]
    assert len(steps) == 100
    assert 3 <= sum(first) <= 20
