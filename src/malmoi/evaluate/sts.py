"""Semantic textual similarity: do the model's scores rise and fall as people's do?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError, counted
from .examples import PAIRS, Examples, Form, Roles, number, read_examples, text
from .measures import pearson, spearman
from .models import likeness
from .report import Outcome

FORM = Form(
    ("a", "b"),
    PAIRS,
    {"score": ("score", "similarity", "reallabel", "relatedness", "relatednessscore", "label")},
)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how alike people found them, on any scale that grows with likeness."""

    a: str
    b: str
    score: float


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
) -> Examples[ScoredPair]:
    """Read pairs with scores; see `read_examples` for the options."""
    examples = read_examples(path, [(FORM, _parse)], columns=columns, sides=sides, strict=strict)
    check(examples.rows, str(path))
    return examples


def _parse(values: Roles) -> ScoredPair:
    return ScoredPair(text(values, "a"), text(values, "b"), number(values, "score"))


def check(pairs: Sequence[ScoredPair], where: str) -> None:
    """Raise a DataError for pairs that nothing can be measured on."""
    if len({pair.score for pair in pairs}) < 2:
        raise DataError(
            f"{where} has the score {pairs[0].score:g} in all of its {counted(len(pairs), 'row')}; "
            "expected different ones, for a correlation with a constant is undefined. Check the "
            "column."
        )


def measure(model: object, pairs: Sequence[ScoredPair]) -> Outcome:
    """Correlate a model's similarities with the scores.

    "spearman" and "pearson" are by cosine for an encoder and by its score for a reranker; an
    encoder's dot product and Euclidean distance stand beside them under names of their own.

    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[1.0, len(text)] for text in texts])
    >>> pairs = [ScoredPair("a", "aaaa", 1), ScoredPair("a", "aa", 2), ScoredPair("a", "a", 3)]
    >>> round(measure(Lengths(), pairs).values()["spearman"], 6)
    1.0
    """
    check(pairs, "the data")
    gold = [pair.score for pair in pairs]
    found = likeness(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
    measures = {}
    for i, (name, scores) in enumerate(found.items()):
        ending = f"_{name}" if i else ""
        measures["spearman" + ending] = spearman(scores, gold)
        measures["pearson" + ending] = pearson(scores, gold)
    return Outcome(measures, units=np.arange(len(pairs)), main="spearman")
