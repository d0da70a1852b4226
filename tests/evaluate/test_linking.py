"""Linking measured: ranks by concept, files of every form, errors for a person."""

import json
from pathlib import Path

import pytest

from malmoi.errors import DataError, OptionError
from malmoi.evaluate import Settings, evaluate, linking
from malmoi.evaluate.tasks.linking import (
    Case,
    CaseSet,
    judge,
    outcome_of,
    read_cases,
    split_composite,
)
from malmoi.terms import Lexicon, Linker
from tests.support.graphs import Run
from tests.support.lexicons import HashingEncoder, write_lexicon
from tests.support.logs import record_messages

ABSTRACT = {
    "title": "Congestive heart failure (CXHF).",
    "abstract": "CHFX and fever.",
    "mentions": [
        {"start": 0, "end": 4, "text": "cough", "type": "Disease", "id": "R05"},
        {"text": "fever and cough", "type": "CompositeMention", "id": "R50.9|R05"},
        {"start": 0, "end": 4, "text": "aspirin", "type": "Chemical", "id": "MESH:D1"},
        {"start": 0, "end": 4, "text": "unknown", "type": "Disease", "id": "-1"},
    ],
}  # fmt: skip


def test_files_of_three_forms_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("mention\tcode\n폐렴\tJ18.9|J18\n\tR05\n없는것\tNIL\n", "utf-8")
    (tmp_path / "b.txt").write_text("R05||cough\nD1|2||name\n", "utf-8")
    (tmp_path / "c.jsonl").write_text(json.dumps(ABSTRACT) + "\n", "utf-8")
    told = record_messages()
    found = read_cases(tmp_path / "a.tsv")
    table, source = found.rows, found.source
    assert [(c.mention, c.codes) for c in table] == [("폐렴", ("J18.9", "J18")), ("없는것", ())]
    assert source.rows == 2 and any("1 row passed over" in line for line in told)
    lines = read_cases(tmp_path / "b.txt").rows
    assert [c.codes for c in lines] == [("R05",), ("D1", "2")]
    kept = read_cases(tmp_path / "c.jsonl", types=("Disease", "CompositeMention")).rows
    assert [(c.mention, c.codes, c.composite) for c in kept] == [
        ("cough", ("R05",), False),
        ("fever and cough", ("R50.9", "R05"), True),
    ]
    (tmp_path / "d.tsv").write_text("mention\tcode\n", "utf-8")
    with pytest.raises(DataError, match="no mention"):
        read_cases(tmp_path / "d.tsv")


def test_concepts_are_counted_and_composites_need_all(tmp_path: Path) -> None:
    linker = Linker(Lexicon.open(write_lexicon(tmp_path)))
    cases = [
        Case("폐렴", ("J18", "J18.9"), "ko"),
        Case("fever and cough", ("R50.9", "R05"), "en", composite=True),
        Case("fever and cough", ("R50.9", "I10"), "en", composite=True),
        Case("기침", ("I10",), "ko"),
        Case("아무것", (), "ko"),
    ]
    judged = judge(linker, cases)
    assert [one.rank for one in judged[:3]] == [1, 1, 0]
    outcome = outcome_of(judged, linker.lexicon)
    assert outcome.values()["accuracy@1"] == 0.5
    assert outcome.details["mentions"] == 4
    assert outcome.details["by name"]["seen"]["mentions"] == 1
    with pytest.raises(DataError, match="no mention has a code"):
        outcome_of(judged[4:], linker.lexicon)


def test_parts_share_their_head() -> None:
    assert split_composite("fever") == []
    assert split_composite("T-cell and B-cell lymphoma")[:2] == [
        "T-cell lymphoma",
        "B-cell lymphoma",
    ]


def test_models_are_compared_on_one_lexicon(tmp_path: Path) -> None:
    lexicon = write_lexicon(tmp_path)
    (tmp_path / "dev.tsv").write_text(
        "mention\tcode\n폐렴\tJ18.9\n기침\tR05\n위암\tC22.9\n", "utf-8"
    )
    report = evaluate(
        HashingEncoder(),
        "linking",
        tmp_path / "dev.tsv",
        against=[HashingEncoder("other", 32)],
        settings=Settings(lexicon=lexicon, errors=tmp_path / "errors.tsv"),
        rounds=10,
    )
    assert set(report.metrics) == {f"{m}@{k}" for m in ("accuracy", "mrr") for k in (1, 5, 10)}
    assert report.metrics["accuracy@1"].value == pytest.approx(2 / 3)
    assert [one.model for one in report.comparisons] == ["spelling alone", "other"]
    listed = (tmp_path / "errors.tsv").read_text("utf-8").splitlines()
    assert len(listed) == 2 and listed[1].startswith("위암\tC16\t")
    assert not (lexicon / "linking").exists()


def test_wrong_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("mention\tcode\n폐렴\tJ18.9\n", "utf-8")
    with pytest.raises(OptionError, match="--lexicon"):
        evaluate(HashingEncoder(), "linking", tmp_path / "dev.tsv")
    cases = CaseSet(Lexicon.open("sample"), [Case("폐렴", ("J18.9",), "ko")])
    with pytest.raises(OptionError, match="has no encode"):
        linking.measure(object(), cases)


def test_the_command_measures(run_here: Run, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("mention\tcode\n폐렴\tJ18.9\n당뇨\tE14\n", "utf-8")
    done = run_here(
        "evaluate", bundle, "--task", "linking", "--data", "dev.tsv", "--lexicon", "sample",
        "--rounds", 0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy@5"]["value"] == 1
