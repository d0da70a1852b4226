"""The small parts of a corpus: words, filters, fusion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi import morphemes
from malmoi.corpus.filters import Filter, as_filters, atom
from malmoi.corpus.fusion import fuse
from malmoi.corpus.store import Scored
from malmoi.corpus.words import QUERY_WORDS, cut, query_words
from malmoi.errors import OptionError


def test_pairs_of_syllables() -> None:
    assert list(cut(["배송일 확인", "배", "COVID-19 검사"], "bigrams")) == [
        ["배송", "송일", "확인"],
        ["배"],
        ["검사", "covid", "19"],
    ]


@pytest.mark.skipif(not morphemes.available(), reason="kiwipiepy is not installed")
def test_morphemes_without_particles_and_endings() -> None:
    one, two = cut(["배송은 언제 도착했나요?", "배송이 도착하다 MRI 2024"], "morphemes")
    assert "배송" in one and "도착" in one
    assert {"배송", "도착", "mri", "2024"} <= set(two)
    assert not {"은", "이"} & {*one, *two}


@given(st.text(max_size=200))
def test_any_text_can_be_cut(text: str) -> None:
    [words] = cut([text], "bigrams")
    assert all(words)


def test_long_queries_end_somewhere() -> None:
    assert len(query_words(" ".join(f"w{i}" for i in range(10_000)), "bigrams")) == QUERY_WORDS
    assert query_words("", "bigrams") == []
    assert query_words("To be or not to be", "bigrams") == ["not"]
    assert query_words("to be", "bigrams") == ["to", "be"]
    with pytest.raises(OptionError, match="known are morphemes, bigrams"):
        query_words("x", "trigrams")


def test_conditions() -> None:
    assert Filter.parse(" city = 서울 ") == Filter("city", "=", "서울")
    assert Filter.parse("x!=") == Filter("x", "!=", "")
    assert as_filters({"a": True}) == [Filter("a", "=", "true")]
    assert as_filters(None) == []
    assert atom(10**30) == 1e30
    assert atom("007") == "007"
    assert Filter("y", ">", 3).fits({"y": ["1", "4"]})
    assert not Filter("y", ">", 3).fits({})
    assert Filter("y", ">", 3).fits({"y": "text"})  # every number comes before every text


def test_fusion_prefers_what_both_sides_found() -> None:
    dense = [Scored(x, 0.0) for x in "abc"]
    words = [Scored(x, 0.0) for x in "dc"]
    assert [one.id for one in fuse({"dense": dense, "keyword": words}, {"keyword": 1})] == [*"cadb"]
    with pytest.raises(OptionError):
        fuse({"dense": dense}, {"dense": 0})
