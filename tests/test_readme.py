"""README in both languages: its snippets and commands run, and no command goes unmentioned."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.cli import app
from tests.support import ROOT

PAGES = ("README.md", "README.ko.md")

pytestmark = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_commands_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("pt는 DM nephropathy로 f/u 중\n", "utf-8")
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ malmoi ")]
    assert len(commands) >= 3
    for command in commands:
        done = CliRunner().invoke(app, command[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_mentioned(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert len(app.registered_commands) > 15
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert f"malmoi {name}" in text, f"{page} does not mention malmoi {name}"


@pytest.mark.parametrize("page", PAGES)
def test_what_the_demo_prints_is_true(page: str) -> None:
    """The scores on the page are the model's own, to the last digit shown."""
    [shown] = [block for block in blocks(page, "text") if "Which of six" in block]
    encoder = malmoi.load()
    rows = re.findall(r"^ +(-?\d\.\d{3})  (.+) \| (.+)$", shown, re.MULTILINE)
    assert len(rows) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for score, a, b in rows:
            # Processors round 8-bit products differently, so the last digit may be off by a few.
            assert encoder.similarity(a, b) == pytest.approx(float(score), abs=0.02)


def test_pages_are_short() -> None:
    for page in PAGES:
        assert len((ROOT / page).read_text("utf-8").splitlines()) <= 150
