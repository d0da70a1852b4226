"""Ends of sentences in Korean, English and mixed text."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.text.sentences import split_sentences


@pytest.mark.parametrize(
    "text",
    [
        "오늘 비가 왔다.|내일은 맑겠다.",
        "언제 오셨어요?|방금 왔어요!|반갑습니다.",
        "신청 기한은 3일임.|서류를 제출할 것.",
        "값은 3.14이고 약 2.5배다.|끝이다.",
        "2024. 3. 15. 개정한 규정이다.|2024.3.15.에 시행한다.",
        "Dr. Kim met Mr. Lee at 3 p.m. on Friday.|They talked.",
        "See Fig. 2 and e.g. the U.S. market.|It grew.",
        "1. 첫째 항목이다.|2. 둘째 항목이다.",
        "가. 준비한다.|나. 시작한다.",
        "그는 “안녕하세요. 반갑습니다.”라고 말했다.|그리고 갔다.",
        "그는 “정말이다.” 하고 말했다.|모두 웃었다.",
        "괄호 안(참고. 표 1을 볼 것.)은 나누지 않는다.|다음이다.",
        "음... 그건 잘 모르겠다.|글쎄… 그렇다.|그랬지...|끝.",
        "먹었다.|그리고 잤다.",
        "감사합니다 |수고하셨어요 |또 봐요",
        "첫 줄\n|둘째 줄\n|\n|셋째 줄",
        "혈압은 120/80 mmHg였다.|pt는 DM으로 f/u 중이다.",
        "비타민 C.|그리고 갔다.|J. Kim과 왔다.",
        "영화가 끝났다。|다음！|정말？|네.",
    ],
)
def test_ends_of_sentences(text: str) -> None:
    expected = [part.strip() for part in text.split("|") if part.strip()]
    joined = re.sub(r"(?<=[.?!])\|", " ", text).replace("|", "")
    assert [joined[start:end] for start, end in split_sentences(joined)] == expected


def test_no_space_after_the_full_stop() -> None:
    text = "밥을 먹었다.그리고 잤어요?네.example.com과 3.5는 남는다."
    assert [text[start:end] for start, end in split_sentences(text)] == [
        "밥을 먹었다.",
        "그리고 잤어요?",
        "네.example.com과 3.5는 남는다.",
    ]


@given(st.text(max_size=200) | st.text(alphabet="가다요. ?!\n\"'()“”…1a", max_size=80))
def test_every_character_is_in_a_sentence(text: str) -> None:
    spans = split_sentences(text)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())
    assert all(text[start:end].strip() == text[start:end] for start, end in spans)
