"""Transfer: what a simple classifier can read from frozen vectors, for any labelled file."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import by_number, counted
from ..types import Floats
from .examples import PAIRS, Examples, Form, Roles, label, read_examples, text
from .measures import macro_f1, mean
from .models import vectors_of
from .probes import FOLDS, Labels, cross_validate, pair_features, train_test
from .report import Outcome

_LABELS = ("label", "class", "category", "specialty", "intent", "sentiment", "topic", "same")
TEXTS = Form(
    ("text",),
    (("text",), ("sentence",), ("document",), ("question",), ("ko",), ("name",)),
    {"label": _LABELS},
    sided=False,
)
TEXT_PAIRS = Form(("a", "b"), PAIRS, {"label": _LABELS})


@dataclass(frozen=True, slots=True)
class Labelled:
    """One text or two, and a label."""

    texts: tuple[str, ...]
    label: str


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
) -> Examples[Labelled]:
    """Read labelled texts or pairs; see `read_examples` for the options."""
    return read_examples(
        path, [(TEXT_PAIRS, _parse), (TEXTS, _parse)], columns=columns, sides=sides, strict=strict
    )


def _parse(values: Roles) -> Labelled:
    texts = tuple(text(values, role) for role in values if role != "label")
    return Labelled(texts, label(values, "label"))


def measure(
    encoder: object,
    rows: Sequence[Labelled],
    *,
    train: Sequence[Labelled] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> Outcome:
    """Probe an encoder's vectors: cross-validated, or fitted on `train` and tried on `rows`."""
    gold = labels_of(rows)
    features = features_of(encoder, rows)
    if train is None:
        probed = cross_validate(features, gold, groups_of(rows), folds=folds, seed=seed)
    else:
        probed = train_test(features_of(encoder, train), labels_of(train), features, seed=seed)
    details = {"strengths": list(probed.strengths)}
    outcome = outcome_of(probed.predicted, rows, details=details)
    return dataclasses.replace(outcome, notes=_overlap(rows, train or ()))


def _overlap(rows: Sequence[Labelled], train: Sequence[Labelled]) -> tuple[str, ...]:
    """Say how many rows the probe has seen before, if any."""
    known = {row.texts for row in train}
    seen = sum(row.texts in known for row in rows)
    if not seen:
        return ()
    return (
        f"{seen:,} of {counted(len(rows), 'row')} {by_number(seen, 'stands', 'stand')} in the "
        "training file too; the values flatter",
    )


def features_of(encoder: object, rows: Sequence[Labelled]) -> Floats:
    """The vectors a probe sees: one text's own, or those of a pair joined."""
    sides = [vectors_of(encoder, [row.texts[i] for row in rows]) for i in range(len(rows[0].texts))]
    return sides[0] if len(sides) == 1 else pair_features(sides[0], sides[1])


def labels_of(rows: Sequence[Labelled]) -> Labels:
    """Every row's label, (n,)."""
    return np.array([row.label for row in rows], dtype=np.str_)


def groups_of(rows: Sequence[Labelled]) -> NDArray[np.intp]:
    """Which rows share their first text, (n,): a premise with three hypotheses is one group."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(row.texts[0], len(seen)) for row in rows], dtype=np.intp)


def outcome_of(predicted: Labels, rows: Sequence[Labelled], *, details: dict[str, Any]) -> Outcome:
    """Accuracy and macro F1 of predicted labels."""
    gold = labels_of(rows)
    return Outcome(
        {"accuracy": mean(predicted == gold), "macro_f1": macro_f1(predicted, gold)},
        units=groups_of(rows),
        main="accuracy",
        details={**details, "labels": _shares(gold)},
    )


def _shares(gold: Labels) -> dict[str, int]:
    names, counts = np.unique(gold, return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}
