"""`malmoi lexicon` as a person uses it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.graphs import Run

TABLE = "code\tko\ten\nE14\t당뇨병(E14)\tDiabetes mellitus NOS\nI10\t고혈압\tHypertension\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.tsv").write_text(TABLE, "utf-8")
    return tmp_path / "t.tsv"


def test_build_add_and_look(run: Run, run_here: Run, table: Path, tmp_path: Path) -> None:
    done = run("lexicon", "build", table, "--out", "x.lexicon", "--table")
    assert done.returncode == 0, done.stderr
    assert "4 names of 2 concepts" in done.stdout and "NOS/NEC: 1" in done.stdout
    (tmp_path / "mine.tsv").write_bytes("code\tname\nE14\t소갈\n".encode("cp949"))
    done = run_here("lexicon", "add", "x.lexicon", "mine.tsv")
    assert "added 1 name to x.lexicon" in done.stderr and "cp949" in done.stderr
    assert "not in the lexicon before" not in done.stderr
    (tmp_path / "new.tsv").write_text("code\tname\nX1\t새로운 병\n", "utf-8")
    shutil.copytree(tmp_path / "x.lexicon", tmp_path / "y.lexicon")
    done = run_here("lexicon", "add", "y.lexicon", "new.tsv")
    assert "1 code was not in the lexicon before: X1" in done.stderr
    done = run_here("lexicon", "show", "x.lexicon", "E14")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["name"] for row in rows} == {"당뇨병", "Diabetes mellitus", "소갈"}
    assert rows[0]["original"] == "당뇨병(E14)"
    done = run_here("lexicon", "info", "x.lexicon", "--table")
    assert "all files whole" in done.stdout and "1 name was added later, in 1 part" in done.stdout
    found = json.loads(run_here("lexicon", "info", "x.lexicon").stdout)
    assert found["names"] == 5 and len(found["segments"]) == 2


def test_the_sample_is_known_by_name(run_here: Run) -> None:
    done = run_here("lexicon", "show", "sample", "K74.6", "--table")
    assert "간경화" in done.stdout
    assert "DM" in run_here("lexicon", "ambiguous", "sample", "--csv").stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["build", "none.tsv", "-o", "x"], 1, "there is no file none.tsv"),
        (["build", "t.tsv", "-o", "no/such/x", "--columns", "code=x,ko=ko"], 1, "no column 'x'"),
        (["build", "t.tsv", "-o", "x", "--columns", "code"], 2, "role=column"),
        (["build", "t.tsv", "-o", "x", "--form", "blue"], 1, "form 'blue' is not known"),
        (["build", "t.tsv", "-o", "t.tsv"], 1, "exists already"),
        (["build", ".", "-o", "x"], 1, "is a folder; expected a text file"),
        (["add", "none.lexicon", "t.tsv"], 1, "there is no lexicon none.lexicon"),
        (["show", "sample", "Q"], 1, "has no code 'Q'"),
        (["info", "t.tsv"], 1, "is a file; expected a lexicon"),
    ],
)
def test_bad_input(run_here: Run, table: Path, args: list[str], code: int, message: str) -> None:
    done = run_here("lexicon", *args)
    assert done.returncode == code and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.stderr.count("\n") == 1
