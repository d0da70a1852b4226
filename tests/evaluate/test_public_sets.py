"""Public data sets in the form they are prepared in: their headers are understood unaided."""

import os
from pathlib import Path
from typing import Any

import pytest

from malmoi.evaluate import nli, pairs, retrieval, sts, transfer
from malmoi.evaluate.task import Task

DATA = Path(os.environ.get("MALMOI_DATA") or Path(__file__).parents[3] / "shared/data")


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
def test_headers_are_understood(task: Task[Any], file: str, roles: dict[str, str]) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"{file} is not here; set MALMOI_DATA to the folder of the public data sets")
    assert roles.items() <= dict(task.read(DATA / file).source.columns).items()
