"""The table of abbreviations: what it holds, and a user's own over it."""

from pathlib import Path

import pytest

from malmoi.errors import DataError
from malmoi.terms import Abbreviations
from malmoi.terms.abbreviations import KINDS


def test_the_shipped_table_is_clean() -> None:
    table = Abbreviations.open()
    assert len(table) > 500
    rows = list(table)
    assert len(set(rows)) == len(rows)
    for row in rows:
        assert row.short and row.en and row.ko and row.kind in KINDS
    common = [
        "HTN",
        "DM",
        "CXR",
        "r/o",
        "f/u",
        "LC",
        "CKD",
        "COPD",
        "CHF",
        "AMI",
        "CVA",
        "TB",
        "HCC",
    ]
    for short in [*common, "HCC", "BPH", "GERD", "URI", "UTI", "PNA", "SOB"]:
        assert table.expand(short), short
    assert len({row.en for row in table.expand("MS")}) == 2
    assert table.expand("f/U")
    assert table.expand("PD", kinds=["procedure"])[0].ko == "복막투석"
    assert table.expand("없음") == ()


def test_a_users_table_replaces_extends_and_removes(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(
        "abbreviation\ten\tko\nLC\tlaparoscopic cholecystectomy\t복강경담낭절제술\n"
        "우리병\town disease\t우리 병\nMS\t\t\n",
        "utf-8",
    )
    table = Abbreviations.open(path)
    assert [row.en for row in table.expand("LC")] == ["laparoscopic cholecystectomy"]
    assert table.expand("우리병")[0].kind == "disease"
    assert table.expand("MS") == () and table.expand("DM")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("short\tlong\na\tb\n", "has the columns short, long"),
        ("abbreviation\ten\n\tb\n", "line 2 .* has no abbreviation"),
        ("abbreviation\ten\tkind\na\tb\tblue\n", "a kind that is not known"),
        ("abbreviation\ten\na\n", "has 1 field;"),
        ("", "is empty"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.tsv").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        Abbreviations.open(tmp_path / "t.tsv")
