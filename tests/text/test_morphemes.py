"""Morphology: nouns and particles apart, offsets that hold in the original text."""

import threading
import unicodedata

import pytest

from malmoi.errors import MissingExtra, TextError
from malmoi.text import morphemes

pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")


def test_a_noun_and_its_particle_come_apart() -> None:
    for text in ("배가 항구에 들어왔다", "배를 타고 여행을 간다"):
        first, particle = morphemes.morphemes(text)[:2]
        assert (first.text, first.start, first.end, first.tag) == ("배", 0, 1, "NNG")
        assert first.is_noun and not particle.is_noun and particle.tag.startswith("J")


def test_offsets_are_those_of_the_text_as_given() -> None:
    plain = "👍배를 타고 여행을 간다"
    for text in (plain, unicodedata.normalize("NFD", plain), "배를\ud800 타고"):
        nouns = morphemes.nouns(text)
        written = [unicodedata.normalize("NFC", text[noun.start : noun.end]) for noun in nouns]
        assert written == [noun.text for noun in nouns]
        assert "배" in written


def test_irregular_stems_have_plain_tags() -> None:
    assert all("-" not in one.tag for one in morphemes.morphemes("가까워서 받았다"))


@pytest.mark.parametrize("text", ["", " \n", "....", "\x00"])
def test_texts_without_words_have_no_nouns(text: str) -> None:
    assert morphemes.nouns(text) == []
    assert morphemes.noun_phrases(text) == []


def test_phrases_end_in_nouns() -> None:
    text = "서울대학교병원에서 chronic kidney disease 환자 3명의 혈당을 쟀다"
    found = morphemes.noun_phrases(text)
    assert [phrase.text for phrase in found] == [
        "서울대학교병원",
        "chronic kidney disease 환자",
        "혈당",
    ]
    assert all(text[phrase.start : phrase.end] == phrase.text for phrase in found)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("2024년 3분기 매출 보고서", ["3분기 매출 보고서"]),
        ("정보보안 정책 v2를 따른다", ["정보보안 정책"]),
        ("비타민 B12를 먹는다", ["비타민 B12"]),
        ("Sentence-BERT와 COVID-19 백신", ["Sentence-BERT", "COVID-19 백신"]),
        ("문장 유사도", ["문장 유사도"]),  # 도 is no particle at the end of a title
        ("환불도 안 된다", ["환불"]),
    ],
)
def test_phrases_are_whole(text: str, phrases: list[str]) -> None:
    assert [phrase.text for phrase in morphemes.noun_phrases(text)] == phrases


def test_a_long_run_is_cut_into_neighbouring_words() -> None:
    found = [phrase.text for phrase in morphemes.noun_phrases("사과 배 감 귤 포도 수박")]
    assert len(found) > 1 and all(phrase.count(" ") == 1 for phrase in found)


def test_what_one_text_shows_of_a_word_holds_for_all() -> None:
    texts = ["문장 유사도를 잰다", "유사도 하나로는 모자라다"]
    assert [one.text for own in morphemes.noun_phrases_of(texts) for one in own] == [
        "문장 유사도",
        "유사도",
    ]


def test_many_texts_at_once_are_as_one_by_one() -> None:
    texts = ["배가 왔다", "", "환자는 DM이 있다"] * 50
    assert list(morphemes.morphemes_of(texts)) == [morphemes.morphemes(text) for text in texts]


def test_threads_share_one_analyser() -> None:
    expected = morphemes.morphemes("배가 항구에 들어왔다")
    found: list[bool] = []

    def work() -> None:
        found.extend(morphemes.morphemes("배가 항구에 들어왔다") == expected for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200 and all(found)


def test_what_is_not_text_is_told() -> None:
    with pytest.raises(TextError, match="bytes"):
        morphemes.morphemes(b"abc")  # type: ignore[arg-type]


def test_without_kiwipiepy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    morphemes._make.cache_clear()
    try:
        assert not morphemes.available()
        with pytest.raises(MissingExtra, match="malmoi\\[korean\\]"):
            morphemes.morphemes("배")
    finally:
        morphemes._make.cache_clear()


def test_a_long_text_is_analysed_in_parts() -> None:
    pytest.importorskip("kiwipiepy")
    one = "배가 왔다. 환자는 혈액 투석을 받았다.\n"
    short, long = morphemes.morphemes(one), morphemes.morphemes(one * 300)
    assert [(found.text, found.tag) for found in long] == [(x.text, x.tag) for x in short] * 300
    assert (one * 300)[long[-6].start : long[-6].end] == one[short[-6].start : short[-6].end]
    [[*many], [single]] = morphemes.morphemes_of([one * 300, "배"])
    assert many == long and single.text == "배"
    # 28,000 letters at once took 1.6 s, and time grows with the square: a long word is divided.
    pieces = [piece for _, piece in morphemes._pieces("가" * 60_000)]
    assert "".join(pieces) == "가" * 60_000 and max(map(len, pieces)) <= morphemes._LONGEST
