"""Labelled notes: patients stay whole, leakage is counted, bad rows are told."""

import json
from pathlib import Path

import pytest

from malmoi.errors import DataError, OptionError
from malmoi.heads.notes import (
    LabelChoice,
    NoteDocument,
    leakage,
    part_of,
    read_documents,
    targets_of,
)
from tests.support.logs import record_messages

COLUMNS = {"text": "text", "label": "label", "patient": "patient"}


def write(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    lines = [json.dumps({"patient": p, "label": x, "text": t}) for p, x, t in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        ("1", "yes", "열이 난다."),
        ("1", "yes", "기침."),
        ("2", "no", "정상."),
        ("3", "no", " "),
    ]
    return write(tmp_path / "notes.jsonl", rows)


def test_notes_of_a_patient_are_gathered(file: Path) -> None:
    found = read_documents([file], COLUMNS, decide="patient")
    assert found == [
        NoteDocument("1", "yes", ("열이 난다.", "기침.")),
        NoteDocument("2", "no", ("정상.",)),
    ]


def test_empty_notes_are_counted_with_their_line(file: Path) -> None:
    told = record_messages()
    assert len(read_documents([file], COLUMNS)) == 3
    assert "1 row passed over (line 4)" in told[0]
    broken = file.with_name("broken.jsonl")
    broken.write_text('{"text": "a", "label": "\\ud800"}\n{"text": "b", "label": "x"}\n', "utf-8")
    found = read_documents([broken], {"text": "text", "label": "label"})
    assert [one.label for one in found] == ["x"] and "(line 1)" in told[-1]
    with pytest.raises(DataError, match="line 4 .*an empty note"):
        read_documents([file], COLUMNS, strict=True)


def test_two_labels_of_one_patient_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "n.jsonl", [("1", "yes", "a"), ("1", "no", "b")])
    with pytest.raises(DataError, match="two different labels"):
        read_documents([file], COLUMNS, decide="patient")


def test_a_missing_column_is_named(file: Path) -> None:
    with pytest.raises(DataError, match="no column note; it has patient, label, text"):
        read_documents([file], {"text": "note", "label": "label"})


def test_labels_a_model_does_not_know(file: Path) -> None:
    with pytest.raises(DataError, match="not the model's"):
        read_documents([file], COLUMNS, labels=("yes", "maybe"))


def test_positive_joins_the_rest(file: Path) -> None:
    found = read_documents([file], COLUMNS, choice=LabelChoice(positive=("no",)))
    assert [one.label for one in found] == ["no", "no", "yes"]
    with pytest.raises(DataError, match="which positive names"):
        read_documents([file], COLUMNS, choice=LabelChoice(positive=("surgery",)))


def test_largest_keeps_the_commonest(tmp_path: Path) -> None:
    rows = [(str(i), label, "x") for i, label in enumerate("aaabbc")]
    found = read_documents(
        [write(tmp_path / "n.jsonl", rows)], COLUMNS, choice=LabelChoice(largest=2)
    )
    assert [one.label for one in found] == list("aaabb")


def test_only_one_way_to_choose_labels() -> None:
    with pytest.raises(OptionError, match="expected one at most"):
        LabelChoice(positive=("a",), largest=2)


def test_a_patient_always_goes_to_the_same_part() -> None:
    parts = [part_of(str(i), dev=0.2, test=0.3, seed=5) for i in range(2000)]
    assert parts == [part_of(str(i), dev=0.2, test=0.3, seed=5) for i in range(2000)]
    assert 340 < parts.count("dev") < 460
    assert 530 < parts.count("test") < 670


def test_leakage_counts_patients_and_the_very_same_notes() -> None:
    parts = {
        "train": [NoteDocument("1", "a", ("같은 글",)), NoteDocument("2", "a", ("x",))],
        "dev": [NoteDocument("2", "a", ("y",))],
        "test": [NoteDocument("3", "a", ("같은   글",))],
    }
    assert leakage(parts) == {"patients of train and dev": 1, "notes of train and test": 1}


def test_several_labels_in_a_cell_and_of_a_patient(tmp_path: Path) -> None:
    rows = [("1", "AF; CHF", "a"), ("1", "COPD", "b"), ("2", "", "c"), ("3", '["AF"]', "d")]
    file = write(tmp_path / "n.jsonl", rows)
    problem = "multi_label_classification"
    found = read_documents([file], COLUMNS, problem=problem, decide="patient")
    assert [one.labels for one in found] == [("AF", "CHF", "COPD"), (), ("AF",)]
    kept = read_documents([file], COLUMNS, problem=problem, choice=LabelChoice(largest=1))
    assert [one.labels for one in kept] == [("AF",), (), (), ("AF",)]
    known = ("CHF", "AF", "COPD")
    found = read_documents([file], COLUMNS, problem=problem, labels=known)
    assert targets_of(found, known, problem).tolist()[0] == [1, 1, 0]
    with pytest.raises(DataError, match="1 label of the notes is not the model's"):
        read_documents([file], COLUMNS, problem=problem, labels=("AF", "CHF"))
    with pytest.raises(OptionError, match="Remove positive"):
        read_documents([file], COLUMNS, problem=problem, choice=LabelChoice(positive=("AF",)))


def test_numbers_of_notes(tmp_path: Path) -> None:
    rows = [
        ("1", "3", "a"),
        ("1", "3", "b"),
        ("2", "4.5", "c"),
        ("3", "long", "d"),
        ("4", "nan", "e"),
    ]
    file = write(tmp_path / "n.jsonl", rows)
    told = record_messages()
    found = read_documents([file], COLUMNS, problem="regression", decide="patient")
    assert targets_of(found, (), "regression").tolist() == [3.0, 4.5]
    assert "2 rows passed over (lines 4, 5)" in told[0]
