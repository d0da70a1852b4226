"""Answers out of passages that were found: the sentence, row or item that is nearest to a question.

No model writes or marks anything here. The token vectors of a passage, which are stored, are
compared sentence by sentence with those of the question. A word of the question counts by what it
decided in the search, and as much again by what it decides between the sentences of this passage:
what the passage is about stands in all of them, and what was asked in one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..documents import Passage
from ..encoders.token_vectors import Span, TokenEncoder, interact
from ..heads.answerer import Answer
from ..types import Floats
from .ranking import Hit
from .store import context_of, searched_text

# Passages of about 200 tokens that an answer is read from. More take longer and rarely bring it.
ANSWERED = 8


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer, and the passage of a corpus that it is in: hit.text[start:end].

    A sentence's score is how near it is to the question; `hit.relevance` says how likely the
    passage is right.
    """

    answer: Answer
    hit: Hit


def answer_spans(passage: Passage) -> list[Span]:
    """The sentences, rows and items of a passage; the first row of a table names its columns.

    >>> text = "등급 | 한도\\n1급 | 10만"
    >>> [text[a:b] for a, b in answer_spans(Passage(text, sentences=((0, 7), (8, 16))))]
    ['1급 | 10만']
    """
    spans = list(passage.sentences) or [(0, len(passage.text))]
    rows = [" | " in passage.text[start:end] for start, end in spans]
    return [
        span
        for i, span in enumerate(spans)
        if not (rows[i] and (i == 0 or not rows[i - 1]) and i + 1 < len(rows) and rows[i + 1])
    ]


def sentence_cosines(
    tokens: TokenEncoder,
    asked: Floats,
    weights: Floats | None,
    hit: Hit,
    passage: Passage,
    packed: bytes,
    prompt: str | None,
) -> dict[Span, float]:
    """How near each sentence of a passage is to a question, by stored token vectors.

    Args:
        tokens: made the passage's vectors.
        asked: the question's token vectors (n, size).
        weights: of these in the search (n,).
        hit: the passage as it was found.
        passage: the passage as it is stored.
        packed: its token vectors.
        prompt: that passages were read with.
    """
    whole, width = searched_text(hit.title, passage), tokens.size // 2
    [places] = tokens.spans([whole], prompt=prompt)
    if len(places) != len(packed) // width:  # read by another tokenizer
        return {}
    above = len(context_of(hit.title, passage))
    aligned = tokens.align(whole)
    move = above + 1 if above else 0
    starts = np.array([aligned.span(*one)[0] - move for one in places])
    parts: dict[Span, bytes] = {}
    for first, last in answer_spans(passage):
        begin, end = np.searchsorted(starts, (first, last)).tolist()
        if begin < end:
            parts[first, last] = packed[begin * width : end * width]
    if not parts:
        return {}
    met = interact(asked, list(parts.values()), size=tokens.size)
    both = met.weights if weights is None else (weights + met.weights) / 2
    return dict(zip(parts, (both @ met.best).tolist(), strict=True))


def chosen(text: str, cosines: dict[Span, float]) -> Answer:
    """The nearest sentence as an answer; of one that asks itself, the one that follows it.

    >>> chosen("언제? 내일.", {(0, 3): 0.9, (4, 7): 0.5}).text
    '내일.'
    """
    spans = list(cosines)
    best = max(range(len(spans)), key=lambda i: cosines[spans[i]])
    if text[slice(*spans[best])].endswith(("?", "？")) and best + 1 < len(spans):
        best += 1
    start, end = spans[best]
    return Answer(text[start:end], start, end, round(cosines[spans[best]], 4))


def vector_cosines(spans: Sequence[Span], vectors: Floats, query: Floats) -> dict[Span, float]:
    """How near sentences are to a question by their vectors (n, dim); without token vectors."""
    return dict(zip(spans, (vectors @ query).tolist(), strict=True))
