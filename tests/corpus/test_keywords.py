"""Words of texts and queries: cut, analysed once, remembered."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.corpus.keywords import QUERY_WORDS, WordCache, base_of, cut, query_terms, query_words
from malmoi.errors import OptionError
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
