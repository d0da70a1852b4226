"""Retrieval from a folder: questions, files and answers, by both sides and by each alone."""

import json
from pathlib import Path

import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.evaluate import evaluate, rerank, retrieval
from malmoi.evaluate.tasks import Settings
from tests.support import graphs
from tests.support.fakes import Letters
from tests.support.graphs import Run

ROWS = """question\tfile\tanswer
the cat sleeps\ta.md\tcat sleeps
a boat\ta.md\tA  BOAT
고양이 잔다\tsub/b.txt\t고양이
sweet pear\tdocs/sub/b.txt\tnot there
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "a.md").write_text("# Sea\n\n## Cats\n\nthe cat sleeps\n\n## Boats\n\na boat\n")
    (docs / "sub/b.txt").write_text("고양이 잔다", "utf-8")
    (tmp_path / "asked.tsv").write_text(ROWS, "utf-8")
    return docs


def test_passages_and_documents_are_counted(folder: Path, encoder: malmoi.TextEncoder) -> None:
    settings = Settings(documents=folder, ks=(1, 2))
    report = evaluate(encoder, "retrieval", folder.parent / "asked.tsv", settings=settings)
    values = {name: metric.value for name, metric in report.metrics.items()}
    assert values["passage@1"] == 0.75  # the last answer is in no passage
    assert values["document@2"] == 1.0 and values["document@1"] >= values["passage@1"]
    assert report.main == "passage@1" and report.metrics["passage@1"].low < 0.75
    assert [one.model for one in report.comparisons] == ["dense", "keyword"]
    assert report.details == {"queries": 4, "documents": 2, "passages": 3}
    assert report.settings["folder"] == "docs"


def test_a_reranker_is_compared_with_the_order_before_it(
    folder: Path, encoder: malmoi.TextEncoder, tmp_path: Path
) -> None:
    settings = Settings(documents=folder, ks=(1,), encoder=encoder)
    examples = rerank.read(tmp_path / "asked.tsv", settings)
    reranker = malmoi.load_reranker(graphs.write_reranker(tmp_path / "reranker"))
    found = rerank.measure(reranker, examples, settings)
    assert [name for name, _ in found.others] == ["hybrid"]


def test_what_cannot_be_measured(folder: Path, encoder: malmoi.TextEncoder) -> None:
    path = folder.parent / "asked.tsv"
    path.write_text("question\tfile\tanswer\nx\tnone.md\ty\n", "utf-8")
    settings = Settings(documents=folder)
    examples = retrieval.read(path, settings)
    with pytest.raises(DataError, match=r"names the file none.md, which is not among the 2 docu"):
        retrieval.measure(encoder, examples, settings)
    with pytest.raises(OptionError, match="a folder is indexed by an encoder"):
        retrieval.measure(Letters(), examples, settings)


def test_the_command(folder: Path, run_here: Run, tmp_path: Path) -> None:
    graphs.write_bundle(tmp_path / "tiny")
    command = ("evaluate", "--task", "retrieval", "--data", "asked.tsv", "--documents", "docs")
    done = run_here(*command, "tiny", "--k", "1,5")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report["metrics"]) == {"passage@1", "passage@5", "document@1", "document@5"}
