"""Tables: named columns in, bad rows counted with their lines."""

from pathlib import Path

import pytest

from malmoi.errors import DataError
from malmoi.io.tables import (
    BadRows,
    read_cells,
    read_columns,
    read_rows,
    read_texts,
    show_columns,
)
from tests.support.logs import record_messages


def write(tmp_path: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_tsv_keeps_lone_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", 'ko\ten\n그는 "네\tHe said "yes\n', "cp949")
    assert list(read_rows(path)) == [{"ko": '그는 "네', "en": 'He said "yes'}]


def test_csv_fields_may_hold_commas_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'text,n\n"가, 나\n다",1\n')
    assert list(read_rows(path)) == [{"text": "가, 나\n다", "n": "1"}]


def test_json_lines_give_text_for_every_value(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "배", "n": 1}\n\n{"text": "sea", "n": null}\n')
    assert list(read_rows(path)) == [{"text": "배", "n": "1"}, {"text": "sea", "n": "null"}]


def test_ragged_rows_are_counted_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tb\n1\t2\nx\n3\t4\n5\t6\t7\n")
    told = record_messages()
    assert [row["a"] for row in read_rows(path)] == ["1", "3"]
    assert told == [f"{path}: 2 rows passed over (lines 3, 5)"]


def test_strict_stops_at_the_first_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tb\n1\t2\nx\n")
    with pytest.raises(DataError, match=r"line 3 of .* has 1 field; expected 2"):
        list(read_rows(path, strict=True))
    path = write(tmp_path, "a.jsonl", '{"a": 1}\n[' + "[" * 100_000)
    with pytest.raises(DataError, match="line 2 of .* has no JSON object"):
        list(read_rows(path, strict=True))


def test_texts_come_from_lines_or_a_named_column(tmp_path: Path) -> None:
    assert list(read_texts(write(tmp_path, "a.txt", "가\n나\n"))) == ["가", "나"]
    assert list(read_texts(write(tmp_path, "b.tsv", "text\n가\n"))) == ["가"]
    two = write(tmp_path, "c.tsv", "ko\ten\n가\ta\n")
    assert list(read_texts(two, column="en")) == ["a"]
    with pytest.raises(DataError, match="several columns and none was named; it has ko, en"):
        list(read_texts(two))
    with pytest.raises(DataError, match="no column 'jp'; it has ko, en"):
        list(read_texts(two, column="jp"))


def test_an_empty_table_and_an_unknown_ending_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty; expected a header"):
        list(read_rows(write(tmp_path, "a.tsv", "")))
    with pytest.raises(DataError, match=r"ends in .xls; expected"):
        list(read_rows(write(tmp_path, "a.xls", "")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\ta\n1\t2\t3\n", "columns 1 and 3 of .* have the same name"),
        ("배가 아프다\t배가 아프다\t5\n", "columns 1 and 2 of .* have the same name"),
        ("a\tb\r1\t2\r3\t4\r", "end in a carriage return alone"),
        ("a\0\tb\0\n1\t2\n", "NUL characters in its first line"),
    ],
)
def test_first_lines_that_are_no_header_are_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        list(read_rows(write(tmp_path, "a.tsv", text)))
    assert "배" not in str(raised.value)


def test_empty_names_may_come_twice(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\t\t\n1\t\t\n")
    assert [row["a"] for row in read_rows(path)] == ["1"]


def test_a_carriage_return_inside_a_cell_is_a_character(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tb\nx\ry\tz\r\n\n1\t2\n")
    assert list(read_rows(path)) == [{"a": "x\ry", "b": "z"}, {"a": "1", "b": "2"}]
    path = write(tmp_path, "a.csv", "a,b\rx,y\r")
    with pytest.raises(DataError, match=r"line 1 of .* Check its quotes and line ends"):
        list(read_rows(path))


def test_a_line_of_json_with_a_key_twice_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": "1", "a": "2"}\n{"a": "3"}\n')
    told = record_messages()
    assert list(read_rows(path)) == [{"a": "3"}]
    assert told == [f"{path}: 1 row passed over (line 1)"]
    with pytest.raises(DataError, match="line 1 of .* has a key twice; expected each key once"):
        list(read_rows(path, strict=True))


def test_columns_are_named_only_where_they_are_names() -> None:
    secret = "환자 김철수"
    assert secret not in show_columns([secret, "복통이 있다", "4.5"], asked=("a", "b"))
    assert show_columns([secret, "복통", "positive"]) == "positive and 2 others"
    assert show_columns(["발화", "응답", "평점"], asked=("발화", "평점")) == "발화, 응답, 평점"
    assert show_columns(["code", "배" * 41]) == "code and 1 other"


def test_lines_of_json_without_a_column_are_counted(tmp_path: Path) -> None:
    rows = '{"a": "1", "b": "2"}\n{"a": "3"}\n{"a": null, "b": "4"}\n'
    path = write(tmp_path, "a.jsonl", rows)
    told = record_messages()
    bad = BadRows("a.jsonl", strict=False)
    found = list(read_columns(path, ["a", "b"], bad, remedy="Mend it."))
    assert found == [(1, {"a": "1", "b": "2"}), (3, {"a": "", "b": "4"})]
    assert bad.lines == [2]
    with pytest.raises(DataError, match=r"no column c; it has a, b\. Mend it\."):
        list(read_columns(path, ["a", "c"], bad, remedy="Mend it."))
    with pytest.raises(DataError, match="line 2 of a.jsonl has no b"):
        list(read_columns(path, ["a", "b"], BadRows("a.jsonl", True), remedy=""))
    empty = write(tmp_path, "b.jsonl", "")
    assert list(read_columns(empty, ["a"], bad, remedy="")) == []
    assert told == [f"{empty} has no rows"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", 'a\tb"\n\nc\t\n\t\n'),
        ("t.txt", 'a\tb"\n\nc\t\n\t\n'),
        ("t.csv", 'a,"b"""\n\nc,\n,\n'),
        ("t.csv", 'a;"b"""\n\nc;\n;\n'),
    ],
)
def test_cells_of_any_table_come_with_their_lines(tmp_path: Path, name: str, text: str) -> None:
    assert list(read_cells(write(tmp_path, name, text))) == [(1, ["a", 'b"']), (3, ["c", ""])]


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2 of .* cannot be read as a table"):
        list(read_cells(write(tmp_path, "t.csv", 'a,b\n"c,d\n')))
