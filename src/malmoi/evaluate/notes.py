"""Decisions over long notes: are they right, and which rule over windows makes them so?"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..notes.calibration import expected_error, reliability, soften
from ..notes.classifier import Scored
from ..notes.decision import Rule, combine
from ..notes.documents import Document
from .measures import Measure, auroc, average_precision, macro_f1, mean, recall_at_precision
from .report import Outcome

PRECISION = 0.8
# What the joint rule is compared with; "first" is truncation, which reads the first window alone.
OTHERS = ("first", "max", "mean", "attention")


class Classifier(Protocol):
    """What is asked of a classifier of notes."""

    labels: tuple[str, ...]

    def score(self, documents: Sequence[Sequence[str]]) -> list[Scored]: ...


def probabilities(
    scored: Sequence[Scored],
    rule: Rule,
    *,
    temperature: float = 1.0,
    weights: Sequence[NDArray[np.float64]] | None = None,
) -> NDArray[np.float64]:
    """Decide of every document by a rule; (documents, labels)."""
    rows = [
        combine(one.shares, rule, weights=None if weights is None else weights[i])
        for i, one in enumerate(scored)
    ]
    return soften(np.stack(rows), temperature)


def judge(
    found: NDArray[np.float64], documents: Sequence[Document], labels: Sequence[str]
) -> Outcome:
    """Measure decisions (documents, labels) against the documents' labels.

    Two labels: the second is the event, and the area under the ROC curve is the main measure,
    with that under precision and recall, and the recall where precision is 0.8. More labels:
    accuracy, macro F1, and the mean area of one label against the rest. Patients are drawn whole.
    """
    numbers = {label: i for i, label in enumerate(labels)}
    gold = np.array([numbers[one.label] for one in documents])
    if len(set(gold.tolist())) < 2:
        raise DataError(
            "all notes have the same label; expected two at least, for there is nothing to tell "
            "apart. Check the column."
        )
    order: dict[str, int] = {}
    units = np.array([order.setdefault(one.patient, len(order)) for one in documents])
    guess = found.argmax(axis=1)
    measures: dict[str, Measure]
    if len(labels) == 2:
        event, said = gold == 1, found[:, 1]
        measures = {
            "auroc": auroc(said, event),
            "auprc": average_precision(said, event),
            f"recall_at_{PRECISION:g}": recall_at_precision(said, event, PRECISION),
            "accuracy": mean(guess == gold),
        }
        bins = reliability(said, event)
    else:
        areas = [auroc(found[:, i], gold == i) for i in range(len(labels)) if (gold == i).any()]
        measures = {
            "accuracy": mean(guess == gold),
            "macro_f1": macro_f1(guess, gold),
            "auroc": lambda weights: np.nanmean([area(weights) for area in areas], axis=0),
        }
        bins = reliability(found.max(axis=1), guess == gold)
    details = {
        "expected_calibration_error": round(expected_error(bins), 4),
        "reliability": [{"said": b.said, "was": b.was, "count": b.count} for b in bins],
    }
    return Outcome(measures, units=units, main=next(iter(measures)), details=details)
