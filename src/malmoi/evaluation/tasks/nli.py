"""Labels: nli (does one text follow from another?) and transfer (any labelled file).

An encoder is asked through a probe, as in SentEval: a logistic regression on its frozen vectors,
cross-validated or fitted on a file of its own. For nli a reranker with labels answers itself.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, OptionError, by_number, counted, require
from ...types import Floats
from ..examples import PAIRS, Examples, Form, Roles, label, text
from ..measures import macro_f1, mean, number_groups
from ..models import Judges, name_of, vectors_of
from . import Forms, Outcome, Settings, Task

Labels = NDArray[np.str_]
Rows = Sequence["Labelled"]

# How strongly the probe may lean on single dimensions; the best is chosen on a part of the
# training rows that it has not seen.
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
_MOST_STEPS = 1000
_NEAR_ENOUGH = 1e-3  # the probe's answers stop changing long before its weights do
_HELD_OUT = 0.2
_LABELS = ("label", "class", "category", "specialty", "intent", "sentiment", "topic", "same")
_TEXTS = (("text",), ("sentence",), ("document",), ("question",), ("ko",), ("name",))


@dataclass(frozen=True, slots=True)
class Labelled:
    """One text or two, and a label."""

    texts: tuple[str, ...]
    label: str


def _parse(values: Roles) -> Labelled:
    texts = tuple(text(values, role) for role in values if role != "label")
    return Labelled(texts, label(values, "label"))


class Transfer(Task[Rows]):
    """What a simple classifier can read from an encoder's vectors, for any labelled file."""

    name = "transfer"
    fitted = True
    forms: ClassVar[Forms] = (
        (Form(("a", "b"), PAIRS, {"label": _LABELS}), _parse),
        (Form(("text",), _TEXTS, {"label": _LABELS}, sided=False), _parse),
    )

    def outcome(self, model: object, examples: Examples[Rows], settings: Settings) -> Outcome:
        """Probe an encoder: cross-validated, or fitted on training rows and tried on the others."""
        rows, train = examples.rows, examples.train
        features, gold, seed = features_of(model, rows), labels_of(rows), settings.seed
        if train is None:
            groups = groups_of(rows)
            predicted, strengths = cross_validate(features, gold, groups, settings.folds, seed)
        else:
            known = labels_of(train)
            _usable_folds(known, 2)
            probe, strength = _fit(features_of(model, train), known, seed)
            predicted, strengths = probe.predict(features), [strength]
        notes = _overlap(rows, train or ())
        return outcome_of(predicted, rows, {"strengths": strengths}, notes=notes)


class Inference(Transfer):
    """Natural language inference: does one text follow from another, contradict it, or neither?"""

    name = "nli"
    forms = ((Form(("a", "b"), PAIRS, {"label": ("label", "goldlabel", "gold")}), _parse),)

    def outcome(self, model: object, examples: Examples[Rows], settings: Settings) -> Outcome:
        """Measure a reranker's own labels, or an encoder through a probe."""
        if not isinstance(model, Judges):
            return super().outcome(model, examples, settings)
        rows = examples.rows
        names = np.array(check_labels(model.labels, rows, name=name_of(model)), dtype=np.str_)
        found = model.probabilities([(row.texts[0], row.texts[1]) for row in rows])
        predicted: Labels = names[np.asarray(found).argmax(axis=1)]
        return outcome_of(predicted, rows, {"confusion": _confusion(labels_of(rows), predicted)})

    def check_training(self, rows: Rows, labels: Sequence[str] | None) -> None:
        """Check that a probe can be fitted, or that the reranker knows every label."""
        if labels is not None:
            check_labels(labels, rows, name="the reranker")
            return
        _usable_folds(labels_of(rows), 2)
        _import("sklearn")

    def text_pairs(self, rows: Rows) -> list[tuple[str, str]]:
        return [(row.texts[0], row.texts[1]) for row in rows]


def check_labels(known: Sequence[str], rows: Rows, *, name: str) -> list[str]:
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


def _confusion(gold: Labels, predicted: Labels) -> dict[str, dict[str, int]]:
    """How often each label was taken for each other."""
    names = np.union1d(gold, predicted)
    return {
        str(true): {str(one): int(((gold == true) & (predicted == one)).sum()) for one in names}
        for true in names
    }


def _overlap(rows: Rows, train: Rows) -> tuple[str, ...]:
    """Say how many rows the probe has seen before, if any."""
    known = {row.texts for row in train}
    seen = sum(row.texts in known for row in rows)
    if not seen:
        return ()
    return (
        f"{seen:,} of {counted(len(rows), 'row')} {by_number(seen, 'is', 'are')} in the training "
        "file too, so the values are too high",
    )


def features_of(encoder: object, rows: Rows) -> Floats:
    """What a probe sees: a text's vector (n, dim), or u, v, |u − v| and u·v of two (n, 4 dim)."""
    sides = [vectors_of(encoder, [row.texts[i] for row in rows]) for i in range(len(rows[0].texts))]
    if len(sides) == 1:
        return sides[0]
    left, right = sides
    return np.concatenate([left, right, np.abs(left - right), left * right], axis=1)


def labels_of(rows: Rows) -> Labels:
    """Every row's label, (n,)."""
    return np.array([row.label for row in rows], dtype=np.str_)


def groups_of(rows: Rows) -> NDArray[np.intp]:
    """Which rows share their first text, (n,): a premise with three hypotheses is one group."""
    return number_groups(row.texts[0] for row in rows)


def outcome_of(
    predicted: Labels, rows: Rows, details: dict[str, Any], *, notes: tuple[str, ...] = ()
) -> Outcome:
    """Accuracy and macro F1 of predicted labels."""
    gold = labels_of(rows)
    names, counts = np.unique(gold, return_counts=True)
    shares = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    measures = {"accuracy": mean(predicted == gold), "macro_f1": macro_f1(predicted, gold)}
    return Outcome(measures, groups_of(rows), "accuracy", {**details, "labels": shares}, notes)


def cross_validate(
    features: Floats, labels: Labels, groups: NDArray[np.intp], folds: int, seed: int
) -> tuple[Labels, list[float]]:
    """Predict every row by a probe fitted on the other folds; groups (n,) stay in one fold.

    Gives the labels (n,), and the strength that was chosen in each fold.
    """
    selection = _import("sklearn.model_selection")
    folds = min(_usable_folds(labels, folds), int(groups.max()) + 1)
    if folds < 2:
        raise DataError(
            f"{_all(labels)} the same first text; expected different ones. Name the columns of "
            "the texts with --columns."
        )
    parts = selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    predicted = labels.copy()
    strengths = []
    for fitted, held in parts.split(features, labels, groups):
        probe, strength = _fit(features[fitted], labels[fitted], seed)
        predicted[held] = probe.predict(features[held])
        strengths.append(strength)
    return predicted, strengths


def _all(labels: Labels) -> str:
    count = len(labels)
    return "the only row has" if count == 1 else f"all {count:,} rows have"


def _usable_folds(labels: Labels, folds: int) -> int:
    if folds < 2:
        raise OptionError(f"folds is {folds}; expected 2 or more. 10 is usual.")
    counts = Counter(labels.tolist())
    if len(counts) < 2:
        raise DataError(
            f"{_all(labels)} one label; expected two labels or more. Name another column with "
            "--columns label=…"
        )
    rarest = min(counts.values())
    if rarest < 2:
        single = sum(count == 1 for count in counts.values())
        raise DataError(
            f"{single:,} of {len(counts):,} labels {by_number(single, 'is', 'are')} in one "
            "row only; expected each in two or more, to learn from one and try on the other. "
            "Leave rare labels out of the file."
        )
    return min(folds, rarest)


def _fit(features: Floats, labels: Labels, seed: int) -> tuple[Any, float]:
    """Choose a strength on held-out rows, then fit on all."""
    if len(np.unique(labels)) == 1:  # a fold can lose every group of the other label
        return _import("sklearn.dummy").DummyClassifier().fit(features, labels), 0.0
    # On so few rows the threads of a BLAS wait for each other longer than they work: two were ten
    # times slower than one on a busy machine.
    with _import("threadpoolctl").threadpool_limits(1):
        strength = _best_strength(features, labels, seed)
        return _probe(strength).fit(features, labels), strength


def _best_strength(features: Floats, labels: Labels, seed: int) -> float:
    counts = Counter(labels.tolist())
    if min(counts.values()) < 2 or len(labels) * _HELD_OUT < len(counts):
        return 1.0  # too few rows to hold any of each label out
    split = _import("sklearn.model_selection").train_test_split
    rows, held = split(
        np.arange(len(labels)), test_size=_HELD_OUT, stratify=labels, random_state=seed
    )
    right = [
        _probe(strength).fit(features[rows], labels[rows]).score(features[held], labels[held])
        for strength in STRENGTHS
    ]
    return STRENGTHS[int(np.argmax(right))]


def _probe(strength: float) -> Any:
    # SentEval does not standardise; here it lets one range of strengths suit vectors of unit
    # length and raw ones alike.
    linear = _import("sklearn.linear_model").LogisticRegression(
        C=strength, max_iter=_MOST_STEPS, tol=_NEAR_ENOUGH
    )
    scale = _import("sklearn.preprocessing").StandardScaler()
    return _import("sklearn.pipeline").make_pipeline(scale, linear)


def _import(module: str) -> Any:
    return require(module, extra="evaluate", purpose="a probe on vectors")
