"""A recipe with `objective = "tag"`: frozen dataclasses, checked on reading, without torch."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from ...errors import OptionError
from ...tagger.pieces import UNITS
from ...tagger.schemes import SCHEMES
from ..checks import check_clean, check_run
from ..recipe import DECAYS, PRECISIONS, Output, Schedule
from ..settings import read_table
from ..stages import Stage

PARTS = ("dev", "test")


@dataclass(frozen=True)
class TagData:
    """Where the marked entities are.

    Files of their own for `train`, `dev` and `test`, or `files`, whose sentences are divided
    into `shares` of dev and test by the seed. `scheme` is iob1, iob2, bioes or auto; `types`
    keeps these entities only.
    """

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    shares: dict[str, float] = field(default_factory=lambda: {"dev": 0.1, "test": 0.2})
    scheme: str = "auto"
    types: tuple[str, ...] = ()
    limit: int = 0


@dataclass(frozen=True)
class Tagging(Stage):
    """A whole run.

    `unit` is what gets a label: a "word" by its first piece, or every "piece", for languages
    whose entities end inside a word. `balance` weighs labels by how rare they are, from 0 (not)
    to 1 (each label counts the same in all); `weights` are factors of single labels, as
    {"O": 0.5}. `head_rate` makes the head learn faster than the encoder below it.
    """

    name: str
    base: str
    data: TagData
    output: Output
    objective: str = "tag"
    max_tokens: int | None = None
    clean: tuple[str, ...] | None = None
    unit: str = "word"
    dropout: float = 0.1
    balance: float = 0.0
    weights: dict[str, float] = field(default_factory=dict)
    head_rate: float = 1.0
    seed: int = 1
    schedule: Schedule = field(default_factory=Schedule)

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return dataclasses.asdict(self)


def make(table: dict[str, Any], *, where: str = "the recipe") -> Tagging:
    """Make the recipe from parsed TOML, and check it."""
    recipe = read_table(Tagging, table, where=where)
    _one_of(recipe.unit, UNITS, "unit", where)
    _one_of(recipe.data.scheme, SCHEMES, "data.scheme", where)
    _one_of(recipe.schedule.decay, DECAYS, "schedule.decay", where)
    for precision in recipe.output.precision:
        _one_of(precision, PRECISIONS, "output.precision", where)
    check_clean(recipe.clean, where=where)
    check_run(recipe.schedule, recipe.output, seed=recipe.seed, where=where, smallest_batch=1)
    _check_files(recipe.data, where)
    for key, value, good in (
        ("dropout", recipe.dropout, 0 <= recipe.dropout < 1),
        ("balance", recipe.balance, 0 <= recipe.balance <= 1),
        ("head_rate", recipe.head_rate, recipe.head_rate > 0),
        ("data.limit", recipe.data.limit, recipe.data.limit >= 0),
    ):
        if not good:
            raise OptionError(f"{where}: {key} is {value}, out of its range. Correct it.")
    return recipe


def _check_files(data: TagData, where: str) -> None:
    if bool(data.files) == bool(data.train):
        raise OptionError(
            f"{where}: data has {'both files and train' if data.files else 'no files'}; expected "
            "train, dev and test, or files to be divided. Name one of them."
        )
    if data.train and not data.dev:
        raise OptionError(f"{where}: data.dev is missing; expected sentences to choose by. Add it.")
    for part, share in data.shares.items():
        _one_of(part, PARTS, "data.shares", where)
        if not 0 < share < 1:
            raise OptionError(f"{where}: data.shares.{part} is {share}; expected 0 to 1.")
    if data.files and not ("dev" in data.shares and sum(data.shares.values()) < 1):
        raise OptionError(f"{where}: data.shares need a dev, and leave something to train on.")


def _one_of(value: str, known: tuple[str, ...], key: str, where: str) -> None:
    if value not in known:
        raise OptionError(f'{where}: {key} is "{value}"; known are {", ".join(known)}. Choose one.')
