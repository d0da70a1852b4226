"""Notes: are decisions over long documents right, and which rule over windows makes them so?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...classifier.classifier import DecisionPool, NoteClassifier, ScoredWindows, attend
from ...classifier.decision import RULES, Rule, combine, expected_error, reliability, soften
from ...classifier.documents import LabelChoice, NoteDocument, read_documents
from ...errors import DataError, OptionError
from ..examples import Examples, Roles, describe
from ..measures import Measure, auroc, average_precision, macro_f1, mean, recall_at_precision
from ..task import Outcome, Settings, Task

PRECISION = 0.8
_TITLES = {
    "joint": "joint over windows",
    "max": "max over windows",
    "mean": "mean over windows",
    "first": "first window only",  # truncation
    "attention": "attention over windows",
}


# A file of notes and its columns: it is read as each model was trained, with its labels.
NoteFile = tuple[Path, Roles]


class NoteDecisions(Task[NoteFile]):
    """Judge a classifier of notes by its own rule over windows, and by every other rule.

    Labels are joined and notes gathered as they were when the model was trained; rows with a
    label that it was not trained for are left out.
    """

    name = "notes"

    def load(self, path: Path, settings: Settings) -> Examples[NoteFile]:
        """Read a file once without a model: bad rows are logged, the others counted."""
        columns = dict(settings.columns or {"text": "text", "label": "label"})
        documents = read_documents([path], columns, strict=settings.strict)
        return Examples((path, columns), describe(path, len(documents), columns))

    def outcome(self, model: object, examples: Examples[NoteFile], settings: Settings) -> Outcome:
        """Read the file as the model was trained, and judge every rule."""
        if not isinstance(model, NoteClassifier):
            raise OptionError(
                f"the model is a {type(model).__name__}; the task notes judges a classifier of "
                'notes. Train one with objective = "classify".'
            )
        data: Mapping[str, Any] = model.manifest.training.get("recipe", {}).get("data", {})
        positive = tuple(data.get("positive", ()))
        choice = LabelChoice(positive=positive) if positive else LabelChoice(labels=model.labels)
        path, columns = examples.rows
        decide = str(data.get("decide", "note"))
        documents = read_documents([path], columns, choice=choice, decide=decide)
        own, others = by_rules(model, documents)
        return replace(own, others=tuple(others))


def by_rules(
    model: NoteClassifier, documents: Sequence[NoteDocument], *, pool: DecisionPool | None = None
) -> tuple[Outcome, list[tuple[str, Outcome]]]:
    """Judge the model's own rule, and every other rule on the same windows, by name."""
    scored = model.score([one.notes for one in documents])
    chosen = pool or model.pool
    weights = attention_weights(chosen, scored)

    def outcome(rule: Rule) -> Outcome:
        found = probabilities(scored, rule, temperature=chosen.temperature, weights=weights)
        return judge(found, documents, model.labels)

    names = [name for name in RULES if name != chosen.rule.name]
    if weights is None:
        names = [name for name in names if name != "attention"]
    others = [(_TITLES[name], outcome(Rule(name, chosen.rule.c))) for name in names]
    return outcome(chosen.rule), others


def attention_weights(
    pool: DecisionPool, scored: Sequence[ScoredWindows]
) -> list[NDArray[np.float64]] | None:
    """Each document's shares of attention; None where the model has none."""
    if pool.direction is None or any(one.states is None for one in scored):
        return None
    return [attend(one.states, pool.direction) for one in scored]


def probabilities(
    scored: Sequence[ScoredWindows],
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
    found: NDArray[np.float64], documents: Sequence[NoteDocument], labels: Sequence[str]
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
            "all notes have the same label; expected two labels at least. Name another column "
            "with --columns text=…,label=…"
        )
    order: dict[str, int] = {}
    units = np.array([order.setdefault(one.patient, len(order)) for one in documents])
    guess = found.argmax(axis=1)
    measures: dict[str, Measure]
    if len(labels) == 2:
        event, chance = gold == 1, found[:, 1]
        measures = {
            "auroc": auroc(chance, event),
            "auprc": average_precision(chance, event),
            f"recall_at_{PRECISION:g}": recall_at_precision(chance, event, PRECISION),
            "accuracy": mean(guess == gold),
        }
        bins = reliability(chance, event)
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
