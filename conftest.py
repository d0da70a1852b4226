"""What the examples of docstrings speak of: the shipped model, a small corpus, a lexicon."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROWS = [
    {"id": "refund", "text": "환불은 7일 안에 됩니다.", "topic": "결제"},
    {"id": "delivery", "text": "Delivery takes two to three days.", "topic": "배송"},
    {"id": "password", "text": "비밀번호는 로그인 화면에서 다시 정합니다.", "topic": "계정"},
]


@functools.cache
def things() -> dict[str, Any]:
    """Open everything once."""
    import malmoi

    folder = tempfile.TemporaryDirectory(prefix="malmoi-examples-")
    encoder = malmoi.load()
    corpus = malmoi.Corpus.open(Path(folder.name) / "faq.db", encoder)
    corpus.add(ROWS)
    lexicon = malmoi.Lexicon.open("sample")
    linker = malmoi.Linker(lexicon)
    return {
        "malmoi": malmoi,
        "encoder": encoder,
        "reranker": malmoi.load(kind="reranker"),
        "corpus": corpus,
        "lexicon": lexicon,
        "linker": linker,
        "reader": malmoi.NoteReader(linker),
        "_folder": folder,
    }


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Give a docstring's example the things that it names, where one is run."""
    test = getattr(request.node, "dtest", None)
    names = {"encoder", "corpus", "lexicon", "linker", "reader", "reranker"}
    if test is not None and any(name in one.source for one in test.examples for name in names):
        doctest_namespace.update(things())
