"""Passages joined for a prompt."""

from pathlib import Path

import pytest

import malmoi
from malmoi import Corpus
from malmoi.corpus import Hit
from malmoi.corpus.context import join_passages
from malmoi.documents.split import estimate_tokens
from malmoi.errors import OptionError
from tests.support import graphs
from tests.support.graphs import Run


def test_neighbours_are_one_text_and_nothing_is_there_twice() -> None:
    pdf = {"source": "a.pdf", "title": "휴가"}
    hits = [
        Hit("a", "셋.", 5, number=2, page=2, **pdf),  # type: ignore[arg-type]
        Hit("b", "다른 글.", 4),
        Hit("a", "둘.", 3, number=1, page=1, headings=("휴가", "연차"), **pdf),  # type: ignore[arg-type]
        Hit("a", "셋.", 2, number=2, page=2, **pdf),  # type: ignore[arg-type]
        Hit("c", "다른 글.", 1),
        Hit("a", "끝.", 1, number=9, page=5, **pdf),  # type: ignore[arg-type]
    ]
    assert join_passages(hits, 1000) == (
        "[1] a.pdf#page=1 · 휴가 · 연차\n둘.\n\n셋.\n\n"
        "[2] a.pdf#page=5 · 휴가\n끝.\n\n[3] b\n다른 글."
    )
    assert join_passages(hits, 1) == ""
    longer = [Hit("x", "아주 긴 글이다. " * 50, 9), *hits]
    short = join_passages(longer, 40)
    assert "셋." in short and "아주" not in short and estimate_tokens(short) <= 40


def test_a_corpus_gives_a_context(tmp_path: Path, run: Run) -> None:
    encoder = malmoi.load(graphs.write_bundle(tmp_path / "tiny"))
    with Corpus.open(tmp_path / "x.db", encoder, words="bigrams") as corpus:  # type: ignore[arg-type]
        assert corpus.context("cat") == ""
        corpus.add([{"id": "a", "text": "the cat sleeps"}, {"id": "b", "text": "고양이 잔다"}])
        assert corpus.context("cat", 100).count("[") == 2
        with pytest.raises(OptionError, match="tokens is 0"):
            corpus.context("cat", 0)
    done = run("search", "x.db", "cat", "--model", "tiny", "--context", 100)
    assert done.returncode == 0 and "a\nthe cat sleeps" in done.stdout, done.stderr
    done = run("search", "x.db", "cat", "--model", "tiny", "--context", 1)
    assert done.stdout == "" and "nothing fits into 1 tokens" in done.stderr
