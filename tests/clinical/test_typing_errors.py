"""Names with one typing error: what is found, and what is another word."""

import pytest

from malmoi.clinical.reader import NoteReader
from malmoi.clinical.typing_errors import TypingErrors
from malmoi.terms import Linker

NAMES = [
    "당뇨병",
    "고혈압",
    "뇌출혈",
    "복강병",
    "지능저하",
    "pneumonia",
    "cholelithiasis",
    "contusion",
    "petechiae",
]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("당뇨뱡", "당뇨병"), ("고혈얍", "고혈압"), ("pnuemonia", "pneumonia"),
        ("Pneumoia", "pneumonia"), ("cholelithasis", "cholelithiasis"),
    ],
)  # fmt: skip
def test_one_error_is_read(word: str, name: str) -> None:
    assert TypingErrors(NAMES).name_of(word) == name


@pytest.mark.parametrize(
    "word",
    [
        "당뇨병",
        "당뇨가",
        "당뇨",
        "복강경",
        "재출혈",
        "기능저하",
        "contusions",
        "petechial",
        "pneumxnxa",
        "pneumozia",
    ],
)
def test_another_word_is_none(word: str) -> None:
    assert TypingErrors(NAMES).name_of(word) == ""


def test_of_two_names_as_near_none_is_chosen() -> None:
    assert TypingErrors(["hyperplasia", "hypoplasia"]).name_of("hyoplasia") == "hypoplasia"
    assert TypingErrors(["gastritisa", "gastritisb"]).name_of("gastritis") == ""


def test_a_note_with_typing_errors(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = NoteReader(Linker("sample")).read("당뇨뱡으로 f/u, pnuemonia 없음")
    assert [(one.text, one.by, one.status) for one in found] == [
        ("당뇨뱡", "typing error", "present"),
        ("pnuemonia", "typing error", "negated"),
    ]
    assert all(one.score < 0.86 for one in found)
