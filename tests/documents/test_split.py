"""Passages: where documents are split, how long they become, and that nothing is left out."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.documents import Block, Passage, SourceDocument, estimate_tokens, split_document
from malmoi.errors import OptionError

SENTENCE = "출장비는 교통비와 숙박비로 나누며 실비로 정산한다. "


def document(*blocks: Block, title: str = "문서") -> SourceDocument:
    return SourceDocument("a.txt", title, blocks, "a.txt", "txt", 0.0, {})


def split(*blocks: Block, **options: int) -> list[Passage]:
    return split_document(document(*blocks), **options)


def test_a_passage_never_crosses_a_heading() -> None:
    passages = split(
        Block("규정", "heading", 1),
        Block("머리말이다."),
        Block("출장", "heading", 2),
        Block("하나."),
        Block("둘."),
        Block("숙박", "heading", 3),
        Block("셋.", page=4),
        Block("부칙", "heading", 1),
        Block("넷."),
    )
    assert [(one.headings, one.text, one.page) for one in passages] == [
        (("규정",), "머리말이다.", None),
        (("규정", "출장"), "하나.\n\n둘.", None),
        (("규정", "출장", "숙박"), "셋.", 4),
        (("부칙",), "넷.", None),
    ]


def test_a_heading_with_nothing_under_it_is_a_passage_unless_it_is_the_title() -> None:
    blocks = [Block("문서", "heading", 1), Block("가", "heading", 1), Block("나", "heading", 1)]
    assert [(one.headings, one.text) for one in split(*blocks, Block("글."))] == [
        ((), "가"),
        (("나",), "글."),
    ]
    assert [one.text for one in split(*blocks)] == ["가", "나"]
    assert [one.text for one in split(Block("문서", "heading", 1))] == ["문서"]


def test_paragraphs_are_gathered_to_the_size_and_long_ones_split_at_sentences() -> None:
    passages = split(*(Block(SENTENCE * 4) for _ in range(10)), tokens=100)
    sizes = [estimate_tokens(one.text) for one in passages]
    assert len(passages) > 5
    assert all(50 < size <= 125 for size in sizes)
    [one] = split(Block(SENTENCE * 4), tokens=200)
    assert len(one.sentences) == 4
    for passage in split(Block(SENTENCE * 60), tokens=100):
        assert passage.text.startswith("출장비는")
        assert passage.text.endswith("정산한다.")
        for start, end in passage.sentences:
            assert passage.text[start:end] == SENTENCE.strip()


def test_a_small_rest_joins_the_passage_before_it() -> None:
    passages = split(Block(SENTENCE * 12), Block("끝."), tokens=12 * estimate_tokens(SENTENCE))
    assert len(passages) == 1
    assert passages[0].text.endswith("\n\n끝.")


def test_a_table_is_whole_where_it_fits_and_else_keeps_its_header() -> None:
    rows = [f"항목{n} | {n}만 원 | 비고는 없다" for n in range(40)]
    [whole] = split(Block("이름 | 값 | 비고\n" + "\n".join(rows[:3]), "table"))
    assert len(whole.sentences) == 4
    passages = split(Block("이름 | 값 | 비고\n" + "\n".join(rows), "table"), tokens=100)
    assert len(passages) > 3
    assert all(one.text.startswith("이름 | 값 | 비고\n항목") for one in passages)
    lines = [line for one in passages for line in one.text.split("\n")[1:]]
    assert lines == rows


def test_a_list_is_whole_where_it_fits_and_else_split_between_items() -> None:
    items = [f"- 준비물 {n}: 여권과 영수증" for n in range(40)]
    [whole] = split(Block("\n".join(items[:5]), "list"))
    assert whole.text == "\n".join(items[:5])
    passages = split(Block("\n".join(items), "list"), tokens=100)
    assert [line for one in passages for line in one.text.split("\n")] == items


def test_code_is_one_sentence() -> None:
    [one] = split(Block("def f():\n    return 1. + 2.", "code"))
    assert one.sentences == ((0, len(one.text)),)


def test_a_text_without_spaces_is_cut_all_the_same() -> None:
    passages = split(Block("가" * 5000), tokens=100)
    assert "".join(one.text for one in passages) == "가" * 5000
    assert all(estimate_tokens(one.text) <= 125 for one in passages)


def test_a_counter_of_tokens_can_be_given() -> None:
    text = document(Block("a b c d e f g h i j k l m n o p"))
    passages = split_document(text, tokens=8, count=lambda text: len(text.split()))
    assert [one.text for one in passages] == ["a b c d e f g h", "i j k l m n o p"]
    with pytest.raises(OptionError, match="tokens is 3; expected 8 or more"):
        split_document(text, tokens=3)


WORDS = st.text(
    alphabet=st.sampled_from('가나다 라.마?\n|-1a(“”)"…!  \t한글요다까. '), min_size=1, max_size=120
)
BLOCKS = st.lists(
    st.builds(
        Block,
        text=WORDS | st.text(max_size=60),
        kind=st.sampled_from(["heading", "paragraph", "list", "table", "code"]),
        level=st.integers(1, 6),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(blocks=BLOCKS, tokens=st.integers(8, 60))
def test_nothing_is_left_out(blocks: list[Block], tokens: int) -> None:
    whole = document(*blocks, title=blocks[0].text if blocks else "")
    passages = split_document(whole, tokens=tokens)
    found = Counter(re.sub(r"\s", "", whole.title))
    for passage in passages:
        found += Counter(re.sub(r"\s", "", passage.text + "".join(passage.headings)))
        spans = passage.sentences
        assert all(0 <= start < end <= len(passage.text) for start, end in spans)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        covered = "".join(passage.text[start:end] for start, end in spans)
        assert re.sub(r"\s", "", covered) == re.sub(r"\s", "", passage.text)
    asked = Counter(re.sub(r"\s", "", "".join(block.text for block in blocks)))
    assert not asked - found


@settings(max_examples=60, deadline=None)
@given(blocks=BLOCKS)
def test_order_is_kept(blocks: list[Block]) -> None:
    texts = [Block(f"<{at}번째> {one.text}") for at, one in enumerate(blocks)]
    joined = "".join(one.text for one in split(*texts, tokens=16))
    places = [joined.index(f"<{at}번째>") for at in range(len(texts))]
    assert places == sorted(places)
