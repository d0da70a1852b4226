"""docs/search.md and the FAQ of the front page do what they say."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.cli import app
from tests.support import ROOT, graphs

PAGE = ROOT / "docs/search.md"
FAQ = "what is the estimated delivery date of the product?"

pytestmark = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_the_faq_is_found_in_both_languages(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    [snippet] = [block for block in blocks(ROOT / page, "python") if "Corpus" in block]
    exec(snippet, {"malmoi": malmoi, "encoder": malmoi.load()})
    assert capsys.readouterr().out.splitlines() == [FAQ, FAQ]


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graphs.write_reranker(tmp_path / "my-reranker")
    for name, content in re.findall(
        r"`(\w+\.\w+)`:\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.S
    ):
        (tmp_path / name).write_text(content, "utf-8")
    lines = "\n".join(blocks(PAGE, "console")).splitlines()
    commands = [line for line in lines if line.startswith("$ malmoi ")]
    assert len(commands) > 3
    for line in commands:
        done = CliRunner().invoke(app, shlex.split(line)[2:])
        assert done.exit_code == 0, f"{line}\n{done.exception}\n{done.output}"
    names: dict[str, object] = {}
    assert blocks(PAGE, "python")
    for block in blocks(PAGE, "python"):
        exec(compile(block, str(PAGE), "exec"), names)
