"""The second reader: what it disputes, what it changes; it never gives the patient more."""

import csv
from pathlib import Path

import numpy as np
import pytest

from malmoi.clinical import second_reader
from malmoi.clinical.batch import NoteText, ReaderSpec, run_batch
from malmoi.clinical.context import Assertion, NoteContext
from malmoi.clinical.corrections import read_corrections
from malmoi.clinical.reader import NoteReader
from malmoi.clinical.second_reader import LABELS, WEIGHTS, Place, SecondReader
from malmoi.errors import DataError
from malmoi.terms import Linker
from tests.support.graphs import Run


def place(start: int, end: int) -> Place:
    return Place(start, end, "", False, False)


@pytest.mark.parametrize(
    ("tables", "own", "sure", "expected"),
    [
        (("present", "patient"), "present", 0.9, ("present", "patient", "certain", "")),
        (("present", "patient"), "family", 0.9, ("present", "family", "disputed", "present")),
        (("present", "patient"), "negated", 0.95, ("negated", "patient", "disputed", "present")),
        (("present", "patient"), "negated", 0.7, ("present", "patient", "disputed", "negated")),
        (("negated", "patient"), "present", 0.99, ("negated", "patient", "disputed", "present")),
        (
            ("present", "family"),
            "historical",
            0.99,
            ("present", "family", "disputed", "historical"),
        ),
        (("negated", "patient"), "possible", 0.8, ("negated", "patient", "disputed", "possible")),
    ],
)
def test_the_safer_status_counts(
    tables: tuple[str, str], own: str, sure: float, expected: tuple[str, ...]
) -> None:
    found = np.full(len(LABELS), (1 - sure) / (len(LABELS) - 1), np.float32)
    found[LABELS.index(own)] = sure
    said = second_reader._checked(Assertion(*tables), found)
    assert (said.status, said.experiencer, said.certainty, said.otherwise) == expected


def test_what_has_been_learnt() -> None:
    """Phrases that no table has: the last is present and stays so."""
    reader, right = SecondReader.open(), 0
    for note, label in (
        ("폐렴은 없는 걸로 보임", "negated"),
        ("폐렴 가능성 있어 보임", "possible"),
        ("폐렴으로 항생제 투여 중", "present"),
    ):
        context = NoteContext.of(note, [(0, 2)])
        [rows] = second_reader.features(context, [place(0, 2)])
        found = reader._probabilities(second_reader.rows_of(rows))
        right += LABELS[int(found.argmax())] == label
    assert right == 3 and WEIGHTS.stat().st_size < 3_000_000


def test_offsets_hold_where_small_letters_are_longer() -> None:
    note = "\u0130\u0130 폐렴 없음"
    context = NoteContext.of(note, [(3, 5)])
    [found] = second_reader.features(context, [place(3, 5)])
    assert any(one.startswith("r0=없음") for one in found)


def test_what_is_disputed_is_listed_first(
    tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disputing(said: Assertion, found: object, chronic: bool) -> Assertion:
        return Assertion(said.status, said.experiencer, "disputed", otherwise="negated")

    reader = NoteReader(Linker("sample"), threshold=1.0)
    assert all(one.uncertain for one in reader.read("HTN"))
    notes = [NoteText("a", "HTN")]
    spec = ReaderSpec("sample", spelling=True, threshold=1.0)
    run_batch(notes, spec, tmp_path / "a.jsonl", "jsonl", review=tmp_path / "a.csv")
    monkeypatch.setattr(second_reader, "_checked", disputing)
    notes.append(NoteText("b", "폐렴"))
    review = tmp_path / "review.tsv"
    run_batch(notes, spec, tmp_path / "out.jsonl", "jsonl", review=review)
    rows = list(csv.DictReader(review.read_text("utf-8").splitlines(), delimiter="\t"))
    assert [row["note"] for row in rows] == ["a", "b"] and rows[0]["otherwise"] == "negated"
    with pytest.raises(DataError, match="line 2 .* a decision that is not known"):
        read_corrections(review)
    review.write_text(review.read_text("utf-8").replace("\t?\t", "\taccept\t"), "utf-8")
    assert [one.decision for one in read_corrections(review)] == ["accept", "accept"]
    monkeypatch.undo()
    done = run_here("notes", "read", "sample", tmp_path / "a.jsonl", "--review", review)
    assert done.returncode == 2 and "--out" in done.stderr
