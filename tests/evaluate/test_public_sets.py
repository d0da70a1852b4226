"""Public data sets in the form they are prepared in: their headers are understood unaided."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from malmoi.evaluate import nli, pairs, searches, sts, transfer


@pytest.mark.parametrize(
    ("module", "file", "roles"),
    [
        (sts, "sts/korsts-dev.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (sts, "sts/klue-sts-train.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (pairs, "paraphrase/question-pairs-validation.tsv", {"a": "question1", "same": "same"}),
        (pairs, "words/wic-dev.tsv", {"a": "SENTENCE1", "b": "SENTENCE2", "same": "ANSWER"}),
        (searches, "paraphrase/parakqc.tsv", {"set": "set", "text": "sentence"}),
        (searches, "faq/chatbot.tsv", {"query": "question", "document": "answer"}),
        (searches, "parallel/tatoeba.tsv", {"query": "ko", "document": "en"}),
        (nli, "nli/xnli-dev.tsv", {"a": "ko1", "b": "ko2", "label": "label"}),
        (nli, "nli/klue-nli-train.tsv", {"a": "premise", "b": "hypothesis"}),
        (transfer, "notes/mtsamples.jsonl", {"text": "text", "label": "specialty"}),
    ],
)
def test_headers_are_understood(
    module: Any, file: str, roles: dict[str, str], public_data: Callable[[str], Path]
) -> None:
    found = module.read(public_data(file))
    source = found[1] if isinstance(found, tuple) else found.source
    assert roles.items() <= dict(source.columns).items()
