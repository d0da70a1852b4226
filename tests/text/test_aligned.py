"""Cleaned text keeps the way back to the original."""

import difflib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.text.aligned import align
from malmoi.text.cleanup import SAFE, STANDARD, STEPS, clean

# What the shipped models do: signs before NFC, which joins marks to the letters they are spelt in.
SPELT = ("surrogates", "narrow", "invisible", "control", "symbols", "compose", "spaces")
TEXT = st.text() | st.text("가한 ㆍ℃Ⅱ①▲😀\u200d\u119e\u1112\u11ab\u0301\u200b", max_size=30)


def test_text_that_is_clean_maps_to_itself() -> None:
    aligned = align("배가 왔다")
    assert [aligned.span(i, i + 1) for i in range(5)] == [(i, i + 1) for i in range(5)]


def test_decomposed_hangul_maps_syllable_by_syllable() -> None:
    text = unicodedata.normalize("NFD", "한글 배")
    aligned = align(text)
    assert aligned.text == "한글 배"
    assert [unicodedata.normalize("NFC", text[slice(*aligned.span(i, i + 1))]) for i in range(4)] \
        == list("한글 배")  # fmt: skip


def test_squeezed_and_dropped_characters_are_stepped_over() -> None:
    text = "  ＤＭ\u200b \t 있음\x00끝 "
    aligned = align(text)
    assert aligned.text == "DM 있음 끝"
    assert text[slice(*aligned.span(0, 2))] == "ＤＭ"
    assert text[slice(*aligned.span(3, 5))] == "있음"
    assert text[slice(*aligned.span(6, 7))] == "끝"


def test_steps_that_move_letters_are_aligned_by_what_stayed() -> None:
    text = "환자는DM으로 ㄷㅏㅇ"
    aligned = align(text, ("scripts", "jamo"))
    assert aligned.text == "환자는 DM으로 당"
    assert text[slice(*aligned.span(4, 6))] == "DM"
    assert text[slice(*aligned.span(9, 10))] == "ㄷㅏㅇ"


def test_spelt_signs_stand_for_the_sign() -> None:
    text = "▲약  ＭＧ25℃에서 진통ㆍ소염\u200b, 안지오텐신Ⅱ로 ⅩⅠ장 좋아요😀👍끝"
    aligned = align(text, SPELT)
    assert aligned.text == "▲ 약 MG25°C에서 진통·소염, 안지오텐신 II로 XI장 좋아요 😀👍 끝"
    stayed = {word: word for word in ("▲", "약", "에서", "진통", "소염", "로", "👍", "끝")}
    spelt = {"MG25": "ＭＧ25", "°C": "℃", "°": "℃", "C": "℃", "·": "ㆍ", "II": "Ⅱ", "XI": "ⅩⅠ"}
    for clean_, given_ in {**stayed, **spelt, "안지오텐신 II": "안지오텐신Ⅱ"}.items():
        start = aligned.text.index(clean_)
        assert text[slice(*aligned.span(start, start + len(clean_)))] == given_


def test_spaces_around_a_mark_stand_for_nothing() -> None:
    aligned = align("가▲나", SPELT)
    assert aligned.text == "가 ▲ 나"
    assert [aligned.span(i, i + 1) for i in range(5)] == [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3)]


def test_an_old_vowel_that_is_a_dot_is_no_part_of_the_syllable_before() -> None:
    aligned = align("복통\u119e위통  ", SPELT)
    assert aligned.text == "복통·위통"
    assert [aligned.span(i, i + 1) for i in range(5)] == [(i, i + 1) for i in range(5)]
    old = "\u1112\u119e\u11ab글  끝"  # and here it is a vowel
    assert align(old, SPELT).span(3, 4) == (3, 4)


@settings(deadline=None)
@given(
    words=st.lists(st.sampled_from(["25℃", "진통ㆍ소염", "Ⅱ형", "①", "▲값", "5㎎"]), max_size=100)
)
def test_signs_are_aligned_one_by_one_in_long_texts(words: list[str]) -> None:
    text = "  ".join(words)
    aligned = align(text, SPELT)
    starts = {i for i, letter in enumerate(text) if letter != " " and text[i - 1 : i] in ("", " ")}
    assert starts <= set(aligned.starts)
    assert all(end - start <= 2 for start, end in zip(aligned.starts, aligned.ends, strict=True))


def test_an_empty_text_and_an_empty_span() -> None:
    assert align("").span(0, 0) == (0, 0)
    assert align("배가").span(2, 2) == (2, 2)


@pytest.mark.parametrize("steps", [SAFE, STANDARD, SPELT, tuple(STEPS)])
@given(text=TEXT)
def test_any_text_has_ordered_spans_inside_it(text: str, steps: tuple[str, ...]) -> None:
    aligned = align(text, steps)
    assert aligned.text == clean(text, steps)
    assert len(aligned.starts) == len(aligned.ends) == len(aligned.text)
    last = 0
    for start, end in zip(aligned.starts, aligned.ends, strict=True):
        assert last <= start <= end <= len(text)
        last = start


def test_a_mark_joins_its_letter_over_what_is_dropped() -> None:
    aligned = align("ae\u200b\u0301 b\u200bc")
    assert aligned.text == "aé bc"
    assert [aligned.span(i, i + 1) for i in range(5)] == [(0, 1), (1, 4), (4, 5), (5, 6), (7, 8)]


def test_comparing_letter_by_letter_is_kept_to_short_words(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    class Counting(difflib.SequenceMatcher):  # type: ignore[type-arg]
        def __init__(self, junk: None, a: str, b: str, autojunk: bool) -> None:
            compared.append(len(a) * len(b))
            super().__init__(junk, a, b, autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", Counting)
    text = "ae\u200b\u0301" * 2_000
    assert align(text).text == clean(text) and not compared
    text = "환자는DM으로 ㄷㅏㅇ " * 2_000 + "가A" * 2_000
    aligned = align(text, ("scripts", "jamo"))
    assert aligned.text == clean(text, ("scripts", "jamo"))
    assert text[slice(*aligned.span(4, 6))] == "DM"  # the long word costs the others nothing
    assert len(compared) == 4_000 and max(compared) < 100


def test_hanja_are_aligned_letter_for_letter() -> None:
    text = "고지혈증  無, 右側 骨折 500㎎"
    aligned = align(text, ("symbols", "hanja", "compose", "spaces"))
    assert aligned.text == "고지혈증 무, 우측 골절 500mg"
    at = aligned.text.index("골절")
    assert text[slice(*aligned.span(at, at + 2))] == "骨折"
