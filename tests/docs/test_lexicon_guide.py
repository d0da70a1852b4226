"""docs/terms.md does what it says: its commands and snippets run, and print what they claim."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from malmoi.cli import app
from malmoi.terms import Abbreviations, build_lexicon
from malmoi.terms.cleaning import STEPS
from malmoi.terms.readers import FORMS, ROLES
from tests.support import ROOT

PAGE = ROOT / "docs/terms.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the page speaks of."""
    files = {
        "kcd.tsv": "code\tko\ten\nE14\t당뇨병\tDiabetes mellitus\n",
        "our-names.tsv": "code\tname\nE14\t소갈\n",
        "our-abbreviations.tsv": "abbreviation\ten\tko\nLC\tlap chole\t복강경 담낭절제술\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def lexicon_blocks(kind: str) -> list[str]:
    """The blocks of the page that need a lexicon alone, and no linker."""
    return [block for block in blocks(kind) if "malmoi link" not in block and "Linker" not in block]


def test_snippets_print_what_they_claim(folder: Path) -> None:
    names: dict[str, object] = {}
    checked = 0
    for block in lexicon_blocks("python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(PAGE), "exec"), names)
        for claimed in re.findall(r"^print.*# (.+)$", block, re.MULTILINE):
            assert claimed in printed.getvalue()
            checked += 1
    assert checked > 0


def test_commands_run(folder: Path) -> None:
    lines = [line for block in lexicon_blocks("console") for line in block.splitlines()]
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ malmoi lexicon")]
    assert len(commands) > 4
    for command in commands:
        done = CliRunner().invoke(app, command[1:])
        assert done.exit_code == 0, f"{command}\n{done.exception}\n{done.output}"


def test_everything_is_mentioned() -> None:
    text = PAGE.read_text("utf-8")
    for form in FORMS:
        assert f"| `{form}` |" in text
    for step in STEPS:
        assert f"| {step} |" in text
    for role in ROLES:
        assert f"`{role}`" in text
    count = re.search(r"some (\d+) short forms", text)
    assert count and abs(len(Abbreviations.open()) - int(count.group(1))) < 20


def test_the_sample_is_as_large_as_said(folder: Path) -> None:
    table = PAGE.parents[1] / "src/malmoi/data/sample.tsv"
    report = build_lexicon([table], folder / "sample.lexicon")
    assert f"{report.concepts} common conditions" in PAGE.read_text("utf-8")
