"""How much a reranker's own output counts, and how much an encoder's cosine: fitted on pairs."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..bundle.manifest import Manifest
from ..encoders import TextEncoder
from ..errors import DataError, counted
from ..runtime.tokenizer import Pair
from .reranker import FoundBlend, Reranker, ScoreBlend, cosines

_STEPS = 100
_PULL = 1e-4  # towards 0, so that features which say the same keep finite weights


def fit_join(
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


def write_join(folder: Path, join: ScoreBlend) -> None:
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
