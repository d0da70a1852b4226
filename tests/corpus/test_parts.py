"""The small parts of a corpus: words, filters, fusion."""

import contextlib
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.corpus.corpus import fuse
from malmoi.corpus.filters import Filter, as_filters, atom, atoms
from malmoi.corpus.keywords import QUERY_WORDS, WordCache, base_of, cut, query_words
from malmoi.corpus.store import ScoredId
from malmoi.errors import DataError, OptionError
from malmoi.text import morphemes


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


@pytest.mark.skipif(not morphemes.available(), reason="kiwipiepy is not installed")
def test_words_are_analysed_by_themselves() -> None:
    one, two = cut(["배송은 언제 도착했나요?", "배송이 도착하다 MRI 2024"], "word-morphemes")
    assert {"배송", "언제", "도착"} <= set(one)
    assert {"배송", "도착", "mri", "2024"} == set(two)
    [alone, after] = cut(["왔다", "갑자기 왔다"], "word-morphemes")
    assert after == ["갑자기", *alone] and alone == ["오다"]
    # In a sentence 나 may be a verb; by itself it is I, whatever its context.
    assert query_words("눈물 나", "morphemes") == ["눈물", "나다"]
    assert query_words("눈물 나", "word-morphemes") == ["눈물"]
    decomposed = unicodedata.normalize("NFD", "배송은")
    assert query_words(decomposed, "word-morphemes") == ["배송"]


def test_a_word_is_analysed_once_and_few_are_remembered() -> None:
    asked: list[str] = []

    def analyse(words: list[str]) -> list[list[tuple[str, str]]]:
        asked.extend(words)
        return [[(word, "NNG")] for word in words]

    remembered = WordCache(analyse, size=5)
    assert remembered(["서버를 서버에서 사용하는", "", "서버"]) == [
        ("서버", "서버", "사용"),
        (),
        ("서버",),
    ]
    remembered.prefetch(["사용했고 서버"])
    assert asked == ["사용", "서버"]
    remembered(["고양이"])  # there is no more room: what was known is forgotten
    assert remembered(["서버 고양이"]) == [("서버", "고양이")]
    assert asked == ["사용", "서버", "고양이", "서버"]
    [long] = remembered(["가" * 1000])
    assert max(map(len, long)) <= 64 and "".join(long) == "가" * 1000


@given(st.text(alphabet="가나서버하는에게되고을", max_size=12))
def test_what_is_left_of_a_word_has_no_more_to_lose(word: str) -> None:
    base = base_of(word)
    assert base_of(base) == base
    assert word.startswith(base) and len(base) >= min(2, len(word))


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


def test_conditions_are_read_in_no_time_and_never_misread() -> None:
    assert Filter.parse("year==2024") == Filter("year", "=", 2024)
    assert Filter.parse("a!b=c") == Filter("a!b", "=", "c")
    assert Filter.parse("tag= <b>") == Filter("tag", "=", "<b>")
    for text, message in (
        ("a=>3", "compares by =>"),
        ("a<>b", "compares by <>"),
        ("a===b", "compares by ==="),
        ("=3", "no comparison"),
        ("a" * 20_000 + "=1", "20,002 characters"),
    ):
        with pytest.raises(OptionError, match=message):
            Filter.parse(text)
    began = time.perf_counter()
    for text in (" " * 10_000, " " * 9_000 + "x", "x" + " " * 9_000, "x=" + " " * 9_000 + "y"):
        with contextlib.suppress(OptionError):
            Filter.parse(text)
    assert time.perf_counter() - began < 0.1


def test_fields_that_cannot_be_compared_are_refused() -> None:
    deep: list[object] = [1]
    for _ in range(900):
        deep = [deep]
    for value, message in (
        (deep, "more than 32 deep"),
        ({"a": deep}, "more than 32 deep"),
        (10**400, "more than 308 digits"),
    ):
        with pytest.raises(DataError, match=message):
            atoms(value)
    assert atoms([1, ["b", {"c": ["d"]}, None]]) == [1, "b"] and atoms({"a": [1]}) == []
    assert atom("\ud800") == "\ufffd"


def test_fusion_prefers_what_both_sides_found() -> None:
    dense = [ScoredId(x, 0.0) for x in "abc"]
    words = [ScoredId(x, 0.0) for x in "dc"]
    assert [one.id for one in fuse({"dense": dense, "keyword": words}, {"keyword": 1})] == [*"cadb"]
    with pytest.raises(OptionError):
        fuse({"dense": dense}, {"dense": 0})
