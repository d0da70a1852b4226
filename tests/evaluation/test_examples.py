"""Files of examples: columns found, bad rows told, impossible files refused in one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from malmoi.errors import DataError, OptionError
from malmoi.evaluation import nli, pairs, retrieval, sts, transfer
from malmoi.evaluation.tasks.nli import Labelled
from malmoi.evaluation.tasks.similarity import ScoredPair
from tests.support.logs import record_messages

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def call(text: str, name: str = "data.tsv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return call


def table(*rows: str) -> str:
    """Rows with spaces for tabs and _ for spaces."""
    return "".join(row.replace(" ", "\t").replace("_", " ") + "\n" for row in rows)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("score ko1 ko2", ["ko1", "ko2", "score"]),
        ("score en1 en2 ko1 ko2", ["ko1", "ko2", "score"]),
        ("Sentence_1 Sentence_2 Similarity", ["Sentence 1", "Sentence 2", "Similarity"]),
        ("a b label", ["a", "b", "label"]),
    ],
)
def test_common_headers_are_understood(write: Write, header: str, found: list[str]) -> None:
    values = " ".join(str(i) for i, _ in enumerate(header.split(" ")))
    other = " ".join(str(i + 1) for i, _ in enumerate(header.split(" ")))
    examples = sts.read(write(table(header, values, other)))
    assert list(examples.source.columns.values()) == found


def test_sides_choose_languages(write: Write) -> None:
    path = write(table("score en1 en2 ko1 ko2", "1 A B 가 나", "2 C D 다 라"))
    sides = {
        "en": ("A", "B"),
        "ko": ("가", "나"),
        "ko-en": ("가", "B"),
        "en-ko": ("A", "나"),
    }
    for name, expected in sides.items():
        first = sts.read(path, sides=name).rows[0]
        assert (first.a, first.b) == expected
    with pytest.raises(DataError, match="for the sides ja"):
        sts.read(path, sides="ja")


def test_sides_of_parallel_files_are_queries_and_documents(write: Write) -> None:
    path = write(table("en ko", "ship 배", "pear 과일", "snow 눈"))
    across = retrieval.read(path, sides="ko-en").rows
    assert (across.queries[0], across.documents[0]) == ("배", "ship")
    back = retrieval.read(path, sides="en-ko").rows
    assert (back.queries[0], back.documents[0]) == ("ship", "배")


def test_columns_can_be_named(write: Write) -> None:
    path = write(table("x y z", "가 나 1", "다 라 2"))
    with pytest.raises(DataError, match=r"has the columns x, y, z; .* a, b, score\. .*--columns"):
        sts.read(path)
    rows = sts.read(path, columns={"a": "x", "b": "y", "score": "z"}).rows
    assert rows[1] == ScoredPair("다", "라", 2.0)
    with pytest.raises(DataError, match="no column 'w'; it has x, y, z"):
        sts.read(path, columns={"a": "w"})
    with pytest.raises(OptionError, match="'anchor'; this task knows a, b, score"):
        sts.read(path, columns={"anchor": "x"})


def test_bad_rows_are_passed_over_and_told(write: Write) -> None:
    rows = ("score a b", "1 가 나", "NaN 가 나", "x 가 나", "inf 가 나", "2 다", "3 다 라", "4  라")
    path = write(table(*rows))
    told = record_messages()
    assert [row.score for row in sts.read(path).rows] == [1, 3]
    assert any("1 row passed over (line 6)" in line for line in told)
    assert any("4 rows passed over (lines 3, 4, 5, 8)" in line for line in told)
    with pytest.raises(DataError, match="line 3 of .* has no number in score; expected a finite"):
        sts.read(path, strict=True)


def test_a_row_in_place_of_a_header_is_not_shown(write: Write) -> None:
    path = write("환자 김철수 배가 아프다\t복통이 있다\t4.5\n배고프다\t허기지다\t3\n")
    for columns in ({}, {"a": "ko1"}):
        with pytest.raises(DataError, match="3 columns of no known name") as raised:
            sts.read(path, columns=columns)
        assert "김철수" not in str(raised.value)


def test_cp949_and_json_lines_are_read(write: Write) -> None:
    told = record_messages()
    korean = write(table("score a b", "1 배가_아프다 복통", "5 눈 설"), encoding="cp949")
    assert sts.read(korean).rows[0].a == "배가 아프다"
    assert any("cp949" in line for line in told)
    lines = '{"a": "가", "b": "나", "same": true}\n{"a": "가", "b": "다", "same": 0}\n{"a": "x"}\n'
    assert [row.same for row in pairs.read(write(lines, "p.jsonl")).rows] == [True, False]


def test_files_with_nothing_to_measure_are_refused(write: Write) -> None:
    with pytest.raises(DataError, match="is empty"):
        sts.read(write(""))
    with pytest.raises(DataError, match="no row that can be used"):
        sts.read(write(table("score a b")))
    with pytest.raises(DataError, match="no row that can be used"):
        sts.read(write("", "empty.jsonl"))
    with pytest.raises(DataError, match="score 3 in all of its 2 rows"):
        sts.read(write(table("score a b", "3 가 나", "3.0 다 라")))
    with pytest.raises(DataError, match=r"only pairs that are the same \(2\)"):
        pairs.read(write(table("same a b", "1 가 나", "true 다 라")))
    with pytest.raises(DataError, match="no query with anything to find"):
        retrieval.read(write(table("set text", "1 가", "2 나", "3 다")))
    with pytest.raises(DataError, match="there is no file"):
        sts.read("nowhere.tsv")


def test_truths_have_many_spellings(write: Write) -> None:
    path = write(table("SENTENCE1 SENTENCE2 ANSWER", "가 나 True", "다 라 FALSE", "마 바 maybe"))
    assert [row.same for row in pairs.read(path).rows] == [True, False]


def test_labelled_texts_and_pairs_are_told_apart(write: Write) -> None:
    one = transfer.read(write(table("label text", "x 가", "y 나"), "one.tsv"))
    assert one.rows[0] == Labelled(("가",), "x")
    two = transfer.read(write(table("label premise hypothesis", "x 가 나"), "two.tsv"))
    assert two.rows[0] == Labelled(("가", "나"), "x")
    inference = nli.read(write(table("label en1 en2 ko1 ko2", "x A B 가 나"), "nli.tsv"))
    assert inference.rows[0].texts == ("가", "나")


def test_grades_and_more_documents_are_read(write: Write) -> None:
    path = write(table("query document grade", "가 나 2", "가 다 1", "가 라 0", "마 라 1"))
    more = write("바\n\n나\n", "more.txt")
    examples = retrieval.read(path, documents=more)
    found, source = examples.rows, examples.source
    assert found.documents == ["나", "다", "라", "바"]
    assert found.relevant == [{0: 2.0, 1: 1.0}, {2: 1.0}]
    assert source.rows == 4
