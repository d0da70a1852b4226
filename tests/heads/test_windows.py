"""Windows: whole sentences, nothing lost, offsets into the text itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.heads.windows import TextSpan, cut_windows, sentences


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def shown(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentences(text)]


def test_sentences_end_at_marks_and_lines() -> None:
    text = "열이 난다. 기침은 없다!\nNo fever. CXR상 pneumonia 의심?"
    assert shown(text) == ["열이 난다.", "기침은 없다!", "No fever.", "CXR상 pneumonia 의심?"]


def test_full_width_marks_need_no_space() -> None:
    assert shown("열이 난다。기침은 없다。") == ["열이 난다。", "기침은 없다。"]


@pytest.mark.parametrize(
    "text",
    [
        "Seen by Dr. Kim today.",
        "Dose of 3.5 mg was given.",
        "1. Chest pain on exertion.",
        "J. Smith was seen vs. placebo.",
    ],
)
def test_dots_inside_a_sentence_do_not_end_it(text: str) -> None:
    assert shown(text) == [text]


def test_windows_hold_whole_sentences() -> None:
    text = "a b c. d e. f g. h i j."
    spans = cut_windows(text, words, size=5)
    assert [text[s.start : s.end] for s in spans] == ["a b c. d e.", "f g. h i j."]


def test_a_long_sentence_is_cut_at_white_space() -> None:
    text = "one two three four five six seven"
    spans = cut_windows(text, words, size=3)
    assert all(len(text[s.start : s.end].split()) <= 3 for s in spans)
    assert " ".join(text[s.start : s.end] for s in spans) == text


def test_a_word_without_end_is_cut_anyway() -> None:
    text = "가" * 9001
    spans = cut_windows(text, lambda texts: [len(text) for text in texts], size=500)
    assert all(s.end - s.start <= 500 for s in spans)
    assert "".join(text[s.start : s.end] for s in spans) == text


@pytest.mark.parametrize("text", ["", "  \n\t ", "\n\n"])
def test_an_empty_note_has_no_windows(text: str) -> None:
    assert cut_windows(text, words, size=5) == []


def test_one_short_note_is_one_window() -> None:
    assert cut_windows("pt는 DM으로 f/u 중", words, size=64) == [TextSpan(0, 14)]


@given(st.text(alphabet="가나 ab.\n!?。\t", max_size=300), st.integers(1, 12))
def test_every_visible_character_stands_in_one_window(text: str, size: int) -> None:
    spans = cut_windows(text, lambda texts: [len(t) for t in texts], size=size)
    seen = [i for span in spans for i in range(span.start, span.end)]
    assert len(seen) == len(set(seen)) and seen == sorted(seen)
    assert {i for i, letter in enumerate(text) if not letter.isspace()} <= set(seen)
