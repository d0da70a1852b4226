"""Tables: named columns in, bad rows counted with their lines."""

from pathlib import Path

import pytest

from malmoi.errors import DataError
from malmoi.tables import read_rows, read_texts


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
    told: list[str] = []
    assert [row["a"] for row in read_rows(path, tell=told.append)] == ["1", "3"]
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
