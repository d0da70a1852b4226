"""Reranking: an encoder proposes documents, a reranker puts them in order."""

from collections.abc import Sequence

import numpy as np

from ..errors import OptionError
from ..index.knn import RowPairs, nearest
from .models import scores_of
from .report import Outcome
from .retrieval import KS, Ranks, outcome_of, rank, unit_vectors, usable_ks
from .searches import Searches

TOP = 50
_PAIRS_AT_ONCE = 20_000


def measure(
    reranker: object,
    encoder: object,
    searches: Searches,
    *,
    top: int = TOP,
    ks: Sequence[int] = KS,
) -> tuple[Outcome, Outcome]:
    """Measure the order after reranking, and the encoder's own order to compare it with.

    The encoder's first `top` documents are scored by the reranker and put in the order of these
    scores; the others keep their places below.
    """
    if top < 1:
        raise OptionError(f"top is {top}; expected 1 or more. Choose how many to rerank.")
    kept, notes = usable_ks(ks, searches)
    before = rank(encoder, searches)
    after = _reordered(reranker, before, propose(encoder, searches, top), searches)
    return outcome_of(after, searches, kept, notes), outcome_of(before, searches, kept, notes)


def propose(encoder: object, searches: Searches, top: int) -> list[list[int]]:
    """Give the rows of the `top` nearest documents of each query, nearest first."""
    queries, documents = unit_vectors(encoder, searches)
    asking = np.flatnonzero(searches.own >= 0)
    own = RowPairs(asking, searches.own[asking])
    blocks = nearest(queries, documents, top, without=own)
    return [[int(row) for row in rows if row >= 0] for block in blocks for rows in block.rows]


def _reordered(
    reranker: object, before: Ranks, proposed: list[list[int]], searches: Searches
) -> Ranks:
    pairs = [
        (searches.queries[i], searches.documents[row])
        for i, rows in enumerate(proposed)
        for row in rows
    ]
    starts = range(0, len(pairs), _PAIRS_AT_ONCE)
    scores = np.concatenate(
        [scores_of(reranker, pairs[start : start + _PAIRS_AT_ONCE]) for start in starts]
    )
    after, at = [], 0
    for ranks, rows in zip(before, proposed, strict=True):
        order = np.argsort(-scores[at : at + len(rows)], kind="stable")
        at += len(rows)
        places = {rows[place]: new for new, place in enumerate(order, start=1)}
        after.append({row: places.get(row, old) for row, old in ranks.items()})
    return after
