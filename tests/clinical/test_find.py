"""Many notes: found by code and status; what was missed is taught; few decisions say so."""

import json
from pathlib import Path

import pytest

from malmoi.clinical.corrections import Correction, Corrections, LearnReport
from malmoi.clinical.find import CodeQuery
from malmoi.clinical.reader import NoteReader
from malmoi.errors import OptionError
from malmoi.terms import Linker
from tests.support.graphs import Run


def test_codes_and_ranges() -> None:
    query = CodeQuery.of("e11-E14, I10")
    assert [query.fits(code) for code in ("E14.9", "I10", "E15", "I11", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    with pytest.raises(OptionError, match="name none"):
        CodeQuery.of("E14-E11")


def test_the_command_finds_patients(tmp_path: Path, run_here: Run) -> None:
    rows = "id,patient_id,text\na,P1,HTN 있음\nb,P2,HTN 없음\nc,P3,모 HTN\n"
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    read = run_here("notes", "read", "sample", "t.csv", "--spelling", "--out", "r.jsonl")
    assert read.returncode == 0, read.stderr
    done = run_here("notes", "find", "r.jsonl", "--code", "I10-I15", "--notes", "t.csv")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["patient"], one["line"]) for one in found] == [("P1", "HTN 있음")]
    family = run_here("notes", "find", "r.jsonl", "--code", "I10", "--experiencer", "family")
    assert [json.loads(line)["note"] for line in family.stdout.splitlines()] == ["c"]
    assert run_here("notes", "find", "t.csv", "--code", "I10").returncode == 1
    wrong = run_here("notes", "find", "r.jsonl", "--code", "I10", "--status", "odd")
    assert wrong.returncode == 2 and "odd is not known" in wrong.stderr


def test_a_missed_mention_is_taught() -> None:
    linker, note = Linker("sample"), "말모이열 있음, 말모이열은 아님"
    assert NoteReader(linker).read(note) == []
    rows = Corrections((Correction("말모이열", "change", code="J18.9"),))
    found = NoteReader(linker, corrections=rows).read(note)
    assert [(one.by, one.linked.candidates[0].code) for one in found] == [
        ("correction", "J18.9")
    ] * 2
    assert [one.status for one in found] == ["present", "negated"]
    again = Corrections((*rows.rows, Correction("말모이열", "reject")))
    assert NoteReader(linker, corrections=again).read(note) == []


def test_few_decisions_give_no_per_cent() -> None:
    few = LearnReport(4, 2, 0.5, 1.0, 0.1, 0.1, 0.6, {}).lines()
    assert "1 of 2 before, 2 after; too few" in few[1] and "%" not in few[1]
    assert "50.0% before" in LearnReport(90, 40, 0.5, 1.0, 0.1, 0.1, 0.6, {}).lines()[1]
