"""Fit how ko-en-reranker weighs other scores with its own, and note it in its bundle.

    python recipes/prepare/reranker_join.py runs/ko-en-reranker/bundle --data DATA \
        [--encoder ko-en-small]

The encoder's similarity is weighed on KorSTS dev, in and across both languages, which neither model
was trained on, and on questions with a right and a wrong passage; the score of a search on the dev
halves of bench/search/fusion_quality.py, where these questions are from too.
"""

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import malmoi
from malmoi.bundle.manifest import Manifest
from malmoi.corpus.corpus import RERANKED
from malmoi.encoders import TextEncoder
from malmoi.errors import DataError, counted
from malmoi.heads.reranker import FoundBlend, Reranker, ScoreBlend, cosines
from malmoi.runtime.tokenizer import Pair

sys.path.insert(0, str(Path(__file__).parents[2]))  # for the sets of the bench
from bench.search.fusion_quality import SETS, indexed

SETS_FITTED = ("boolq", "sections-ko", "sections-en", "sections-mixed", "sections-other", "chatbot")
QUERIES = 60
PASSAGES = 4  # times that a question counts: KorSTS has many more pairs
_STEPS = 100
_PULL = 1e-4  # towards 0, so that features which say the same keep finite weights


def fit_blend(
    reranker: Reranker, encoder: TextEncoder, pairs: Sequence[Pair], scores: Sequence[float]
) -> ScoreBlend:
    """Fit the weights on pairs that neither model was trained on, scored from 0 to 1.

    It is a logistic regression on what both say of a pair, with shares as targets. A join that the
    reranker has already does not count.
    """
    wanted = np.asarray(scores, dtype=np.float64)
    if len(wanted) != len(pairs) or len(pairs) < 10 or wanted.min() < 0 or wanted.max() > 1:
        raise DataError(
            f"there are {counted(len(pairs), 'pair')} and {counted(len(wanted), 'score')}; "
            "expected ten or more of each, scores from 0 to 1. Divide grades by the highest one."
        )
    own = reranker.own_scores(pairs)
    columns = np.stack([own, cosines(encoder, pairs), np.ones(len(pairs))], axis=1)
    cross, cosine, constant = _regress(columns.astype(np.float64), wanted)
    return ScoreBlend(encoder.name, float(cross), float(cosine), float(constant))


@dataclass(frozen=True)
class FoundTexts:
    """What a search found for a query: texts, the search's scores, and which are right."""

    query: str
    texts: list[str]
    scores: list[float]
    right: list[bool]


def fit_found(reranker: Reranker, searches: Sequence[FoundTexts]) -> FoundBlend:
    """Fit how a reranker's own score and a search's are weighed, on searches with known answers.

    What counts is which text of one search is first, so the weights are those of a conditional
    logit: the softmax over a search's texts is to lie on the right ones. The constant is fitted
    afterwards; the right texts of a query count as much as its wrong ones together, so that the
    score is above a half where a text rather answers than not.
    """
    lists, shares = [], []
    for search in searches:
        right = np.array(search.right)
        if not 0 < right.sum() < len(right):
            continue
        own = reranker.own_scores([(search.query, text) for text in search.texts])
        columns = FoundBlend.columns(own, np.array(search.scores, dtype=np.float32))
        lists.append((columns[:, :2].astype(np.float64), right))
        shares.append(np.where(right, 0.5 / right.sum(), 0.5 / (~right).sum()))
    if len(lists) < 10:
        raise DataError(
            f"{counted(len(lists), 'search', 'searches')} found right texts and wrong ones; "
            "expected ten or more. Give searches whose answers are known, and more texts of each."
        )
    cross, rank = _first_of_lists(lists)
    scores = np.concatenate([columns @ (cross, rank) for columns, _ in lists])
    right, weight = np.concatenate([right for _, right in lists]), np.concatenate(shares)
    # The constant at which both sides weigh the same, found by halving: the sum rises with it.
    low, high = -100.0, 100.0
    for _ in range(60):
        constant = (low + high) / 2
        over = (weight * (1 / (1 + np.exp(-np.clip(scores + constant, -50, 50))) - right)).sum()
        low, high = (low, constant) if over > 0 else (constant, high)
    return FoundBlend(float(cross), float(rank), constant)


def _first_of_lists(lists: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Fit weights by which the softmax over each list, columns (n, k), lies on its right rows."""
    weights = np.zeros(lists[0][0].shape[1])
    for _ in range(_STEPS):
        slope, curve = _PULL * weights, _PULL * np.eye(len(weights))
        for columns, right in lists:
            scores = columns @ weights
            share = np.exp(scores - scores.max())
            share /= share.sum()
            wanted = share * right / max(float((share * right).sum()), 1e-30)
            slope = slope + columns.T @ (share - wanted) / len(lists)
            middle = columns - share @ columns
            curve = curve + (middle * share[:, None]).T @ middle / len(lists)
        step = np.linalg.solve(curve, slope)
        # A whole step can end where every softmax is sharp and flat, with no way back.
        weights = weights - step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-30))
        if np.abs(step).max() < 1e-10:
            break
    return weights


def write_blend(folder: Path, join: ScoreBlend) -> None:
    """Note the join in a bundle's manifest."""
    dataclasses.replace(Manifest.read(folder), beside=join.to_json()).write(folder)


def _regress(columns: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Minimise the cross-entropy by Newton's method; columns are scaled, then scaled back."""
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-9)
    x, weights = columns / scale, np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (p - wanted) / len(x) + _PULL * weights
        curve = (x * (p * (1 - p))[:, None]).T @ x / len(x) + _PULL * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    fitted: np.ndarray = weights / scale
    return fitted


def rows(path: Path) -> list[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def searches(encoder: malmoi.Encoder) -> Iterator[FoundTexts]:
    """Yield what a hybrid search finds, first of all, for questions whose answers are known."""
    for name in SETS_FITTED:
        made = SETS[name]("dev", QUERIES)
        with indexed(made, encoder) as corpus:
            for query in made.queries:
                hits = [hit for hit in corpus.search(query.text, RERANKED) if hit.id != query.own]
                right = [hit.id in query.right for hit in hits]
                yield FoundTexts(
                    query.text, [hit.text for hit in hits], [hit.score for hit in hits], right
                )


def main() -> None:
    """Fit, print the weights, and write them into the bundle's manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="ko-en-small")
    given = parser.parse_args()
    dev = [
        ((row[f"{one}1"], row[f"{two}2"]), float(row["score"]) / 5)
        for row in rows(given.data / "sts/korsts-dev.tsv")
        for one, two in (("ko", "ko"), ("ko", "en"), ("en", "en"))
    ]
    reranker, encoder = malmoi.load(given.bundle), malmoi.load(given.encoder)
    made = list(searches(encoder))
    for search in made:
        if True in search.right and False in search.right:
            dev += [
                ((search.query, search.texts[search.right.index(right)]), float(right))
                for right in (True, False)
            ] * PASSAGES
    pairs, scores = zip(*dev, strict=True)
    found = fit_found(reranker, made)
    join = dataclasses.replace(fit_blend(reranker, encoder, pairs, scores), found=found)
    write_blend(given.bundle, join)
    sys.stdout.write(f"{len(pairs):,} pairs: {join}\n")


if __name__ == "__main__":
    main()
