"""Retrieval: how high among all documents stand those that a query should find?"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, counted
from ..runtime.pooling import normalize
from ..types import Floats
from .measures import mean
from .models import vectors_of
from .report import Outcome
from .searches import Searches

KS = (1, 5, 10)
Ranks = list[dict[int, int]]  # for each query: document's row → its rank from 1

_SCORES_AT_ONCE = 16_000_000  # 64 MB of float32
# Up to this many relevant documents it is faster to count those above each than to sort all.
_FEW = 48


def measure(encoder: object, searches: Searches, *, ks: Sequence[int] = KS) -> Outcome:
    """Rank every document by cosine for every query, and measure where the relevant ones are.

    For each k: "hit" is the share of queries with a relevant document among the first k (for sets:
    a member finds its set), "recall" the share of relevant documents there, "mrr" the inverse
    rank of the first, "ndcg" the discounted gain of all against the best order. "map" looks at
    the whole ranking.
    """
    kept, notes = usable_ks(ks, searches)
    return outcome_of(rank(encoder, searches), searches, kept, notes)


def rank(encoder: object, searches: Searches) -> Ranks:
    """Give the rank of every relevant document among all; of equal scores the earlier row wins."""
    queries, documents = unit_vectors(encoder, searches)
    found: Ranks = []
    for row, scores in _scores(queries, documents):
        own = searches.own[row]
        if own >= 0:
            scores[own] = -np.inf
        relevant = np.array(list(searches.relevant[row]), dtype=np.int64)
        found.append(dict(zip(relevant.tolist(), _ranks(scores, relevant), strict=True)))
    return found


def outcome_of(
    ranks: Ranks, searches: Searches, ks: Sequence[int], notes: tuple[str, ...] = ()
) -> Outcome:
    """Turn ranks into measures, one value a query."""
    both = list(zip(ranks, searches.relevant, strict=True))
    columns: dict[str, list[float]] = {}
    for k in ks:
        columns[f"hit@{k}"] = [float(min(found.values()) <= k) for found in ranks]
        columns[f"recall@{k}"] = [_recall(found, k) for found in ranks]
        if k > 1 or k == max(ks):  # at 1 they are no more than the hits
            columns[f"mrr@{k}"] = [_reciprocal(found, k) for found in ranks]
            columns[f"ndcg@{k}"] = [_ndcg(found, grades, k) for found, grades in both]
    columns["map"] = [_average_precision(found) for found in ranks]
    details = {"queries": len(searches.queries), "documents": len(searches.documents)}
    return Outcome(
        {name: mean(values) for name, values in columns.items()},
        units=searches.units,
        main=f"ndcg@{max(ks)}",
        details=details,
        notes=notes,
    )


def usable_ks(ks: Sequence[int], searches: Searches) -> tuple[list[int], tuple[str, ...]]:
    """Leave out every k at which all documents would be found whatever the model."""
    if not ks or min(ks) < 1:
        raise OptionError(f"k is {list(ks)}; expected one number or more, each from 1. Correct it.")
    ranked = len(searches.documents) - int((searches.own >= 0).any())
    kept = sorted({k for k in ks if k < ranked})
    if len(kept) == len(set(ks)):
        return kept, ()
    left = ", ".join(str(k) for k in sorted(set(ks) - set(kept)))
    few = counted(ranked, "document is", "documents are")
    note = f"only {few} ranked, so k = {left} says nothing and was left out"
    return kept or [1], (note,)


def unit_vectors(encoder: object, searches: Searches) -> tuple[Floats, Floats]:
    """The vectors of queries and documents, each of length 1."""
    asked, given = searches.query_prompt, searches.document_prompt
    if asked == given:  # together, so that a text on both sides is encoded once
        both = normalize(vectors_of(encoder, searches.queries + searches.documents, prompt=asked))
        return both[: len(searches.queries)], both[len(searches.queries) :]
    queries = vectors_of(encoder, searches.queries, prompt=asked)
    documents = vectors_of(encoder, searches.documents, prompt=given)
    return normalize(queries), normalize(documents)


def _scores(queries: Floats, documents: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield each query's row with its scores (documents,), computed many at once."""
    step = max(1, _SCORES_AT_ONCE // len(documents))
    for start in range(0, len(queries), step):
        for i, scores in enumerate(queries[start : start + step] @ documents.T):
            yield start + i, scores


def _ranks(scores: Floats, rows: NDArray[np.int64]) -> list[int]:
    if len(rows) > _FEW:
        places = np.empty(len(scores), dtype=np.int64)
        places[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        return [int(place) for place in places[rows]]
    found = []
    for row in rows:
        above = int((scores > scores[row]).sum())
        found.append(1 + above + int((scores[:row] == scores[row]).sum()))
    return found


def _recall(ranks: Mapping[int, int], k: int) -> float:
    return sum(rank <= k for rank in ranks.values()) / len(ranks)


def _reciprocal(ranks: Mapping[int, int], k: int) -> float:
    first = min(ranks.values())
    return 1 / first if first <= k else 0.0


def _ndcg(ranks: Mapping[int, int], grades: Mapping[int, float], k: int) -> float:
    gained = sum(grades[row] * _discount(rank) for row, rank in ranks.items() if rank <= k)
    best = sorted(grades.values(), reverse=True)[:k]
    return float(gained / sum(grade * _discount(i) for i, grade in enumerate(best, start=1)))


def _discount(rank: int) -> float:
    return float(1 / np.log2(rank + 1))


def _average_precision(ranks: Mapping[int, int]) -> float:
    ordered = sorted(ranks.values())
    return sum(i / rank for i, rank in enumerate(ordered, start=1)) / len(ordered)
