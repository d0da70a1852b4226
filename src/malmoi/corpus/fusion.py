"""Fusion of the two sides of a hybrid search: by scores on a common scale, not by ranks.

Both sides' scores of all candidates are standardised for each query. How much words count depends
on how well any passage matches the query's words: an identifier or a rare word that is found
decides, and the common words that a paraphrase shares with many passages hardly count. A passage
in the other language cannot have the query's words; the keyword score it would have had is
estimated from its meaning. The figures are fitted in docs/decisions/fusion.md.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..types import Floats
from .store import PassageKey, ScoredId, hangul_share

WEIGHTS: Mapping[str, float] = {"dense": 1.0, "keyword": 0.8}
# Up to this share of the best possible keyword score words do not count, from that on fully.
_UNTRUSTED, _TRUSTED = 0.1, 0.4
# A passage in the other language: its keyword score is estimated as so much of its standardised
# cosine and so much of the keyword score that it has, and not below that score.
_BY_MEANING, _BY_WORDS = 1.4, 0.5
# Percent of Hangul letters: a query with more than the first is Korean, and one with less than
# the second is not; passages likewise.
_KOREAN_QUERY, _OTHER_QUERY = 30, 5
_KOREAN_PASSAGE, _OTHER_PASSAGE = 40, 10


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise for weights below zero, or without one above."""
    if any(weight < 0 for weight in weights.values()) or not any(weights.values()):
        raise OptionError(
            f"the weights are {dict(weights)}; expected 0 or more each, and at least one above 0. "
            f"The defaults are {dict(WEIGHTS)}."
        )


def fuse(
    query: str,
    dense: Sequence[ScoredId],
    keyword: Sequence[ScoredId],
    weights: Mapping[str, float] = WEIGHTS,
    *,
    best: float,
) -> list[ScoredId]:
    """Add the standardised scores of both sides, best first.

    Args:
        query: its language matters.
        dense: every candidate with its cosine.
        keyword: passages with their BM25 scores; candidates that are not here match no word.
        weights: of the two sides.
        best: the most that BM25 can give for this query.

    >>> found = [ScoredId("a", 0.5), ScoredId("b", 0.45), ScoredId("c", 0.3)]
    >>> [one.id for one in fuse("PX-40", found, [ScoredId("b", 4.0)], best=9.0)]
    ['b', 'a', 'c']
    """
    check_weights(weights)
    if not dense:
        return []
    matched: dict[PassageKey, float] = {one.key: one.score for one in keyword}
    meaning = _standardised(np.array([one.score for one in dense]))
    words = _standardised(np.array([matched.get(one.key, 0.0) for one in dense]))
    of_other = _in_other_language(query, dense)
    estimated = np.maximum(words, _BY_MEANING * meaning + _BY_WORDS * words)
    words = np.where(of_other, estimated, words)
    trust = _trust(max(matched.values(), default=0.0), best)
    by_meaning, by_words = weights.get("dense", 1.0), weights.get("keyword", 1.0)
    scores = by_meaning * meaning + by_words * (trust if by_meaning else 1.0) * words
    order = np.argsort(-scores, kind="stable").tolist()
    return [
        ScoredId(dense[i].id, float(scores[i]), dense[i].number, dense[i].hangul) for i in order
    ]


def _trust(found: float, best: float) -> float:
    """How much words count: from 0 to 1 by the share of the query's words that were found."""
    share = found / best if best > 0 else 0.0
    return float(np.clip((share - _UNTRUSTED) / (_TRUSTED - _UNTRUSTED), 0, 1))


def _standardised(scores: Floats) -> Floats:
    spread = scores.std()
    centred: Floats = scores - scores.mean()
    return centred / spread if spread > 1e-9 else np.zeros_like(centred)


def _in_other_language(query: str, found: Sequence[ScoredId]) -> NDArray[np.bool_]:
    share = hangul_share(query)
    shares = np.array([-1 if one.hangul is None else one.hangul for one in found])
    if share is not None and share > _KOREAN_QUERY:
        return (shares >= 0) & (shares < _OTHER_PASSAGE)
    if share is not None and share < _OTHER_QUERY:
        return shares > _KOREAN_PASSAGE
    return np.zeros(len(found), dtype=np.bool_)
