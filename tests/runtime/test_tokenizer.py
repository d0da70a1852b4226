"""Pairs in one input: joined and cut as the tokenizers library itself would do it."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.processors import RobertaProcessing

from malmoi.errors import BundleError
from malmoi.runtime.tokenizer import PairTokenizer, TextTokenizer, share
from tests.support.graphs import WORDS, tiny_tokenizer


def roberta_tokenizer() -> Tokenizer:
    """Two separators between the texts, and one segment for both."""
    tokenizer = tiny_tokenizer()
    tokenizer.post_processor = RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


MAKERS = (tiny_tokenizer, roberta_tokenizer)
texts = st.lists(st.sampled_from([*WORDS[4:], "낯선말"]), max_size=30).map(" ".join)


@pytest.mark.parametrize("make", MAKERS)
@given(a=texts, b=texts, longest=st.integers(6, 40))
def test_a_pair_is_what_the_tokenizers_library_makes_of_it(
    make: Callable[[], Tokenizer], a: str, b: str, longest: int
) -> None:
    judge = make()
    judge.enable_truncation(longest)
    expected = judge.encode(a, b)
    [piece], cut = PairTokenizer(TextTokenizer(make(), max_tokens=longest)).encode([(a, b)])
    assert piece.ids == expected.ids
    assert piece.types == expected.type_ids
    assert cut == bool(expected.overflowing)


@given(a=st.integers(0, 100), b=st.integers(0, 100), room=st.integers(2, 60))
def test_sharing_uses_the_room_and_takes_from_the_longer(a: int, b: int, room: int) -> None:
    left, right = share(a, b, room)
    assert left <= a and right <= b
    assert left + right == min(a + b, room)
    if left < a and right < b:
        assert abs(left - right) <= 1


def test_pieces_keep_their_owners() -> None:
    tokens = PairTokenizer(TextTokenizer(tiny_tokenizer(), max_tokens=16))
    pieces, cut = tokens.encode([("배", "sea"), ("배", "boat"), ("", "")])
    assert [piece.owner for piece in pieces] == [0, 1, 2]
    assert cut == 0
    assert pieces[2].ids == [2, 3, 3]


def test_two_long_texts_need_no_more_memory_than_they_are_long() -> None:
    tokens = PairTokenizer(TextTokenizer(tiny_tokenizer(), max_tokens=256))
    tracemalloc.start()
    [piece], cut = tokens.encode([("boat " * 4000, "sea " * 4000)])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(piece.ids), cut) == (256, 1)
    assert most < 5_000_000


def test_no_room_for_two_texts_is_told() -> None:
    with pytest.raises(BundleError, match="leaves 1 for two"):
        PairTokenizer(TextTokenizer(tiny_tokenizer(), max_tokens=4))


def test_a_tokenizer_without_unknown_token_is_told() -> None:
    tokenizer = Tokenizer(BPE({"[PAD]": 0, "배": 1}, []))
    with pytest.raises(BundleError, match="cannot join pairs"):
        PairTokenizer(TextTokenizer(tokenizer, max_tokens=16))
