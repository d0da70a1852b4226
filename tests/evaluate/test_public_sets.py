"""Public data sets in the form they are prepared in: their headers are understood unaided."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from malmoi.evaluate import nli, pairs, retrieval, sts, transfer
from malmoi.evaluate.tasks import Task


@pytest.mark.parametrize(
    ("task", "file", "roles"),
    [
        (sts, "sts/korsts-dev.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (sts, "sts/klue-sts-train.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (pairs, "paraphrase/question-pairs-validation.tsv", {"a": "question1", "same": "same"}),
        (pairs, "words/wic-dev.tsv", {"a": "SENTENCE1", "b": "SENTENCE2", "same": "ANSWER"}),
        (retrieval, "paraphrase/parakqc.tsv", {"set": "set", "text": "sentence"}),
        (retrieval, "faq/chatbot.tsv", {"query": "question", "document": "answer"}),
        (retrieval, "parallel/tatoeba.tsv", {"query": "ko", "document": "en"}),
        (nli, "nli/xnli-dev.tsv", {"a": "ko1", "b": "ko2", "label": "label"}),
        (nli, "nli/klue-nli-train.tsv", {"a": "premise", "b": "hypothesis"}),
        (transfer, "notes/mtsamples.jsonl", {"text": "text", "label": "specialty"}),
    ],
)
def test_headers_are_understood(
    task: Task[Any], file: str, roles: dict[str, str], public_data: Callable[[str], Path]
) -> None:
    assert roles.items() <= dict(task.read(public_data(file)).source.columns).items()
