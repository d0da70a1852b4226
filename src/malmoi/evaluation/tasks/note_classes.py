"""Notes: are decisions over long documents right, and which rule over windows makes them so?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, OptionError
from ...heads.classifier import Classifier, DecisionPool, ScoredWindows
from ...heads.decision import RULES, Bin, Rule, combine, expected_error, reliability, soften
from ...heads.notes import (
    MULTI,
    REGRESSION,
    SEPARATOR,
    SINGLE,
    LabelChoice,
    NoteDocument,
    read_documents,
    targets_of,
)
from ...types import Doubles
from ..examples import Examples, Roles, describe
from ..measures import (
    Measure,
    auroc,
    average_precision,
    known_mean,
    macro_f1,
    mean,
    number_groups,
    r_squared,
    recall_at_precision,
    root_mean_square,
    set_f1,
    spearman,
    value,
)
from . import Outcome, Settings

PRECISION = 0.8
_TITLES = {
    "joint": "joint over windows",
    "max": "max over windows",
    "mean": "mean over windows",
    "first": "first window only",  # truncation
}


# A file of notes and its columns: it is read as each model was trained, with its labels.
NoteFile = tuple[Path, Roles]


def load_notes(path: Path, settings: Settings) -> Examples[NoteFile]:
    """Read a file once without a model: bad rows are logged, the others counted."""
    columns = dict(settings.columns or {"text": "text", "label": "label"})
    # Whether a note may have no label, the model says later.
    documents = read_documents([path], columns, strict=settings.strict, problem=MULTI)
    return Examples((path, columns), describe(path, len(documents), columns))


def judge_notes(model: object, rows: NoteFile, settings: Settings) -> Outcome:
    """Judge a classifier of notes by its own rule over windows, and by every other rule.

    Labels are joined and notes gathered as they were when the model was trained; rows with a
    label that it was not trained for are left out.
    """
    if not isinstance(model, Classifier):
        raise OptionError(
            f"the model is a {type(model).__name__}; the task notes judges a classifier of "
            'notes. Train one with objective = "note-classification".'
        )
    data: Mapping[str, Any] = model.manifest.training.get("recipe", {}).get("data", {})
    positive = tuple(data.get("positive", ()))
    choice = LabelChoice(positive=positive) if positive else LabelChoice(labels=model.labels)
    path, columns = rows
    documents = read_documents(
        [path],
        columns,
        choice=LabelChoice() if model.problem == REGRESSION else choice,
        decide=str(data.get("decide", "note")),
        problem=model.problem,
        separator=str(data.get("separator", SEPARATOR)),
        strict=settings.strict,
    )
    own, others = by_rules(model, documents)
    return replace(own, others=tuple(others))


def by_rules(
    model: Classifier, documents: Sequence[NoteDocument], *, pool: DecisionPool | None = None
) -> tuple[Outcome, list[tuple[str, Outcome]]]:
    """Judge the model's own rule, and every other rule on the same windows, by name."""
    scored = model.score([one.notes for one in documents])
    chosen, problem = pool or model.pool, model.problem

    def outcome(rule: Rule) -> Outcome:
        found = probabilities(scored, rule, problem=problem, temperature=chosen.temperature)
        return judge(found, documents, model.labels, problem, threshold=chosen.threshold)

    names = [name for name in RULES if name != chosen.rule.name]
    others = [(_TITLES[name], outcome(Rule(name, chosen.rule.c))) for name in names]
    return outcome(chosen.rule), others


def probabilities(
    scored: Sequence[ScoredWindows],
    rule: Rule,
    *,
    problem: str = SINGLE,
    temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Decide of every document by a rule; (documents, labels), or the number (documents, 1)."""
    exclusive = problem == SINGLE
    rows = np.stack([combine(one.shares, rule, exclusive=exclusive) for one in scored])
    return rows if problem == REGRESSION else soften(rows, temperature, exclusive=exclusive)


def judge(
    found: NDArray[np.float64],
    documents: Sequence[NoteDocument],
    labels: Sequence[str],
    problem: str = SINGLE,
    *,
    threshold: float = 0.5,
) -> Outcome:
    """Measure decisions (documents, labels) against the documents' labels.

    Two labels: the second is the event, and the area under the ROC curve is the main measure,
    with that under precision and recall, and the recall where precision is 0.8. More labels:
    accuracy, macro F1, and the mean area of one label against the rest. Several labels at once:
    the mean area, and F1 over all and by label. A number: the share of its variance that is
    explained, the mean and the root mean square error, and Spearman. Patients are drawn whole.
    """
    gold = targets_of(documents, labels, problem)
    if not len(gold) or (gold == gold[0]).all():
        raise DataError(
            "all notes have the same label; expected two labels at least. Name another column "
            "with --columns text=…,label=…"
        )
    units = number_groups(one.patient for one in documents)
    if problem == REGRESSION:
        return _judge_number(found[:, 0], gold, units)
    if problem == MULTI:
        return _judge_sets(found, gold, labels, units, threshold)
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
    return Outcome(measures, units, next(iter(measures)), _calibration(bins))


def _calibration(bins: list[Bin]) -> dict[str, Any]:
    return {
        "expected_calibration_error": round(expected_error(bins), 4),
        "reliability": [{"said": b.said, "was": b.was, "count": b.count} for b in bins],
    }


def _judge_number(found: Doubles, gold: NDArray[Any], units: NDArray[Any]) -> Outcome:
    measures = {
        "r2": r_squared(found, gold),
        "mae": mean(np.abs(found - gold)),
        "rmse": root_mean_square(found - gold),
        "spearman": spearman(found, gold),
    }
    # What is to be beaten: the same number for everyone.
    always = np.abs(np.median(gold) - gold).mean()
    details = {"mae_of_the_median": round(float(always), 4)}
    return Outcome(measures, units=units, main="r2", details=details)


def _judge_sets(
    found: Doubles,
    gold: NDArray[Any],
    labels: Sequence[str],
    units: NDArray[Any],
    threshold: float,
) -> Outcome:
    areas = {
        label: auroc(found[:, i], gold[:, i])
        for i, label in enumerate(labels)
        if 0 < gold[:, i].sum() < len(gold)
    }
    guess = found >= threshold
    measures: dict[str, Measure] = {
        "auroc": lambda weights: known_mean([area(weights) for area in areas.values()]),
        "micro_f1": set_f1(guess, gold),
        "macro_f1": set_f1(guess, gold, macro=True),
    }
    details = {
        "auroc": {label: round(value(area, len(gold)), 4) for label, area in areas.items()},
        "documents": {label: int(gold[:, i].sum()) for i, label in enumerate(labels)},
        "threshold": threshold,
        **_calibration(reliability(found.ravel(), gold.ravel())),
    }
    return Outcome(measures, units=units, main="auroc", details=details)
