"""Reranking within a time limit: as many of the first documents as there is time for."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ..heads.reranker import Reranker
from ..runtime.tokenizer import Pair
from ..text.cleanup import as_text
from ..types import Floats

# Whether a search is reranked when nobody says so; measured in docs/decisions/fusion.md. This is
# the one place where it is decided, for the command line and the server.
RERANK = False
# Small enough that a batch too many costs a few milliseconds, large enough to be efficient.
_FIRST = 4
_LARGEST = 32
# A batch's time is predicted from those before; some of the time left is kept as a margin.
_CAUTION = 0.8


class Scorer(Protocol):
    """Scores pairs of texts, higher for more similar ones; a Reranker, for example."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; (n,)."""
        ...


def rerank_within(
    reranker: Scorer,
    query: str,
    texts: Sequence[str],
    found: Sequence[float],
    *,
    depth: int,
    limit: float | None,
) -> list[tuple[int, float | None]]:
    """Sort the first `depth` texts by the reranker's scores; the others follow in their order.

    Returns each text's index in `texts` with its score, or None if it was not scored. `found` are
    the search's scores, which a reranker may weigh with its own (`FoundBlend`). `limit` is when to
    stop, on `time.perf_counter`'s clock.
    """
    as_text(query, where="query")
    head = texts[:depth]
    blend = reranker.found_blend if isinstance(reranker, Reranker) else None
    score = reranker.own_scores if blend and isinstance(reranker, Reranker) else reranker.score
    if limit is None:
        scores = score([(query, text) for text in head]) if head else np.empty(0, np.float32)
    else:
        scores = _score_until(limit, score, query, head)
    if blend and len(scores):
        scores = blend.of(scores, np.asarray(found[: len(scores)], dtype=np.float32))
    order = np.argsort(-scores, kind="stable").tolist()
    rest = range(len(scores), len(texts))
    return [*((i, float(scores[i])) for i in order), *((i, None) for i in rest)]


def _score_until(
    limit: float, score: Callable[[list[Pair]], Floats], query: str, texts: Sequence[str]
) -> Floats:
    found: list[float] = []
    characters = seconds = 0.0
    while len(found) < len(texts):
        size = _FIRST if not found else _LARGEST
        now = time.perf_counter()
        if found:
            size = _fitting(texts[len(found) :], _CAUTION * (limit - now), characters / seconds)
        if now >= limit or not size:
            break
        part = texts[len(found) : len(found) + size]
        found += score([(query, text) for text in part]).tolist()
        seconds += time.perf_counter() - now
        characters += sum(len(text) + len(query) for text in part)
    return np.array(found, dtype=np.float32)


def _fitting(texts: Sequence[str], seconds: float, rate: float) -> int:
    """How many of the next texts fit into `seconds`, at `rate` characters a second."""
    lengths = np.cumsum([len(text) for text in texts[:_LARGEST]])
    return int((lengths <= seconds * rate).sum())
