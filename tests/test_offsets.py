"""Cleaned text keeps the way back to the original."""

import difflib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.offsets import align
from malmoi.text import SAFE, STANDARD, STEPS, clean


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


def test_an_empty_text_and_an_empty_span() -> None:
    assert align("").span(0, 0) == (0, 0)
    assert align("배가").span(2, 2) == (2, 2)


@pytest.mark.parametrize("steps", [SAFE, STANDARD, tuple(STEPS)])
@given(text=st.text())
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
