"""Two texts at a time: sts (how similar they are) and pairs (whether they mean the same)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ...errors import DataError, counted
from ...types import Doubles
from ..examples import PAIRS, Examples, Form, Roles, number, text, truth
from ..measures import average_precision, best_accuracy, best_f1, best_thresholds, pearson, spearman
from ..models import similarity
from . import Outcome, Settings, Task


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people found them, on any scale that grows with similarity."""

    a: str
    b: str
    score: float


def _parse_scored(values: Roles) -> ScoredPair:
    return ScoredPair(text(values, "a"), text(values, "b"), number(values, "score"))


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts, and whether they mean the same."""

    a: str
    b: str
    same: bool


def _parse_labelled(values: Roles) -> LabelledPair:
    return LabelledPair(text(values, "a"), text(values, "b"), truth(values, "same"))


_SCORES = (
    *("score", "similarity", "reallabel", "labelsreallabel", "relatedness", "relatednessscore"),
    *("label", "labelslabel"),
)
_SAME = (
    *("same", "isduplicate", "duplicate", "paraphrase", "answer", "binarylabel"),
    *("labelsbinarylabel", "label"),
)
Pair = TypeVar("Pair", ScoredPair, LabelledPair)


class _PairTask(Task[Sequence[Pair]]):
    """A task of two texts at a time; a subclass judges what `similarity` found."""

    def outcome(
        self, model: object, examples: Examples[Sequence[Pair]], settings: Settings
    ) -> Outcome:
        pairs = examples.rows
        self.check(pairs, "the data")
        found = similarity(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
        return self.judge(found, pairs)

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[Pair]) -> Outcome:
        raise NotImplementedError

    def text_pairs(self, rows: Sequence[Pair]) -> list[tuple[str, str]]:
        return [(row.a, row.b) for row in rows]


class Sts(_PairTask[ScoredPair]):
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
        if len({pair.score for pair in rows}) < 2:
            raise DataError(
                f"{where} has the score {rows[0].score:g} in all of its "
                f"{counted(len(rows), 'row')}; expected different ones, because a correlation "
                "with a constant is undefined. Name another column with --columns score=…"
            )

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[ScoredPair]) -> Outcome:
        """Correlate a model's similarities with the scores."""
        gold = [pair.score for pair in pairs]
        measures = {}
        for i, (name, scores) in enumerate(found.items()):
            ending = f"_{name}" if i else ""
            measures["spearman" + ending] = spearman(scores, gold)
            measures["pearson" + ending] = pearson(scores, gold)
        return Outcome(measures, units=np.arange(len(pairs)), main="spearman")


class SamePairs(_PairTask[LabelledPair]):
    """Pairs that mean the same or not: how well does a threshold on the score separate them?

    Accuracy and F1 are at their best thresholds, which are chosen on these very pairs (`details`
    has them): what the model can reach, not what a threshold chosen elsewhere would.
    """

    name = "pairs"
    forms = ((Form(("a", "b"), PAIRS, {"same": _SAME}), _parse_labelled),)

    def check(self, rows: Sequence[LabelledPair], where: str) -> None:
        if len({pair.same for pair in rows}) < 2:
            kind = "the same" if rows and rows[0].same else "different"
            raise DataError(
                f"{where} has only pairs that are {kind} ({len(rows):,}); expected both kinds. "
                "Name another column with --columns same=…, or add pairs of the other kind."
            )

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[LabelledPair]) -> Outcome:
        """Measure average precision, and accuracy and F1 at their best thresholds."""
        same = [pair.same for pair in pairs]
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
        rounded = {name: round(value, 6) for name, value in details.items()}
        return Outcome(measures, np.arange(len(pairs)), "average_precision", rounded)
