"""Whether relevance tells questions with an answer from those without, and is calibrated.

    python bench/run.py relevance [--fit] [--queries 400] [--sets boolq,docs,...]

A question without an answer is one whose right passages are left out of the search, or one of
another set. Every second question is for fitting, the others for measuring. The chat set is
measured alone: its answers fit many questions, so what counts as right there is chance. `--fit`
prints the weights for `malmoi.corpus.relevance` first, and measures those.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import malmoi
from bench.common import BUILD, Row
from bench.search.dev_sets import DevSet, dev_sets
from bench.search.late_interaction import open_corpus
from malmoi.corpus import RELEVANT, Corpus
from malmoi.corpus.relevance import calibrated

_FITTED = ("boolq", "en>ko", "bills", "docs")
_WAYS: dict[str, dict[str, Any]] = {
    "_LATE": {},
    "_DENSE": {"late": False},
    "_WORDS": {"mode": "keyword"},
}
_HITS = 3  # of a question
Array = NDArray[np.float64]


class Answered(NamedTuple):
    """The signals (n, m) of a question's first hits, and which of them are right."""

    signals: Array
    right: NDArray[np.bool_]
    answerable: bool
    weights: Sequence[float]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--sets", default="boolq,en>ko,bills,chat,docs")
    parser.add_argument("--ways", default=",".join(_WAYS))
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--model")
    parser.add_argument("--corpora", type=Path, default=BUILD / "dev-sets", help="kept there")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model, threads=options.threads)
    sets, names = dev_sets(options.queries), options.sets.split(",")
    options.corpora.mkdir(parents=True, exist_ok=True)
    for way in options.ways.split(","):
        found: dict[str, list[tuple[Answered, ...]]] = {}
        for name in names:
            path = options.corpora / f"{name.replace('>', '-')}.malmoi"
            with open_corpus(path, encoder, sets[name]) as corpus:
                other = sets[names[names.index(name) - 1]].queries
                found[name] = list(_answers(corpus, sets[name], other, _WAYS[way]))
        weights = _fit(found) if options.fit else found[names[0]][0][0].weights
        if options.fit:
            yield {"way": way, "weights": [round(float(one), 3) for one in weights]}
        fitted = [one for name in _FITTED for one in found.get(name, [])[1::2]]
        yield {"way": way, "set": "all but chat"} | _measured(fitted, weights)
        for name in names:
            yield {"way": way, "set": name} | _measured(found[name][1::2], weights)


def _answers(
    corpus: Corpus, own: DevSet, other: Sequence[str], asked: dict[str, Any]
) -> Iterator[tuple[Answered, ...]]:
    """Two for a question: with its answer, and without or of another set."""
    rows: list[Array] = []
    used: list[Sequence[float]] = []

    def numbered(signals: Array, weights: Sequence[float]) -> Array:
        """Signals under numbers, which pass for their relevance."""
        start = len(rows)
        rows.extend(signals)
        used[:] = [weights]
        return np.arange(start, len(rows), dtype=np.float64)

    def ask(query: str, right: set[int], **more: Any) -> Answered:
        rows.clear()
        hits = corpus.search(query, _HITS, explain=False, **asked, **more)
        signals = np.array([rows[int(hit.relevance)] for hit in hits])
        marks = np.array([int(hit.id) in right for hit in hits], dtype=np.bool_)
        return Answered(signals, marks, bool(right), used[0] if used else ())

    with mock.patch("malmoi.corpus.relevance.calibrated", numbered):
        for i, (query, right) in enumerate(zip(own.queries, own.right, strict=True)):
            found = [ask(query, right)]
            if i % 4 < 2:
                found.append(ask(query, set(), filter=[f"n!={one}" for one in right]))
            else:
                found.append(ask(other[i % len(other)], set()))
            yield tuple(found)


def _fit(found: dict[str, list[tuple[Answered, ...]]]) -> Array:
    """Logistic regression by Newton's method, every set weighing the same."""
    signals, right, weights = [], [], []
    for name in _FITTED:
        some = [one for pair in found.get(name, [])[::2] for one in pair if len(one.signals)]
        count = sum(len(one.right) for one in some)
        for one in some:
            signals.append(one.signals)
            right.append(one.right)
            weights.append(np.full(len(one.right), 1 / count))
    x, y, w = np.concatenate(signals), np.concatenate(right), np.concatenate(weights)
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    design = np.c_[np.ones(len(x)), (x - mean) / spread]
    penalty = 1e-3 * w.sum() * np.eye(design.shape[1])
    penalty[0, 0] = 0
    fitted = np.zeros(design.shape[1])
    for _ in range(50):
        share = 1 / (1 + np.exp(-design @ fitted))
        gradient = design.T @ (w * (share - y)) + penalty @ fitted
        curvature = (design * (w * share * (1 - share))[:, None]).T @ design + penalty
        fitted -= np.linalg.solve(curvature, gradient)
    slopes = fitted[1:] / spread
    return np.array([fitted[0] - (mean * slopes).sum(), *slopes])


def _measured(pairs: Sequence[tuple[Answered, ...]], weights: Sequence[float]) -> Row:
    value: Callable[[Answered], Array] = lambda one: calibrated(one.signals, weights)  # noqa: E731
    every = [one for pair in pairs for one in pair]
    tops = {
        kind: np.array(
            [value(one)[0] if len(one.signals) else 0.0 for one in every if one.answerable == kind]
        )
        for kind in (True, False)
    }
    some = [one for one in every if len(one.signals)]
    shares, right = (
        np.concatenate([value(one) for one in some]),
        np.concatenate([one.right for one in some]),
    )
    bins = np.clip((10 * shares).astype(int), 0, 9)
    error = sum(
        abs(shares[bins == one].mean() - right[bins == one].mean()) * (bins == one).mean()
        for one in np.unique(bins)
    )
    above = (tops[True][:, None] > tops[False]).mean() + (
        tops[True][:, None] == tops[False]
    ).mean() / 2
    return {
        "questions": len(every),
        "AUC": round(float(above), 3),
        "answerable called unanswerable, %": round(100 * float((tops[True] < RELEVANT).mean()), 1),
        "unanswerable called so, %": round(100 * float((tops[False] < RELEVANT).mean()), 1),
        "tenth below": round(float(np.quantile(tops[True], 0.1)), 3),
        "calibration error": round(float(error), 3),
    }
