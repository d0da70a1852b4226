"""A question to a whole corpus: find passages, read them, answer with the place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..heads.answerer import Answer, Answerer
from . import Corpus, Hit

# Passages of about 200 tokens that are read. More take longer and rarely bring the answer.
PASSAGES = 8


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer, and the passage of a corpus that it stands in: hit.text[start:end]."""

    answer: Answer
    hit: Hit


def answer_from(
    corpus: Corpus,
    answerer: Answerer,
    question: str,
    *,
    k: int = 1,
    passages: int = PASSAGES,
    threshold: float | None = None,
    **options: Any,
) -> list[FoundAnswer]:
    """Answer from a corpus: the `k` best answers in the passages that fit best; [] for none.

    `options` are those of `Corpus.search` (mode, filter, reranker, …).
    """
    hits: Sequence[Hit] = corpus.search(question, passages, **options)
    if not hits:
        return []
    found = answerer.answers(question, [hit.text for hit in hits], k=k, threshold=threshold)
    return [FoundAnswer(answer, hits[answer.number]) for answer in found]
