"""Pairs that mean the same or not: how well a threshold on the model's score parts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from .examples import PAIRS, Examples, Form, Roles, read_examples, text, truth
from .measures import average_precision, best_accuracy, best_f1, best_thresholds
from .models import likeness
from .report import Outcome

FORM = Form(
    ("a", "b"),
    PAIRS,
    {"same": ("same", "isduplicate", "duplicate", "paraphrase", "answer", "label")},
)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts, and whether they mean the same."""

    a: str
    b: str
    same: bool


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
) -> Examples[LabelledPair]:
    """Read pairs that are marked as the same or not; see `read_examples` for the options."""
    examples = read_examples(path, [(FORM, _parse)], columns=columns, sides=sides, strict=strict)
    check(examples.rows, str(path))
    return examples


def _parse(values: Roles) -> LabelledPair:
    return LabelledPair(text(values, "a"), text(values, "b"), truth(values, "same"))


def check(pairs: Sequence[LabelledPair], where: str) -> None:
    """Raise a DataError for pairs that nothing can be measured on."""
    if len({pair.same for pair in pairs}) < 2:
        kind = "the same" if pairs and pairs[0].same else "different"
        raise DataError(
            f"{where} has only pairs that are {kind} ({len(pairs):,}); expected both kinds. "
            "Check the column, or add pairs of the other kind."
        )


def measure(model: object, pairs: Sequence[LabelledPair]) -> Outcome:
    """Measure average precision, and accuracy and F1 at their best thresholds.

    The thresholds (`details`) are chosen on these very pairs, so accuracy and F1 are what the
    model can reach, not what a threshold chosen elsewhere would.
    """
    check(pairs, "the data")
    same = [pair.same for pair in pairs]
    found = likeness(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
    first = next(iter(found.values()))
    measures = {
        "average_precision": average_precision(first, same),
        "accuracy": best_accuracy(first, same),
        "f1": best_f1(first, same),
    }
    for name, scores in list(found.items())[1:]:
        measures[f"average_precision_{name}"] = average_precision(scores, same)
    accuracy, f1 = best_thresholds(first, same)
    share = sum(same) / len(same)
    details = {"threshold_accuracy": accuracy, "threshold_f1": f1, "share_same": share}
    return Outcome(
        measures,
        units=np.arange(len(pairs)),
        main="average_precision",
        details={name: round(value, 6) for name, value in details.items()},
    )
