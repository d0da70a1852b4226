"""A recipe with `objective = "classify"`: frozen dataclasses, checked on reading, without torch."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from ...errors import OptionError
from ...notes.decision import RULES
from ...notes.documents import DECIDE, PARTS
from ..checks import check_clean, check_run
from ..recipe import DECAYS, PRECISIONS, Output, Schedule
from ..settings import read_table

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
