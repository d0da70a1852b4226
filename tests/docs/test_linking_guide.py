"""The linking half of docs/terms.md: its commands and snippets run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.cli import app
from malmoi.terms import build_lexicon
from tests.support import ROOT

PAGE = ROOT / "docs/terms.md"
FILES = {
    "mentions.txt": "HTN\n폐렴\n",
    "note.txt": "pt는 HTN, DM 있으며 CXR상 pneumonia 의심\n",
    "kcd.tsv": "code\tko\ten\nE14\t당뇨병\tDiabetes mellitus\nJ18.9\t폐렴\tPneumonia\n",
    "dev.tsv": "mention\tcode\n폐렴\tJ18.9\n당뇨병\tE14\n충전기\t-\n",
}

pytestmark = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


def blocks(kind: str) -> list[str]:
    half = PAGE.read_text("utf-8").split("## Linking")[1]
    return re.findall(rf"```{kind}\n(.*?)```", half, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_snippets_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    assert "pneumonia ('uncertain',) J18.9" in capsys.readouterr().out


@pytest.mark.slow
def test_commands_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 5
    for line in lines:
        command, _, stdin = line.partition(" < ")
        given = (folder / stdin).read_text("utf-8") if stdin else None
        arguments = shlex.split(command)[1:]
        if "kcd.lexicon" in arguments:
            build_lexicon(["kcd.tsv"], "kcd.lexicon")
        arguments += ["--spelling"] if "link" in arguments else []
        done = CliRunner().invoke(app, arguments, input=given)
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception}"
