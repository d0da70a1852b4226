"""`malmoi index` and `malmoi search`, on files good and bad."""

import contextlib
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import malmoi
from malmoi.cli import app
from malmoi.cli.search import _hit, _view
from malmoi.corpus import Hit, Match
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
    assert "1 file: 3 documents written, 0 unchanged, 0 removed; x.malmoi has 3" in done.stderr


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
    done = run_here(*search, "--reranker", "tiny-reranker", "--within", "30s")
    assert done.returncode == 0, done.stderr
    assert all("rerank" in json.loads(line)["scores"] for line in done.stdout.splitlines())
    # What is there is not written again; what has changed is.
    write_rows(tmp_path / "faq.jsonl", [*ROWS[:2], ROWS[2] | {"text": "the dog has a boat"}])
    done = run_here("index", "x.malmoi", "faq.jsonl", "--model", "tiny", "--check")
    assert "1 document written, 2 unchanged" in done.stderr
    assert json.loads(done.stdout)["recall@10"] == 1.0


def test_relevance_is_shown_and_asked_for(run_here: Run, tmp_path: Path) -> None:
    make(run_here, tmp_path)
    search = ("search", "x.malmoi", "the cat sleeps", "--model", "tiny")
    first = json.loads(run_here(*search).stdout.splitlines()[0])
    least = first["relevance"] - 0.001
    few = run_here(*search, "--min-relevance", least).stdout.splitlines()
    assert [json.loads(line)["id"] for line in few] == [first["id"]]
    assert run_here(*search, "--min-relevance", 2).returncode == 2


def test_a_pipe_is_told_too_that_nothing_is_relevant(run: Run) -> None:
    done = run("search", "sample", "부산행 열차표 예매", "-k", "1")
    assert json.loads(done.stdout)["relevance"] < 0.15
    assert "nothing relevant found" in done.stderr


def test_a_corpus_says_that_its_model_is_not_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cat dog\n", "utf-8")
    bundle = graphs.write_bundle(tmp_path / "gone")
    assert run("index", tmp_path / "x.db", tmp_path / "a.txt", "--model", bundle).returncode == 0
    shutil.rmtree(bundle)
    done = run("search", tmp_path / "x.db", "cat")
    assert done.returncode == 1 and "made with the model tiny" in done.stderr


def test_words_that_met_are_marked_and_relevance_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("malmoi.cli.display.coloured", lambda: True)
    hit = Hit(
        "a", "비밀번호를 잊었다", 1.0, title="계정", snippet="비밀번호를 잊었다", relevance=0.6
    )
    met = replace(hit, matches=(Match((0, 8), (0, 5), 0.9),))
    title, _, line, _ = _view("password", [_hit(met)], 60)
    assert title.removesuffix("\x1b[0m").endswith("███░░ 0.60")
    assert line.startswith("    \x1b") and "잊었다" in line
    *_, plain, _ = _view("password", [_hit(hit)], 60)
    assert plain == "    비밀번호를 잊었다"


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
        ((*search, "--weights", "words=1"), 2, "dense=1,keyword=0.8"),
        (("search", "faq.jsonl", "cat"), 1, "is not a corpus"),
        (("search", "none.malmoi", "cat"), 1, "there is no corpus"),
        (("search", "x.malmoi", " ", "--model", "tiny"), 1, "the query is empty"),
        (("index", "x.malmoi"), 2, "name files"),
        (("index", "x.malmoi", "faq.jsonl", "--watch"), 2, "--watch follows files and folders"),
        (("corpus", "show", "x.malmoi", "none"), 1, "there is no document none"),
        (("corpus", "delete", "x.malmoi", "a", "none"), 1, "there is no document none"),
        (("corpus", "stats", "faq.jsonl"), 1, "is not a corpus"),
        (("index", "x.malmoi", "none.txt", "--model", "tiny"), 1, "there is no file"),
    ]:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == code, (arguments, done.output)
        if code == 1:  # malmoi's own errors become a line in cli.main, which has its own test
            assert isinstance(done.exception, malmoi.MalmoiError)
        # A usage error is drawn in a box, whose lines may break anywhere.
        told = str(done.exception) if code == 1 else done.output.replace("│", " ")
        assert message in " ".join(told.split())


def test_a_folder_and_what_is_in_it(run_here: Run, tmp_path: Path) -> None:
    graphs.write_bundle(tmp_path / "tiny")
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "a.md").write_text("# Sea\n\n## Cats\n\nthe cat sleeps\n\n## Boats\n\na boat\n")
    (docs / "sub/b.txt").write_text("고양이 잔다", "cp949")
    (docs / "sub/broken.txt").write_bytes(b"\x00\x01\x02\xff" * 64)
    index = ("index", "x.malmoi", "docs", "--model", "tiny", "--words", "bigrams")
    done = run_here(*index)
    assert done.returncode == 0, done.stderr
    told = "3 files: 2 documents written, 0 unchanged, 0 removed; 1 file not read; x.malmoi has 2"
    assert f"{told} in 3 passages" in done.stderr and "broken.txt" in done.stderr

    search = ("search", "x.malmoi", "the cat sleeps", "--model", "tiny")
    first, second = (json.loads(line) for line in run_here(*search).stdout.splitlines())
    assert (first["id"], first["text"], first["title"]) == ("a.md", "the cat sleeps", "Sea")
    assert first["headings"] == ["Sea", "Cats"] and first["source"].endswith("docs/a.md")
    assert [one["snippet"] for one in first["more"]] == ["a boat"]
    assert (second["id"], second["more"]) == ("sub/b.txt", [])
    done = run_here(*search, "--no-group", "--neighbours", "1")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows].count("a.md") == 2
    assert (rows[0]["before"], rows[0]["after"]) == ([], ["a boat"])
    assert "Cats" in run_here(*search, "--table").stdout
    filtered = run_here(*search, "--filter", "folder=sub").stdout.splitlines()
    assert [json.loads(line)["id"] for line in filtered] == ["sub/b.txt"]

    def rows_of(*command: str) -> list[dict[str, object]]:
        done = run_here("corpus", *command)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert [(row["id"], row["passages"]) for row in rows_of("list", "x.malmoi")] == [
        ("a.md", 2),
        ("sub/b.txt", 1),
    ]
    assert [row["id"] for row in rows_of("list", "x.malmoi", "--folder", "sub/")] == ["sub/b.txt"]
    assert [row["text"] for row in rows_of("show", "x.malmoi", "a.md")] == [
        "the cat sleeps",
        "a boat",
    ]
    [stats] = rows_of("stats", "x.malmoi")
    assert (stats["documents"], stats["passages"], stats["files"]) == (2, 3, 2)
    assert {row["id"]: row["text"] for row in rows_of("export", "x.malmoi")} == {
        "a.md": "the cat sleeps\n\na boat",
        "sub/b.txt": "고양이 잔다",
    }
    assert run_here("corpus", "export", "x.malmoi", "--out", "all.jsonl").returncode == 0
    assert len((tmp_path / "all.jsonl").read_text("utf-8").splitlines()) == 2
    assert "is sound: 2 documents in 3 passages" in run_here("corpus", "check", "x.malmoi").stderr
    done = run_here("corpus", "delete", "x.malmoi", "sub/b.txt")
    assert "1 document deleted; x.malmoi has 1" in done.stderr
    # As one text a line, as a list; ids are those of the lines.
    done = run_here(*index[:2], "docs/sub/b.txt", "--lines", "--model", "tiny")
    assert "1 document written" in done.stderr
    assert [row["id"] for row in rows_of("list", "x.malmoi")] == ["a.md", "b.txt:1"]


def test_a_damaged_corpus_is_reported(run_here: Run, tmp_path: Path) -> None:
    make(run_here, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.malmoi")) as connection, connection:
        connection.execute("DELETE FROM vectors WHERE row = 1")
    done = run_here("corpus", "check", "x.malmoi")
    assert done.returncode == 1 and "vectors of 1 passages are not as" in done.stderr


def test_addresses_and_sources_without_documents_are_errors(
    run: Run, run_here: Run, tmp_path: Path
) -> None:
    done = run("index", "x.malmoi", "https://example.com/a.pdf")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "nothing is downloaded" in done.stderr and "curl" in done.stderr
    assert not (tmp_path / "x.malmoi").exists()
    write_rows(tmp_path / "faq.jsonl", ROWS)
    assert run_here("index", "x.malmoi", "faq.jsonl").returncode == 0
    assert run_here("index", "x.malmoi", "faq.jsonl").returncode == 0  # nothing new
    (tmp_path / "empty").mkdir()
    done = run_here("index", "x.malmoi", "empty")
    assert done.returncode == 1 and "no document was found in empty" in done.stderr
