"""How batches are shared out between threads."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from malmoi.runtime.runner import balance_batches
from malmoi.runtime.tokenizer import BUDGET, EVEN, Batch, TextTokenizer, TokenizedText
from tests.support import graphs


def batches_of(lengths: list[int]) -> list[Batch]:
    tokens = TextTokenizer(graphs.tiny_tokenizer(), max_tokens=512)
    pieces = [TokenizedText(i, [4] * length) for i, length in enumerate(lengths)]
    return list(tokens.batches(pieces, even=EVEN))


def test_two_paragraphs_share_a_batch_and_two_threads_share_two() -> None:
    assert [batch.ids.shape for batch in batches_of([200, 200])] == [(2, 200)]
    assert [batch.ids.shape for batch in balance_batches(batches_of([200] * 2), 2)] == [
        (1, 200)
    ] * 2
    assert [batch.ids.shape for batch in balance_batches(batches_of([200] * 2), 1)] == [(2, 200)]


def test_the_last_batches_are_the_smallest() -> None:
    shapes = [batch.ids.shape for batch in balance_batches(batches_of([200] * 64), 2)]
    assert shapes == [(2, 200)] * 30 + [(1, 200)] * 4


def test_a_few_short_texts_stay_together() -> None:
    assert len(balance_batches(batches_of([9] * 12), 2)) == 1


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60),
    threads=st.integers(1, 8),
)
def test_every_row_is_there_once_with_its_ids(lengths: list[int], threads: int) -> None:
    shared = balance_batches(batches_of(lengths), threads)
    assert sorted(np.concatenate([batch.rows for batch in shared])) == list(range(len(lengths)))
    sizes = [batch.ids.size for batch in shared]
    assert max(sizes) <= BUDGET or len(shared[0].rows) == 1
    assert sizes[:-threads] == sorted(sizes[:-threads], reverse=True)
    for batch in shared:
        assert batch.ids.shape == batch.mask.shape == batch.types.shape
        found = batch.mask.sum(axis=1).tolist()
        assert found == [lengths[row] for row in batch.rows]
