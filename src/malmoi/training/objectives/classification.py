"""What a classifier learns from: notes in train, dev and test, a patient in one part only."""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator as check

from ...errors import DataError, OptionError, counted
from ...heads.notes import (
    MULTI,
    PARTS,
    REGRESSION,
    SEPARATOR,
    SINGLE,
    LabelChoice,
    NoteDocument,
    leakage,
    part_of,
    read_documents,
    say_leaked,
    targets_of,
)
from ..data import check_classes, hash_named
from ..objective import Objective, PreparedData
from ..schema import (
    Count,
    DataParts,
    ModelRecipe,
    Names,
    PairSchedule,
    PartShare,
    Shares,
    key,
    needed,
)

logger = logging.getLogger(__name__)


class NoteData(DataParts):
    """[data]: notes with labels, divided by patient or given by part."""

    columns: dict[Literal["text", "label", "patient"], str] = needed(
        "text and label, maybe patient."
    )
    files: Names = key((), "Files that are divided by patient into shares.")
    shares: Shares = key({}, "The shares of dev and test in files; 0.15 each when left out.")
    positive: Names = key((), "Labels that are one class; all others are the second.")
    labels: Names = key((), "Use only these labels.")
    largest: Count = key(0, "Use only so many of the most frequent labels; 0 means all.")
    decide: Literal["note", "patient"] = key("note", "What gets one decision.")
    separator: str = key(SEPARATOR, "multi_label_classification: between the labels of a cell.")

    @check(mode="after")
    def _fits(self) -> Self:
        for name in ("text", "label"):
            if name not in self.columns:
                raise OptionError(f"columns has no {name}; expected it. Add the column.")
        return self


class Classification(ModelRecipe):
    """A classifier of long notes: windows learn their note's label, a rule decides over them."""

    data: NoteData = needed("The notes.")
    objective: Literal["note-classification"] = key(
        "note-classification", "Chooses this kind of recipe."
    )
    layers: Count = key(0, "Keep only so many layers, from the embeddings up; 0 keeps all.")
    dropout: PartShare = key(0.1, "Dropout while training.")
    problem_type: Literal[
        "single_label_classification", "multi_label_classification", "regression"
    ] = key(SINGLE, "One label a document, any number of labels, or a number.")
    balance: bool = key(True, "Weigh labels by rarity, so that all count the same.")
    rule: Literal["joint", "max", "mean", "first"] = key(
        "joint", "How windows decide; the c of joint is chosen on dev."
    )
    windows: Count = key(0, "The most windows of a document in an epoch; 0 means all.")
    schedule: PairSchedule = key(PairSchedule(), "How long and how fast.")

    @check(mode="after")
    def _fits_problem(self) -> Self:
        allowed = {MULTI: ("labels", "largest"), REGRESSION: ()}.get(self.problem_type)
        for name in ("positive", "labels", "largest"):
            if allowed is not None and name not in allowed and getattr(self.data, name):
                raise OptionError(
                    f"data.{name} is set with problem_type {self.problem_type}; expected "
                    f"{' or '.join(allowed) or 'no choice of labels'}. Remove the key."
                )
        if self.problem_type == MULTI and not self.data.separator.strip():
            raise OptionError(
                "data.separator is empty; expected what stands between labels. Set it, as in "
                f'separator = "{SEPARATOR}".'
            )
        return self


SHARES = {"dev": 0.15, "test": 0.15}


@dataclass(frozen=True)
class Notes:
    """Documents by part, the model's labels, and what was found on the way."""

    parts: dict[str, list[NoteDocument]]
    labels: tuple[str, ...]
    hashes: dict[str, str]
    leaked: dict[str, int]


def read_notes(recipe: Classification, root: Path, *, strict: bool) -> Notes:
    """Read every note that a recipe names; bad data are reported before torch is imported."""
    data = recipe.data
    hashes = hash_named(data.names, root)
    if data.files:
        everything = _read(recipe, data.files, root, (), strict)
        labels = _labels(recipe, everything)
        parts = _divide(everything, data, recipe.seed)
    else:
        train = _read(recipe, data.train, root, (), strict)
        labels = _labels(recipe, train)
        parts = {"train": train, "dev": _read(recipe, data.dev, root, labels, strict)}
        parts["test"] = _read(recipe, data.test, root, labels, strict) if data.test else []
    _check(parts, labels, recipe.problem_type)
    leaked = leakage(parts)
    for what, count in leaked.items():
        logger.info(f"leakage: {say_leaked(what, count)}")
    return Notes(parts, labels, hashes, leaked)


def _read(
    recipe: Classification,
    files: tuple[str, ...],
    root: Path,
    labels: tuple[str, ...],
    strict: bool,
) -> list[NoteDocument]:
    data = recipe.data
    # A model's labels are settled by its training notes; the others' rows are kept by them.
    choice = LabelChoice(data.positive, data.labels, data.largest)
    if labels and data.largest:
        choice = LabelChoice(labels=labels)
    found = read_documents(
        [root / file for file in files],
        {str(role): column for role, column in data.columns.items()},
        choice=choice,
        labels=labels,
        decide=data.decide,
        root=root,
        strict=strict,
        problem=recipe.problem_type,
        separator=data.separator,
    )
    return found[: data.limit] if data.limit else found


def _labels(recipe: Classification, documents: list[NoteDocument]) -> tuple[str, ...]:
    data = recipe.data
    choice = LabelChoice(data.positive, data.labels, data.largest)
    several = recipe.problem_type == MULTI
    kept = [one.labels if several else (one.label,) for one in documents]
    labels = choice.names([label for own in kept for label in own])
    if len(set(kept)) < 2:
        raise DataError(
            "all notes have the same label; expected two labels or more, because there is "
            "nothing to distinguish. Check the label column."
        )
    if recipe.problem_type == REGRESSION:
        return (data.columns["label"],)
    check_classes(labels, len(documents), where=", ".join(data.files or data.train))
    return labels


def _divide(
    documents: list[NoteDocument], data: NoteData, seed: int
) -> dict[str, list[NoteDocument]]:
    shares = data.shares or SHARES
    parts: dict[str, list[NoteDocument]] = {part: [] for part in PARTS}
    for one in documents:
        part = part_of(
            one.patient, dev=shares.get("dev", 0.0), test=shares.get("test", 0.0), seed=seed
        )
        parts[part].append(one)
    return parts


def _check(parts: dict[str, list[NoteDocument]], labels: tuple[str, ...], problem: str) -> None:
    for part in ("train", "dev", *(("test",) if parts["test"] else ())):
        if len({(one.label, one.labels) for one in parts[part]}) < 2:
            raise DataError(
                f"the {part} part has {counted(len(parts[part]), 'document')} of one label or "
                "none; expected two labels at least. Add notes, or change data.shares or the seed."
            )
    for part, documents in parts.items():
        counts = Counter(label for one in documents for label in one.labels or (one.label,))
        shown = ", ".join(f"{label} {counts[label]:,}" for label in labels)
        if problem == REGRESSION and documents:
            numbers = targets_of(documents, labels, problem)
            shown = f"{labels[0]} {numbers.min():g} to {numbers.max():g}, mean {numbers.mean():.2f}"
        logger.info(f"{part}: {counted(len(documents), 'document')} ({shown})")


class ClassifyObjective(Objective[Classification, PreparedData]):
    """Decides over long notes."""

    name = "note-classification"
    recipe = Classification
    trainer = "malmoi.training.objectives.classification_task"

    def read(self, recipe: Classification, root: Path, *, strict: bool) -> Notes:
        """Read the notes."""
        return read_notes(recipe, root, strict=strict)


OBJECTIVES = (ClassifyObjective(),)
