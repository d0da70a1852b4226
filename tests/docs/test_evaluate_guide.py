"""docs/evaluation.md does what it says: its commands and snippets run."""

import re
import shlex
from pathlib import Path

import pytest
import safetensors.numpy
from typer.testing import CliRunner

from malmoi.cli import app
from tests.support import ROOT, graphs

PAGE = ROOT / "docs/evaluation.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The models and files that the page speaks of."""
    for name in ("my-model", "other-model"):
        graphs.write_bundle(tmp_path / name)
    graphs.write_reranker(tmp_path / "my-reranker")
    raw = graphs.write_foreign(tmp_path / "raw-encoder", steps=("pool",))
    table = {"embeddings.word_embeddings.weight": graphs.embedding_table()}
    safetensors.numpy.save_file(table, raw / "model.safetensors")
    words = ["고양이", "강아지", "바다", "배가", "당뇨", "환자"]
    english = ["the cat", "a dog", "sea", "sweet pear", "diabetes", "patient"]
    shown = re.search(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert shown
    pairs = list(zip(words, english, strict=True))
    files = {
        "sts.tsv": shown.group(1).splitlines()
        + [f"{i}\t{en}\t{english[-i]}\t{ko}\t{words[-i]}" for i, (ko, en) in enumerate(pairs)],
        "parallel.tsv": ["ko\ten", *(f"{ko}\t{en}" for ko, en in pairs)],
        "faq.tsv": ["question\tanswer", *(f"{ko}\t{en}" for ko, en in pairs)],
        "sets.tsv": ["set\tsentence", *(f"{i}\t{x}" for i, p in enumerate(pairs) for x in p)],
        "labelled.tsv": ["label\ttext", *(f"{i % 2}\t{w}" for i, w in enumerate(words + english))],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_snippets_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)


def test_commands_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    lines = [line for block in blocks("console") for line in block.splitlines() if line[:2] == "$ "]
    assert len(lines) > 8
    for line in lines:
        program, *arguments = shlex.split(line[2:])
        assert program == "malmoi"
        # In this process: a new one for each of a dozen commands would cost more than they do.
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}\n{done.exception}\n{done.output}"
