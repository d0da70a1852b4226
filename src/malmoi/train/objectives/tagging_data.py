"""A recipe with `objective = "tag"`: frozen dataclasses, checked on reading, without torch.

The files of a recipe → sentences for training, choosing and judging, and what they hold.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError, OptionError, by_number, counted
from ...tagger.files import SCHEMES, Marked, read_marked
from ...tagger.segment import UNITS
from ..data import check_file, hash_files
from ..recipe import DECAYS, PRECISIONS, Output, Schedule, Stage, check_clean, check_run
from ..toml_table import read_table

logger = logging.getLogger(__name__)

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


@dataclass(frozen=True)
class TaggingData:
    """Sentences by part, the types to be learnt, and the hashes of the files."""

    parts: dict[str, list[Marked]]
    types: tuple[str, ...]
    hashes: dict[str, str]
    repeated: int  # sentences of dev and test that are trained on too


def read_tagging_data(recipe: Tagging, root: Path, *, strict: bool) -> TaggingData:
    """Read everything a recipe names; bad data are told before torch is imported."""
    data = recipe.data
    names = (*data.train, *data.dev, *data.test, *data.files)
    hashes = hash_files({name: check_file(root / name, name, root) for name in names})
    if data.files:
        parts = _divide(_read(data, data.files, root, strict), data, recipe.seed)
    else:
        parts = {
            part: _read(data, getattr(data, part), root, strict)
            for part in ("train", "dev", "test")
        }
    counts = {part: _types(found) for part, found in parts.items()}
    for part, found in parts.items():
        shown = ", ".join(f"{name} {count:,}" for name, count in sorted(counts[part].items()))
        logger.info(f"{part}: {counted(len(found), 'text')} ({shown or 'no entities'})")
    if not counts["train"]:
        kept = f" of the types {', '.join(data.types)}" if data.types else ""
        raise DataError(
            f"the training files mark no entity{kept}; expected some, as lines of a token, a tab "
            "and a label. Check the files."
        )
    for part in ("dev", "test"):
        for name in sorted(set(counts[part]) - set(counts["train"])):
            logger.info(
                f"{part} has {counts[part][name]:,} of the type {name}, which train has not"
            )
    repeated = _repeated(parts)
    return TaggingData(parts, tuple(sorted(counts["train"])), hashes, repeated)


def _read(data: TagData, files: Sequence[str], root: Path, strict: bool) -> list[Marked]:
    found = [
        marked
        for file in files
        for marked in read_marked(root / file, scheme=data.scheme, strict=strict)
    ]
    if data.types:
        found = [
            Marked(one.text, tuple(span for span in one.spans if span.type in data.types))
            for one in found
        ]
    return found[: data.limit] if data.limit else found


def _divide(found: list[Marked], data: TagData, seed: int) -> dict[str, list[Marked]]:
    order = np.random.default_rng(seed).permutation(len(found))
    parts, start = {}, 0
    for part in ("dev", "test"):
        count = round(data.shares.get(part, 0.0) * len(found))
        parts[part] = [found[i] for i in sorted(order[start : start + count])]
        start += count
    return {"train": [found[i] for i in sorted(order[start:])], **parts}


def _types(found: Sequence[Marked]) -> Counter[str]:
    return Counter(span.type for marked in found for span in marked.spans)


def _repeated(parts: dict[str, list[Marked]]) -> int:
    known = {marked.text for marked in parts["train"]}
    total = 0
    for part in ("dev", "test"):
        count = sum(marked.text in known for marked in parts[part])
        total += count
        if count:
            texts, are = counted(len(parts[part]), "text"), by_number(count, "is", "are")
            logger.info(f"{count:,} of the {texts} of {part} {are} trained on too")
    return total
