"""docs/words.md and docs/mining.md do what they say: their commands and snippets run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from malmoi.cli import app
from tests.support import ROOT

DOCS = ROOT / "docs"
PAGES = ("words.md", "mining.md")
ANSWERS = [
    "환불은 어떻게 받나요?",
    "환불이 아직 안 됐어요",
    "오늘 날씨가 맑다",
    "비가 와서 날씨가 춥다",
    "고양이가 잔다",
    "고양이 사료를 샀다",
]
WIC = [
    "SENTENCE1\tSENTENCE2\tANSWER",
    "[배]를 타고 바다에 나간다\t[배]가 항구에 들어왔다\tTrue",
    "[배]를 타고 바다에 나간다\t[배]가 달고 맛있다\tFalse",
]

pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the pages speak of."""
    files = {
        "report.txt": ["당뇨병 환자의 혈당 조절은 중요하다.", "Diabetic nephropathy is common."],
        "answers.txt": ANSWERS,
        "korean.txt": ANSWERS,
        "english.txt": ["The cat sleeps", "How do I get a refund?"],
        "stop.txt": ["오늘"],
        "wic-train.tsv": WIC,
        "wic-dev.tsv": WIC,
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, folder: Path) -> None:
    names: dict[str, object] = {}
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_run(page: str, folder: Path) -> None:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert len(lines) > 3
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "))
        done = CliRunner().invoke(app, arguments)
        assert program == "malmoi" and done.exit_code == 0, f"{line}\n{done.output}"
