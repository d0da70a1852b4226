"""FHIR and OMOP: what is written holds together, says whose a disease is, and can be redacted."""

import base64
import csv
import datetime
import json
from pathlib import Path

import pytest

from malmoi.clinical.batch import NoteText, ReaderSpec, find_notes, read_note, run_batch
from malmoi.clinical.reader import NoteReader
from malmoi.clinical.standards import (
    ICD10,
    KCD,
    Concepts,
    NoteNumbers,
    fhir_bundle,
    omop_rows,
    relation,
)
from malmoi.errors import DataError
from malmoi.terms import Linker
from tests.support.graphs import Run

NOTE = "담당: 김민수\nHTN, 폐렴 없음\n가족력: 부 당뇨, 모 고혈압 없음"
WHEN = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def record() -> dict[str, object]:
    return read_note(NoteReader(Linker("sample")), NoteText("n 1", NOTE, "P/7"))


def test_a_bundle_holds_together(record: dict[str, object]) -> None:
    bundle = fhir_bundle(record)
    urls = {entry["fullUrl"]: entry["resource"] for entry in bundle["entry"]}
    assert len(urls) == len(bundle["entry"]) and all(url.startswith("urn:uuid:") for url in urls)
    assert bundle == fhir_bundle(record)
    document = bundle["entry"][0]["resource"]
    assert base64.b64decode(document["content"][0]["attachment"]["data"]).decode() == NOTE
    for one in urls.values():
        subject = one.get("subject") or one["patient"]
        assert subject == {"reference": "Patient/P-7"}
        if one["resourceType"] == "Condition":
            assert urls[one["evidence"][0]["detail"][0]["reference"]] is document
            refuted = one["verificationStatus"]["coding"][0]["code"] == "refuted"
            assert ("clinicalStatus" in one) != refuted
            assert [c["system"] for c in one["code"]["coding"]] == [KCD, ICD10]
    own = fhir_bundle(record, system="urn:x")["entry"][1]["resource"]["code"]["coding"]
    assert [c["system"] for c in own] == ["urn:x"]


def test_relatives_are_named_and_may_not_have_it(record: dict[str, object]) -> None:
    kin = [e["resource"] for e in fhir_bundle(record)["entry"] if "relationship" in e["resource"]]
    roles = [one["relationship"]["coding"][0]["code"] for one in kin]
    negated = ["modifierExtension" in one["condition"][0] for one in kin]
    assert roles == ["FTH", "MTH"] and negated == [False, True]
    assert relation("당뇨 (누나)", 0, 2) == ("SIS", "sister")
    assert relation("가족력: 당뇨", 5, 7) == ("FAMMEMB", "family member")


def test_notes_keep_their_numbers(tmp_path: Path) -> None:
    numbers = NoteNumbers()
    assert [numbers.of(name) for name in ("a", "17", "b", "a", "1")] == [1, 17, 18, 1, 19]
    numbers.save(tmp_path / "x.tsv")
    assert NoteNumbers.open(tmp_path / "x.tsv") == numbers


def test_concepts_of_a_vocabulary(record: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no .*CONCEPT.csv"):
        Concepts.open(tmp_path)
    rows = "9\tI10\tICD10\n8\tI10\tKCD7\n7\tJ189\tICD10\n6\tI10\tSNOMED\n"
    head = "concept_id\tconcept_code\tvocabulary_id\n"
    (tmp_path / "CONCEPT.csv").write_text(head + rows, "utf-8")
    related = "concept_id_1\tconcept_id_2\trelationship_id\n8\t320128\tMaps to\n"
    (tmp_path / "CONCEPT_RELATIONSHIP.csv").write_text(related, "utf-8")
    found = list(omop_rows([record], when=WHEN, concepts=Concepts.open(tmp_path)))
    ids = [(row["note_nlp_source_concept_id"], row["note_nlp_concept_id"]) for row in found]
    assert ids[:2] == [(8, 320128), (7, 0)] and all(row["note_id"] == 1 for row in found)


@pytest.mark.parametrize("form", ["fhir", "omop", "html", "jsonl"])
def test_every_form_can_be_redacted(tmp_path: Path, form: str) -> None:
    out, spec = tmp_path / "out", ReaderSpec("sample", spelling=True)
    note = NoteText("a", NOTE, "P7")
    run_batch([note], spec, out, form, redact=True, review=tmp_path / "r.tsv")
    written = out.read_text("utf-8")
    if form == "fhir":
        content = json.loads(written)["entry"][0]["resource"]["content"][0]
        written += base64.b64decode(content["attachment"]["data"]).decode()
    assert "김민수" not in written and "P7" not in written
    assert "김민수" not in (tmp_path / "r.tsv").read_text("utf-8")


def test_the_command_writes_omop(tmp_path: Path, run_here: Run) -> None:
    (tmp_path / "t.csv").write_text("id,patient_id,text\nx,P7,폐렴 없음\n", "utf-8")
    assert next(find_notes([tmp_path / "t.csv"])).patient == "P7"
    read = ("notes", "read", "sample", "t.csv", "--spelling", "-f", "omop", "--redact")
    done = run_here(*read, "--out", "o.csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "o.csv").read_text("utf-8").splitlines()))
    assert rows[0]["note_id"] == "1" and (tmp_path / "o.ids.tsv").exists()
    assert '"id": "P7"' not in run_here(*read[:-2], "fhir").stdout
