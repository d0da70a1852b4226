"""Two texts at a time: sts (how similar they are) and pairs (whether they mean the same)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import DataError, counted
from ..examples import PAIRS, Examples, Form, Roles, number, text, truth
from ..measures import (
    average_precision,
    best_accuracy,
    best_f1,
    best_thresholds,
    pearson,
    spearman,
)
from ..models import similarity
from ..task import Outcome, Settings, Task

_SCORES = ("score", "similarity", "reallabel", "relatedness", "relatednessscore", "label")
_SAME = ("same", "isduplicate", "duplicate", "paraphrase", "answer", "label")


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people found them, on any scale that grows with similarity."""

    a: str
    b: str
    score: float


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts, and whether they mean the same."""

    a: str
    b: str
    same: bool


def _parse_scored(values: Roles) -> ScoredPair:
    return ScoredPair(text(values, "a"), text(values, "b"), number(values, "score"))


def _parse_labelled(values: Roles) -> LabelledPair:
    return LabelledPair(text(values, "a"), text(values, "b"), truth(values, "same"))


class Sts(Task[Sequence[ScoredPair]]):
    """Semantic textual similarity: do the model's scores rise and fall as people's do?

    "spearman" and "pearson" are by cosine for an encoder and by its score for a reranker; those of
    an encoder's dot product and Euclidean distance have names of their own.

    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[1.0, len(text)] for text in texts])
    >>> pairs = [ScoredPair("a", "aaaa", 1), ScoredPair("a", "aa", 2), ScoredPair("a", "a", 3)]
    >>> round(Sts().measure(Lengths(), pairs).values()["spearman"], 6)
    1.0
    """

    name = "sts"
    forms = ((Form(("a", "b"), PAIRS, {"score": _SCORES}), _parse_scored),)

    def check(self, rows: Sequence[ScoredPair], where: str) -> None:
        """Refuse scores that are all the same."""
        if len({pair.score for pair in rows}) < 2:
            raise DataError(
                f"{where} has the score {rows[0].score:g} in all of its "
                f"{counted(len(rows), 'row')}; expected different ones, because a correlation "
                "with a constant is undefined. Name another column with --columns score=…"
            )

    def outcome(
        self, model: object, examples: Examples[Sequence[ScoredPair]], settings: Settings
    ) -> Outcome:
        """Correlate a model's similarities with the scores."""
        pairs = examples.rows
        self.check(pairs, "the data")
        gold = [pair.score for pair in pairs]
        found = similarity(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
        measures = {}
        for i, (name, scores) in enumerate(found.items()):
            ending = f"_{name}" if i else ""
            measures["spearman" + ending] = spearman(scores, gold)
            measures["pearson" + ending] = pearson(scores, gold)
        return Outcome(measures, units=np.arange(len(pairs)), main="spearman")

    def text_pairs(self, rows: Sequence[ScoredPair]) -> list[tuple[str, str]]:
        """Every pair."""
        return [(row.a, row.b) for row in rows]


class SamePairs(Task[Sequence[LabelledPair]]):
    """Pairs that mean the same or not: how well does a threshold on the score separate them?

    Accuracy and F1 are at their best thresholds, which are chosen on these very pairs (`details`
    has them): what the model can reach, not what a threshold chosen elsewhere would.
    """

    name = "pairs"
    forms = ((Form(("a", "b"), PAIRS, {"same": _SAME}), _parse_labelled),)

    def check(self, rows: Sequence[LabelledPair], where: str) -> None:
        """Refuse pairs of one kind only."""
        if len({pair.same for pair in rows}) < 2:
            kind = "the same" if rows and rows[0].same else "different"
            raise DataError(
                f"{where} has only pairs that are {kind} ({len(rows):,}); expected both kinds. "
                "Name another column with --columns same=…, or add pairs of the other kind."
            )

    def outcome(
        self, model: object, examples: Examples[Sequence[LabelledPair]], settings: Settings
    ) -> Outcome:
        """Measure average precision, and accuracy and F1 at their best thresholds."""
        pairs = examples.rows
        self.check(pairs, "the data")
        same = [pair.same for pair in pairs]
        found = similarity(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
        first, *rest = found
        measures = {
            "average_precision": average_precision(found[first], same),
            "accuracy": best_accuracy(found[first], same),
            "f1": best_f1(found[first], same),
        }
        measures |= {
            f"average_precision_{name}": average_precision(found[name], same) for name in rest
        }
        accuracy, f1 = best_thresholds(found[first], same)
        share = sum(same) / len(same)
        details = {"threshold_accuracy": accuracy, "threshold_f1": f1, "share_same": share}
        return Outcome(
            measures,
            units=np.arange(len(pairs)),
            main="average_precision",
            details={name: round(value, 6) for name, value in details.items()},
        )

    def text_pairs(self, rows: Sequence[LabelledPair]) -> list[tuple[str, str]]:
        """Every pair."""
        return [(row.a, row.b) for row in rows]
