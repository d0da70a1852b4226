"""The small parts of a corpus: words, filters, fusion."""

import contextlib
import time
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.corpus.filters import Filter, as_filters, atom, atoms
from malmoi.corpus.keywords import QUERY_WORDS, WordCache, base_of, cut, query_terms, query_words
from malmoi.corpus.ranking import fuse
from malmoi.corpus.store import ScoredPassage
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
        ("a" + "=" * 5000, "compares by =========;"),
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


def test_fusion_adds_scores_not_ranks() -> None:
    dense = [
        ScoredPassage("a", 0.61),
        ScoredPassage("b", 0.60),
        ScoredPassage("c", 0.2),
        ScoredPassage("d", 0.2),
    ]
    found = fuse("고양이", dense, [ScoredPassage("b", 3.0), ScoredPassage("c", 0.5)], best=5.0)
    assert [one.id for one in found[:2]] == ["b", "a"]
    # Words that hardly cover the query do not count.
    found = fuse("고양이", dense, [ScoredPassage("b", 3.0), ScoredPassage("c", 0.5)], best=50.0)
    assert [one.id for one in found[:2]] == ["a", "b"]
    assert fuse("고양이", [], [], best=0) == []
    with pytest.raises(OptionError):
        fuse("고양이", dense, [], {"dense": 0}, best=1.0)


def test_one_passage_that_has_the_identifier_wins() -> None:
    dense = [ScoredPassage(str(i), 0.6 - i / 1000, hangul=90) for i in range(100)]
    [first, *_] = fuse("PAY-5031이 나와요", dense, [ScoredPassage("77", 9.0)], best=20.0)
    assert first.id == "77"


def test_a_passage_in_the_other_language_has_no_words_to_share() -> None:
    korean = [ScoredPassage(str(i), 0.3 + i / 100, hangul=95) for i in range(20)]
    words = [ScoredPassage("18", 4.0), ScoredPassage("3", 1.0)]
    for hangul, first in ((0, "right"), (95, "18")):
        # In the query's language the right passage would have had its words.
        right = ScoredPassage("right", 0.55, hangul=hangul)
        assert fuse("비밀번호 길이", [*korean, right], words, best=10.0)[0].id == first


class Memory:
    """What a store knows: the analyses of words, and how many passages have a term."""

    def __init__(self, words: dict[str, tuple[str, ...]], terms: dict[str, int]) -> None:
        self.words, self.terms = words, terms

    def remembered(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {word: self.words[word] for word in words if word in self.words}

    def known_terms(self, terms: Sequence[str]) -> dict[str, int]:
        return {term: self.terms[term] for term in terms if term in self.terms}


def test_a_query_is_cut_without_the_analyser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(morphemes, "loaded", lambda: False)
    monkeypatch.setattr(morphemes, "_make", None)  # asking it would be an error
    memory = Memory(
        {"택시": ("택시",), "탔다": ("타다",)}, {"택시": 40, "비용": 9, "걸리다": 5, "오다": 3}
    )
    assert query_words("택시를 탔다", "word-morphemes", memory) == ["택시", "타다"]
    # Words that are new are taken apart by what the passages have.
    assert query_words("택시비용은 VPN", "word-morphemes", memory) == ["택시", "비용", "vpn"]
    assert query_words("얼마나 걸려요", "word-morphemes", memory) == ["걸리다"]
    assert query_words("왔는데", "word-morphemes", memory) == ["오다"]
    assert query_words("없음", "word-morphemes", memory) == []


def test_compounds_and_identifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(morphemes, "loaded", lambda: False)
    memory = Memory({"택시비": ("택시비",), "비자": ("비자",)}, {"택시": 3, "비자": 1})
    assert query_terms("택시비", "word-morphemes", memory) == (["택시비"], ["택시", "택시비*"])
    assert query_terms("비자", "word-morphemes", memory).more == []
    assert query_terms("ERR-4021 in v2.3", "bigrams").more == ["err 4021", "v2 3"]
