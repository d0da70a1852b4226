"""ClinicalBERT's chapter: made-up notes by patient, windows, the readmission rule, calibration."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from malmoi.heads.decision import calibrate, joint
from malmoi.heads.notes import part_of, read_documents, targets_of
from tests.support import ROOT

COLUMNS = {"text": "text", "label": "readmitted", "patient": "patient_id"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    script = runpy.run_path(str(ROOT / "examples/notes.py"))
    assert script["write_notes"](path, patients=60) > 100
    return path


def test_the_sample_notes_are_what_the_recipe_reads(notes: Path) -> None:
    patients = read_documents([notes], COLUMNS, decide="patient")
    assert len(patients) == 60 and {one.label for one in patients} == {"yes", "no"}
    assert max(len(one.notes) for one in patients) > 1
    parts = {one.patient: part_of(one.patient, dev=0.15, test=0.15) for one in patients}
    assert set(parts.values()) == {"train", "dev", "test"}
    again = notes.with_name("again.jsonl")
    runpy.run_path(str(ROOT / "examples/notes.py"))["write_notes"](again, patients=60)
    assert again.read_bytes() == notes.read_bytes()


def test_stays_and_diagnoses_of_the_same_notes(notes: Path) -> None:
    """docs/notes.md: a number and several labels a patient, each of which the notes mention."""
    stays = read_documents(
        [notes], COLUMNS | {"label": "days"}, decide="patient", problem="regression"
    )
    days = targets_of(stays, (), "regression")
    assert len(days) == 60 and 2 <= days.min() < days.max() <= 12
    several = read_documents(
        [notes],
        COLUMNS | {"label": "diagnoses"},
        decide="patient",
        problem="multi_label_classification",
    )
    assert {len(one.labels) for one in several} == {1, 2}
    for one in several:
        assert all(label in " ".join(one.notes) for label in one.labels)


def test_the_rule_of_clinicalbert() -> None:
    """P = (P_max + P_mean n/c) / (1 + n/c): few windows by the largest, many by the mean."""
    assert joint([0.58])[0] == pytest.approx(0.58)
    assert joint([0.2, 0.8], c=2)[0] == pytest.approx((0.8 + 0.5) / 2)
    many = np.array([0.9] + [0.1] * 199)
    assert joint(many, c=2)[0] == pytest.approx(many.mean(), abs=0.02)


def test_one_window_keeps_its_probability_without_many_dev_notes() -> None:
    assert calibrate([[0.42, 0.58]] * 3, [1, 1, 1])[0] == 1.0
