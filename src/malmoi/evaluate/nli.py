"""Natural language inference: does one text follow from another, contradict it, or neither?

A reranker with labels says so itself; an encoder is asked through a probe on (u, v, |u − v|, u·v).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError, OptionError
from .examples import PAIRS, Examples, Form, Roles, read_examples
from .models import Judges, name_of
from .probes import FOLDS, Labels
from .report import Outcome
from .transfer import Labelled, _parse, labels_of, outcome_of
from .transfer import measure as probe

FORM = Form(("a", "b"), PAIRS, {"label": ("label", "goldlabel", "gold")})


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
) -> Examples[Labelled]:
    """Read pairs with a label; see `read_examples` for the options."""
    return read_examples(path, [(FORM, _parse)], columns=columns, sides=sides, strict=strict)


def measure(
    model: object,
    rows: Sequence[Labelled],
    *,
    train: Sequence[Labelled] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> Outcome:
    """Measure a reranker's own labels, or an encoder through a probe."""
    if not isinstance(model, Judges):
        return probe(model, rows, train=train, folds=folds, seed=seed)
    gold = labels_of(rows)
    predicted = judge(model, rows)
    return outcome_of(predicted, rows, details={"confusion": _confusion(gold, predicted)})


def check_labels(known: Sequence[str], rows: Sequence[Labelled], *, name: str) -> list[str]:
    """Give a reranker's labels in the data's own spelling; raises where it does not know one."""
    if not known:
        raise OptionError(
            f"{name} gives one score and no labels; expected a reranker that was trained on "
            "labels, or an encoder. Name another model."
        )
    spelled = {row.label.casefold(): row.label for row in rows}
    names = [spelled.get(label.casefold(), label) for label in known]
    strange = sorted(set(spelled.values()) - set(names))
    if strange:
        raise DataError(
            f"the data has labels that {name} does not know ({len(strange)} of {len(spelled)}); "
            f"it knows {', '.join(names)}. Rename the labels in the file."
        )
    return names


def judge(model: Judges, rows: Sequence[Labelled]) -> Labels:
    """The likeliest label of each pair, in the data's own spelling."""
    names = check_labels(model.labels, rows, name=name_of(model))
    found = model.probabilities([(row.texts[0], row.texts[1]) for row in rows])
    likeliest: Labels = np.array(names, dtype=np.str_)[np.asarray(found).argmax(axis=1)]
    return likeliest


def _confusion(gold: Labels, predicted: Labels) -> dict[str, dict[str, int]]:
    """How often each label was taken for each other."""
    names = np.union1d(gold, predicted)
    return {
        str(true): {str(said): int(((gold == true) & (predicted == said)).sum()) for said in names}
        for true in names
    }
