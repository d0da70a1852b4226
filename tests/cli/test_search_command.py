"""`malmoi index` and `malmoi search`, on files good and bad."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import malmoi
from malmoi.cli import app
from tests.support import graphs
from tests.support.graphs import Run

ROWS = [
    {"id": "a", "text": "the cat sleeps", "year": 2023},
    {"id": "b", "text": "고양이 잔다", "year": 2024},
    {"id": "c", "text": "diabetes nephropathy", "year": 2024},
]


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def make(run: Run, folder: Path, *options: object) -> None:
    graphs.write_bundle(folder / "tiny")
    write_rows(folder / "faq.jsonl", ROWS)
    done = run("index", "x.malmoi", "faq.jsonl", "--model", "tiny", "--words", "bigrams", *options)
    assert done.returncode == 0, done.stderr
    assert "3 documents written, 0 unchanged; x.malmoi has 3" in done.stderr


def test_index_and_search(run: Run, run_here: Run, tmp_path: Path) -> None:
    make(run, tmp_path)
    search = ("search", "x.malmoi", "the cat sleeps", "--model", "tiny")
    done = run(*search, "--k", 2, "--mode", "dense")
    assert done.returncode == 0, done.stderr
    first, _ = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["id"], first["text"], first["metadata"]) == (
        "a",
        "the cat sleeps",
        {"year": 2023},
    )
    assert first["score"] > 0.99
    done = run_here(*search, "--filter", "year=2024")
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {"b", "c"}
    graphs.write_reranker(tmp_path / "tiny-reranker")
    done = run_here(*search, "--rerank", "--reranker", "tiny-reranker", "--within", "30s")
    assert done.returncode == 0, done.stderr
    assert all("rerank" in json.loads(line)["scores"] for line in done.stdout.splitlines())
    # What is there is not written again; what has changed is.
    write_rows(tmp_path / "faq.jsonl", [*ROWS[:2], ROWS[2] | {"text": "the dog has a boat"}])
    done = run_here("index", "x.malmoi", "faq.jsonl", "--model", "tiny", "--check")
    assert "1 document written, 2 unchanged" in done.stderr
    assert json.loads(done.stdout)["recall@10"] == 1.0


def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graphs.write_bundle(tmp_path / "tiny")
    write_rows(tmp_path / "faq.jsonl", ROWS)
    make = ("index", "x.malmoi", "faq.jsonl", "--model", "tiny", "--words", "bigrams")
    assert CliRunner().invoke(app, make).exit_code == 0
    search = ("search", "x.malmoi", "cat", "--model", "tiny")
    for arguments, code, message in [
        ((*search, "--k", "0"), 1, "k is 0"),
        ((*search, "--filter", "jahr=1"), 1, "the documents have year"),
        ((*search, "--within", "soon"), 2, "200ms"),
        ((*search, "--weights", "words=1"), 2, "dense=1,keyword=0.25"),
        (("search", "faq.jsonl", "cat"), 1, "is not a corpus"),
        (("search", "none.malmoi", "cat"), 1, "there is no corpus"),
        (("index", "x.malmoi"), 2, "name files"),
        (("index", "x.malmoi", "none.txt", "--model", "tiny"), 1, "there is no file"),
    ]:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == code, (arguments, done.output)
        if code == 1:  # malmoi's own errors become a line in cli.main, which has its own test
            assert isinstance(done.exception, malmoi.MalmoiError)
        # A usage error is drawn in a box, whose lines may break anywhere.
        told = str(done.exception) if code == 1 else done.output.replace("│", " ")
        assert message in " ".join(told.split())
