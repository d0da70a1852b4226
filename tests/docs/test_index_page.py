"""The index page in both languages: the first commands of every kind of user run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import malmoi
from malmoi.cli import app
from tests.support import ROOT

DOCS = ROOT / "docs"

SHIPPED = Path(malmoi.__file__).parent / "models/ko-en-small"

pytestmark = pytest.mark.skipif(
    not SHIPPED.is_dir(), reason="the model ko-en-small is not in this checkout"
)


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page shows, each after its name."""
    text = (DOCS / "index.md").read_text("utf-8")
    files = dict(re.findall(r"`(\w+\.t\w+)`[^`]*\n\n```text\n(.*?)```", text, re.DOTALL))
    assert set(files) == {"kcd.tsv", "sts.tsv", "faq.txt"}
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_first_commands_run(folder: Path) -> None:
    lines = [line for block in blocks("index.md", "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines if line.startswith("$ malmoi ")]
    assert len(commands) == 9
    printed = {}
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, f"{command}\n{done.exception}\n{done.output}"
        printed[command[0]] = done.output
    assert "N08.3" in printed["link"]
    assert "비밀번호" in printed["search"]
    assert "spearman" in printed["evaluate"]
    for block in blocks("index.md", "python"):
        exec(compile(block, "index.md", "exec"), {})


@pytest.mark.parametrize("kind", ["console", "python"])
def test_both_pages_have_the_same_commands(kind: str) -> None:
    english, korean = blocks("index.md", kind), blocks("index.ko.md", kind)
    assert english and english == korean
