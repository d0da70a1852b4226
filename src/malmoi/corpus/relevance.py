"""How likely a hit is right: a number from 0 to 1 that means the same for every query.

A search's score orders the passages of one query. Relevance is the share of right passages among
hits with this value, on development questions with an answer, without one, and about something
else. It is fitted with ko-en-small by `python bench/run.py relevance --fit`; with other models the
order is as good, and the values are a rough guide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..types import Floats
from .store import PassageKey, ScoredPassage

# Below this nothing relevant was found: nine of ten questions that have an answer are above it, and
# more than seven of ten that have none are below (docs/search.md).
RELEVANT = 0.15
# The same in a corpus of one document, where a question is rarely about something else.
RELEVANT_ALONE = 0.02

# Intercept and weights: by token vectors (score, plain mean, cosine of the passage's vector, share
# of the query's words by rarity, lead over the best of another document); by vectors and words
# (cosine, share, lead of the cosine); by words alone (share, lead of the share).
_LATE: Sequence[float] = (-11.281, 7.046, 1.456, 4.65, 1.168, 19.636)
_DENSE: Sequence[float] = (-7.407, 6.734, 4.645, 18.867)
_WORDS: Sequence[float] = (-2.988, 1.673, 15.704)
# Where all candidates are of one document there is no lead, and a word is rare among few passages
# only: by the plain mean of token vectors and the cosine (docs/decisions/fusion.md).
_ALONE: Sequence[float] = (-36.589, 47.327, 0.707)


@dataclass(frozen=True)
class Met:
    """How token vectors met: the score of late interaction, and the mean with equal weights."""

    score: float
    mean: float


def relevance(
    dense: Sequence[ScoredPassage],
    keyword: Sequence[ScoredPassage],
    met: Mapping[PassageKey, Met],
    *,
    best: float,
) -> dict[PassageKey, float]:
    """Give the relevance of all candidates of a query.

    Args:
        dense: candidates with their cosines; empty in a search by words alone.
        keyword: candidates with their BM25 scores.
        met: those that were compared by token vectors.
        best: the most that BM25 can give for this query.
    """
    words = {one.key: min(one.score / best, 1) if best > 0 else 0.0 for one in keyword}
    candidates = dense or keyword
    if not candidates:
        return {}
    documents = [one.id for one in candidates]
    share = np.array([words.get(one.key, 0.0) for one in candidates])
    if not dense:
        rows, weights = np.stack([share, _lead(share, documents)]), _WORDS
    else:
        cosine = np.array([one.score for one in candidates])
        rows, weights = np.stack([cosine, share, _lead(cosine, documents)]), _DENSE
    found = calibrated(rows.T, weights)
    chosen = [i for i, one in enumerate(candidates) if one.key in met]
    if chosen and dense:
        own = [met[candidates[i].key] for i in chosen]
        score, mean = np.array([one.score for one in own]), np.array([one.mean for one in own])
        if len(set(documents)) == 1:
            found[chosen] = calibrated(np.stack([mean, cosine[chosen]]).T, _ALONE)
        else:
            lead = _lead(score, [documents[i] for i in chosen])
            rows = np.stack([score, mean, cosine[chosen], share[chosen], lead])
            found[chosen] = calibrated(rows.T, _LATE)
    return {one.key: float(value) for one, value in zip(candidates, found, strict=True)}


def calibrated(signals: Floats, weights: Sequence[float]) -> Floats:
    """The relevance of rows of signals (n, m), by an intercept and m weights."""
    shares: Floats = 1 / (1 + np.exp(-(weights[0] + signals @ np.array(weights[1:]))))
    return shares


def _lead(scores: Floats, documents: Sequence[str]) -> Floats:
    """By how much each score is above the best of the other documents; 0 without others."""
    best: dict[str, float] = {}
    for score, document in zip(scores.tolist(), documents, strict=True):
        best[document] = max(score, best.get(document, -np.inf))
    first, *rest = sorted(best, key=lambda one: -best[one])
    if not rest:
        return np.zeros_like(scores)
    other = np.array([best[rest[0] if one == first else first] for one in documents])
    lead: Floats = scores - other
    return lead
