"""A recipe with `objective = "classify"`: frozen dataclasses, checked on reading, without torch.

The notes of a recipe → train, dev and test, patients whole, leakage told.
"""

import dataclasses
import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...classifier.decision import RULES
from ...classifier.documents import (
    DECIDE,
    PARTS,
    LabelChoice,
    NoteDocument,
    leakage,
    part_of,
    read_documents,
    say_leaked,
)
from ...errors import DataError, OptionError, counted
from ..data import check_file, hash_files
from ..recipe import DECAYS, PRECISIONS, Output, Schedule, check_classes, check_clean, check_run
from ..toml_table import read_table

logger = logging.getLogger(__name__)

_COLUMNS = ("text", "label", "patient")


@dataclass(frozen=True)
class NoteData:
    """Where the notes are.

    Either `files`, divided by patient into `shares` of dev and test, or files of their own for
    `train`, `dev` and `test`. `positive`, `labels` and `largest` choose among the labels (see
    `malmoi.notes.documents.Choice`). `decide` is by "note" or by "patient".
    """

    columns: dict[str, str]
    files: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    largest: int = 0
    decide: str = "note"
    limit: int = 0


@dataclass(frozen=True)
class Classification:
    """A whole run: windows of `max_tokens` learn their document's label, dev chooses the rest.

    `balance` weighs labels by how rare they are. `rule` decides over windows; "joint" has its `c`
    chosen on dev. `windows` is the most windows of one document that an epoch sees; 0 means all.
    """

    name: str
    base: str
    data: NoteData
    output: Output
    objective: str = "classify"
    max_tokens: int | None = None
    clean: tuple[str, ...] | None = None
    layers: int = 0
    dropout: float = 0.1
    balance: bool = True
    rule: str = "joint"
    windows: int = 0
    seed: int = 1
    schedule: Schedule = field(default_factory=Schedule)

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return dataclasses.asdict(self)


def make_classification(table: dict[str, Any], *, where: str = "the recipe") -> Classification:
    """Make the recipe from parsed TOML, and check it."""
    recipe = read_table(Classification, table, where=where)
    _one_of(recipe.rule, RULES, "rule", where)
    _one_of(recipe.schedule.decay, DECAYS, "schedule.decay", where)
    _one_of(recipe.data.decide, DECIDE, "data.decide", where)
    for precision in recipe.output.precision:
        _one_of(precision, PRECISIONS, "output.precision", where)
    check_clean(recipe.clean, where=where)
    check_run(recipe.schedule, recipe.output, seed=recipe.seed, where=where)
    _check_files(recipe.data, where)
    _check_columns(recipe.data, where)
    if not 0 <= recipe.dropout < 1:
        raise OptionError(f"{where}: dropout is {recipe.dropout}; expected 0 to less than 1.")
    if min(recipe.windows, recipe.layers, recipe.data.limit, recipe.data.largest) < 0:
        raise OptionError(
            f"{where}: windows, layers, limit or largest is below 0; expected 0 or more."
        )
    return recipe


def _check_files(data: NoteData, where: str) -> None:
    if bool(data.files) == bool(data.train):
        raise OptionError(
            f"{where}: data has {'both files and train' if data.files else 'no files'}; expected "
            "files to be divided by patient, or train, dev and test. Name one of them."
        )
    if data.train and not data.dev:
        raise OptionError(f"{where}: data.dev is missing; expected notes to choose by. Add it.")
    for part, share in data.shares.items():
        _one_of(part, PARTS[1:], "data.shares", where)
        if not 0 < share < 1:
            raise OptionError(f"{where}: data.shares.{part} is {share}; expected 0 to 1.")
    if data.files and not sum(data.shares.values()) < 1:
        raise OptionError(f"{where}: data.shares leave nothing to train on; expected less than 1.")


def _check_columns(data: NoteData, where: str) -> None:
    for name in ("text", "label"):
        if name not in data.columns:
            raise OptionError(f"{where}: data.columns has no {name}; expected it. Add it.")
    for name in data.columns:
        _one_of(name, _COLUMNS, "data.columns", where)


def _one_of(value: str, known: tuple[str, ...], key: str, where: str) -> None:
    if value not in known:
        raise OptionError(f'{where}: {key} is "{value}"; known are {", ".join(known)}. Choose one.')


SHARES = {"dev": 0.15, "test": 0.15}


@dataclass(frozen=True)
class Notes:
    """Documents by part, the model's labels, and what was found on the way."""

    parts: dict[str, list[NoteDocument]]
    labels: tuple[str, ...]
    hashes: dict[str, str]
    leaked: dict[str, int]


def read_notes(recipe: Classification, root: Path, *, strict: bool) -> Notes:
    """Read every note that a recipe names; bad data are told before torch is imported."""
    data = recipe.data
    hashes = hash_files({name: check_file(root / name, name, root) for name in _names(data)})
    if data.files:
        everything = _read(data, data.files, root, (), strict)
        labels = _labels(data, everything)
        parts = _divide(everything, data, recipe.seed)
    else:
        train = _read(data, data.train, root, (), strict)
        labels = _labels(data, train)
        parts = {"train": train, "dev": _read(data, data.dev, root, labels, strict)}
        parts["test"] = _read(data, data.test, root, labels, strict) if data.test else []
    _check(parts, labels)
    leaked = leakage(parts)
    for what, count in leaked.items():
        logger.info(f"leakage: {say_leaked(what, count)}")
    return Notes(parts, labels, hashes, leaked)


def _names(data: NoteData) -> tuple[str, ...]:
    return (*data.files, *data.train, *data.dev, *data.test)


def _read(
    data: NoteData, files: tuple[str, ...], root: Path, labels: tuple[str, ...], strict: bool
) -> list[NoteDocument]:
    # A model's labels are settled by its training notes; the others' rows are kept by them.
    choice = LabelChoice(data.positive, data.labels, data.largest)
    if labels and data.largest:
        choice = LabelChoice(labels=labels)
    found = read_documents(
        [root / file for file in files],
        data.columns,
        choice=choice,
        labels=labels,
        decide=data.decide,
        root=root,
        strict=strict,
    )
    return found[: data.limit] if data.limit else found


def _labels(data: NoteData, documents: list[NoteDocument]) -> tuple[str, ...]:
    choice = LabelChoice(data.positive, data.labels, data.largest)
    labels = choice.names([one.label for one in documents])
    found = {one.label for one in documents}
    if len(found) < 2:
        raise DataError(
            "all notes have the same label; expected two labels or more, for there is nothing to "
            "tell apart. Check the label column."
        )
    check_classes(labels, len(documents), where=", ".join(data.files or data.train))
    return labels


def _divide(
    documents: list[NoteDocument], data: NoteData, seed: int
) -> dict[str, list[NoteDocument]]:
    shares = data.shares or SHARES
    parts: dict[str, list[NoteDocument]] = {part: [] for part in PARTS}
    for one in documents:
        place = part_of(
            one.patient, dev=shares.get("dev", 0.0), test=shares.get("test", 0.0), seed=seed
        )
        parts[place].append(one)
    return parts


def _check(parts: dict[str, list[NoteDocument]], labels: tuple[str, ...]) -> None:
    for part in ("train", "dev", *(("test",) if parts["test"] else ())):
        if len({one.label for one in parts[part]}) < 2:
            raise DataError(
                f"the {part} part has {counted(len(parts[part]), 'document')} of one label or "
                "none; expected two labels at least. Add notes, or change data.shares or the seed."
            )
    for part, documents in parts.items():
        counts = Counter(one.label for one in documents)
        shown = ", ".join(f"{label} {counts[label]:,}" for label in labels)
        logger.info(f"{part}: {counted(len(documents), 'document')} ({shown})")
