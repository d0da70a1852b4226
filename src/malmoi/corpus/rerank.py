"""Reranking within a time: the first documents are read again, as many as there is time for."""

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..text.cleanup import as_text
from ..types import Floats

# Small enough that one round too many costs a few milliseconds, large enough for a full batch.
_FIRST = 4
_LARGEST = 32
# A round's time is guessed from those before; some of the time left is kept for a bad guess.
_CAUTION = 0.8


class Scorer(Protocol):
    """What gives one score a pair of texts, growing with likeness: a Reranker, or its like."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; (n,)."""
        ...


def rerank_within(
    reranker: Scorer, query: str, texts: Sequence[str], *, depth: int, limit: float | None
) -> list[tuple[int, float | None]]:
    """Put the first `depth` texts into the reranker's order, and leave the others behind them.

    Gives each text's place in the list that was given, with its score, or None if it was not
    read. `limit` is when to stop, on `time.perf_counter`'s clock.
    """
    as_text(query, where="query")
    head = texts[:depth]
    if limit is None:
        scores = reranker.score([(query, text) for text in head]) if head else np.empty(0)
    else:
        scores = _score_until(limit, reranker, query, head)
    order = np.argsort(-scores, kind="stable").tolist()
    rest = range(len(scores), len(texts))
    return [*((i, float(scores[i])) for i in order), *((i, None) for i in rest)]


def _score_until(limit: float, reranker: Scorer, query: str, texts: Sequence[str]) -> Floats:
    found: list[float] = []
    letters = seconds = 0.0
    while len(found) < len(texts):
        size = _FIRST if not found else _LARGEST
        now = time.perf_counter()
        if found:
            size = _fitting(texts[len(found) :], _CAUTION * (limit - now), letters / seconds)
        if now >= limit or not size:
            break
        part = texts[len(found) : len(found) + size]
        found += reranker.score([(query, text) for text in part]).tolist()
        seconds += time.perf_counter() - now
        letters += sum(len(text) + len(query) for text in part)
    return np.array(found, dtype=np.float32)


def _fitting(texts: Sequence[str], seconds: float, rate: float) -> int:
    """How many of the next texts can be read in that time, at so many letters a second."""
    lengths = np.cumsum([len(text) for text in texts[:_LARGEST]])
    return int((lengths <= seconds * rate).sum())
