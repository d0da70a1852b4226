"""Recipes with tables of their own, found by their objective: each a package with two modules.

`settings.make(table, where=…)` gives the checked recipe without importing torch, `run.prepare`
reads its data and `run.run` trains.

A training run as one TOML file: frozen dataclasses with visible defaults, checked on reading.

Nothing heavy is imported here, so a slip in a recipe is told within a second.

What the recipes of all objectives must keep to: schedule, output and seed in their ranges.
"""

import dataclasses
import importlib
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bundle.manifest import POOLINGS
from ..errors import DataError, OptionError
from ..text.cleanup import SAFE, check_steps
from .objective import Objective, find_objective
from .toml_table import read_table

# Objectives with a recipe of their own: what makes it of a table. Imported by name, because each of
# them imports this module.
RECIPES = {
    "distil": "malmoi.train.distil.checks:make_distillation",
    "classify": "malmoi.train.objectives.classification_data:make_classification",
    "tag": "malmoi.train.objectives.tagging_data:make",
    "pretrain": "malmoi.train.objectives.masked_lm_data:make",
}


class Stage:
    """What the recipes of all stages have in common; each is a frozen dataclass."""

    name: str
    objective: str
    output: "Output"

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        raise NotImplementedError


KINDS = ("encoder", "reranker")
TASKS = {
    "encoder": ("sts", "pairs", "retrieval", "nli", "concepts"),
    "reranker": ("sts", "pairs", "nli"),
}
PRECISIONS = ("float32", "int8")
LAYERS = ("none", "all")
DECAYS = ("linear", "cosine", "constant")


@dataclass(frozen=True)
class Negatives:
    """Files of what is confused and is not the same: columns a and b, each a concept or a name."""

    files: tuple[str, ...]
    columns: dict[str, str]
    where: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Data:
    """Some files of one form, and what is learnt from them.

    `columns` maps the objective's names (a, b, negative, score, label) to the files' own.
    `range` is that of the scores; `labels` the classes in order; `where` keeps the rows with
    these values, `without` those that have none of these; `triplets` joins rows of one `a` by
    their label. An epoch sees each row `weight` times. For names with concepts, `hold_out` leaves
    a share of the concepts out, and `negatives` names their look-alikes.
    """

    files: tuple[str, ...]
    columns: dict[str, str]
    objective: str = ""
    range: tuple[float, float] | None = None
    labels: tuple[str, ...] = ()
    where: dict[str, str] = field(default_factory=dict)
    without: dict[str, tuple[str, ...]] = field(default_factory=dict)
    triplets: dict[str, str] = field(default_factory=dict)
    weight: float = 1.0
    limit: int = 0
    hold_out: float = 0.0
    negatives: tuple[Negatives, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A file that measures the model during training; its score chooses the best checkpoint.

    Columns that are not named are guessed from the file's header. The task concepts asks names
    among those of a `dictionary`, or among each other; `hold_out` asks only the concepts that a
    data entry with the same share has left out.
    """

    task: str
    file: str
    columns: dict[str, str] = field(default_factory=dict)
    name: str = ""
    limit: int = 0
    dictionary: str = ""
    dictionary_columns: dict[str, str] = field(default_factory=dict)
    hold_out: float = 0.0

    @property
    def title(self) -> str:
        """What its score is called."""
        return self.name or f"{self.task}:{Path(self.file).stem}"


@dataclass(frozen=True)
class Schedule:
    """How long, how fast and in what portions.

    `steps` ends the run early, or makes it longer when `epochs` is 0. A batch holds `batch_size`
    examples, or as many as `batch_tokens` allow; a process of several takes that many each.
    `warmup` is a share of the steps below 1, and a number of steps from 1 on. Inside a step,
    texts of like length run together in pieces of `piece_tokens`.
    """

    epochs: int = 1
    steps: int = 0
    batch_size: int = 32
    batch_tokens: int = 0
    piece_tokens: int = 2048
    learning_rate: float = 2e-5
    warmup: float = 0.1
    decay: str = "linear"
    weight_decay: float = 0.01
    clip: float = 1.0
    bf16: bool = False
    freeze: tuple[str, ...] = ()
    evaluate_steps: int = 0


@dataclass(frozen=True)
class Output:
    """Where the run writes, how often it is saved, and in what form the model leaves it."""

    folder: str
    precision: tuple[str, ...] = ("float32",)
    layers: str = "none"
    weights: bool = True
    licence: str = ""
    checkpoint_minutes: float = 5.0
    checkpoint_steps: int = 500
    keep: int = 2
    early_stopping: int = 0


@dataclass(frozen=True)
class Recipe:
    """A whole training run.

    `dropout` below 0 leaves the base model's own; `layers` above 0 keeps only so many of its
    layers, counted from the embeddings up. `base_share` is how much of the base's weights is
    mixed into those of an encoder whenever it is measured or saved: what it could do before is
    kept with them.
    """

    name: str
    base: str
    data: tuple[Data, ...]
    output: Output
    kind: str = "encoder"
    pooling: str | None = None
    max_tokens: int | None = None
    clean: tuple[str, ...] | None = None
    dropout: float = -1.0
    layers: int = 0
    base_share: float = 0.0
    seed: int = 1
    objective: str = ""
    matryoshka: tuple[int, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    evaluation: tuple[Evaluation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return dataclasses.asdict(self)


def load_recipe(path: str | Path, *, sets: Sequence[str] = ()) -> Any:
    """Read and check a recipe; `sets` are changes such as "schedule.epochs=2".

    One with `objective = "distil"` has other tables and is a Distillation (docs/distillation.md).
    """
    try:
        table = tomllib.loads(Path(path).read_text("utf-8-sig"))  # some editors write a mark
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Name a recipe (.toml).") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8, which TOML is. Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {error}. Mend that place.") from error
    for change in sets:
        _change(table, change)
    return recipe_from(table, where=str(path))


def recipe_from(table: dict[str, Any], *, where: str = "the recipe") -> Any:
    """Make the recipe of whatever objective a table names, and check it."""
    if maker := RECIPES.get(str(table.get("objective"))):
        module, _, name = maker.partition(":")
        return getattr(importlib.import_module(module), name)(table, where=where)
    return make_recipe(table, where=where)


def make_recipe(table: dict[str, Any], *, where: str = "the recipe") -> Recipe:
    """Make a recipe from parsed TOML or a dictionary of the same form, and check it."""
    recipe = read_table(Recipe, table, where=where)
    data = tuple(
        dataclasses.replace(entry, objective=entry.objective or recipe.objective)
        for entry in recipe.data
    )
    recipe = dataclasses.replace(recipe, data=data)
    _check(recipe, where)
    for i, entry in enumerate(recipe.data):
        _check_data(recipe, entry, f"{where}: data[{i}]")
    for i, measure in enumerate(recipe.evaluation):
        _one_of(measure.task, TASKS[recipe.kind], f"evaluation[{i}].task", where)
    return recipe


def _change(table: dict[str, Any], change: str) -> None:
    """Put one "key=value" into the table; the value is TOML, or text when it is not."""
    key, sign, value = change.partition("=")
    if not sign or not key.strip():
        raise OptionError(f'--set {change}: no "="; expected key=value, as schedule.epochs=2.')
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    *parents, last = key.strip().split(".")
    place: Any = table
    for name in parents:
        at = _place(place, name, change)
        place = place[at] if isinstance(place, list) else place.setdefault(at, {})
    place[_place(place, last, change)] = parsed


def _place(table: Any, name: str, change: str) -> Any:
    """Give the key or the number that a part of "data.0.weight" names in its table or list."""
    if isinstance(table, list):
        if not name.isdecimal():
            raise OptionError(
                f"--set {change}: {name} is no number; expected one, as data.0.weight=2."
            )
        if int(name) >= len(table):
            raise OptionError(
                f"--set {change}: there is no number {name}; expected 0 to {len(table) - 1}. "
                "Count from 0, or add the table to the recipe."
            )
        return int(name)
    if not isinstance(table, dict) or not name:
        raise OptionError(
            f'--set {change}: what stands before "{name}" is no table; expected key=value, as '
            "schedule.epochs=2."
        )
    return name


def _check(recipe: Recipe, where: str) -> None:
    _one_of(recipe.kind, KINDS, "kind", where)
    _one_of(recipe.schedule.decay, DECAYS, "schedule.decay", where)
    _one_of(recipe.output.layers, LAYERS, "output.layers", where)
    for precision in recipe.output.precision:
        _one_of(precision, PRECISIONS, "output.precision", where)
    for pooling in (recipe.pooling or "mean").split("+"):
        _one_of(pooling, POOLINGS, "pooling", where)
    check_clean(recipe.clean, where=where)
    if not recipe.data:
        raise OptionError(f"{where}: data is empty; expected one [[data]] or more. Add one.")
    check_least("layers", recipe.layers, 0, where=where)
    check_run(recipe.schedule, recipe.output, seed=recipe.seed, where=where)
    check_evaluations(recipe.evaluation, where=where)
    for i, dim in enumerate(recipe.matryoshka):
        check_least(f"matryoshka[{i}]", dim, 1, where=where)
    if not 0 <= recipe.base_share < 1 or (recipe.base_share and recipe.kind != "encoder"):
        raise OptionError(
            f"{where}: base_share is {recipe.base_share} and the kind {recipe.kind}; expected a "
            "share below 1, for an encoder. Correct it."
        )
    if recipe.dropout >= 1:
        raise OptionError(f"{where}: dropout is {recipe.dropout}; expected less than 1.")


def _check_data(recipe: Recipe, entry: Data, where: str) -> None:
    if not entry.objective:
        raise OptionError(f"{where}: no objective; expected one here or above. Add a key.")
    objective = find_objective(entry.objective, where=where)
    if recipe.kind not in objective.kinds:
        raise OptionError(
            f"{where}: objective {objective.name} is for {' and '.join(objective.kinds)}; the "
            f"recipe's kind is {recipe.kind}. Choose another objective."
        )
    objective.settle(entry.options, where=where)
    _check_columns(entry, objective, where)
    if entry.range is not None and not entry.range[0] < entry.range[1]:
        raise OptionError(f"{where}: range is {list(entry.range)}; expected [least, most].")
    _check_labels(entry, objective, where)
    _check_names(entry, objective, where)
    if not entry.files or entry.weight <= 0 or entry.limit < 0:
        raise OptionError(f"{where}: no files, weight 0 or limit below 0; expected more. Mend it.")


def _check_labels(entry: Data, objective: Objective, where: str) -> None:
    for key, value, kind in (("range", entry.range, "score"), ("labels", entry.labels, "label")):
        if value and kind not in needed_columns(entry, objective):
            raise OptionError(
                f"{where}: {key} is for a {kind}; {objective.name} reads none. Remove it."
            )
    if len(set(entry.labels)) < len(entry.labels):
        raise OptionError(f"{where}: labels names one twice; expected each once. Remove it.")


def _check_names(entry: Data, objective: Objective, where: str) -> None:
    if not objective.reader and (entry.hold_out or entry.negatives):
        raise OptionError(
            f"{where}: hold_out and negatives are for names with concepts; the objective is "
            f'{objective.name}. Remove them, or set objective = "align".'
        )
    if not 0 <= entry.hold_out < 1:
        raise OptionError(f"{where}: hold_out is {entry.hold_out}; expected a share below 1.")
    for negatives in entry.negatives:
        if set(negatives.columns) != {"a", "b"} or not negatives.files:
            raise OptionError(
                f"{where}: negatives have the columns {', '.join(negatives.columns) or 'none'}; "
                "expected files and the columns a and b. Correct them."
            )


def needed_columns(entry: Data, objective: Objective) -> tuple[str, ...]:
    """Name the columns that an entry must map."""
    if entry.triplets:
        return ("a", "b", "label")
    return (*objective.texts, objective.label) if objective.label else objective.texts


def _check_columns(entry: Data, objective: Objective, where: str) -> None:
    needed = needed_columns(entry, objective)
    known = (*needed, *objective.optional)
    if entry.triplets:
        takes = "negative" in (*objective.texts, *objective.optional)
        if not takes or set(entry.triplets) != {"positive", "negative"}:
            raise OptionError(
                f"{where}: triplets is {entry.triplets} for {objective.name}; expected the labels "
                '{ positive = "…", negative = "…" } and the objective triplet or in-batch.'
            )
        known = needed
    for name in needed:
        if name not in entry.columns:
            raise OptionError(
                f"{where}: columns has no {name}; {objective.name} reads {', '.join(known)}. "
                "Add it."
            )
    for name in entry.columns:
        if name not in known:
            raise OptionError(
                f"{where}: columns has {name}; {objective.name} reads {', '.join(known)}. "
                "Remove it."
            )


def _one_of(value: str, known: tuple[str, ...], key: str, where: str) -> None:
    if value not in known:
        raise OptionError(f'{where}: {key} is "{value}"; known are {", ".join(known)}. Choose one.')


_LARGEST_SEED = 2**63 - 1  # torch's generators take no more
# So many labels, and most of them in one row only, are texts from another column.
_MANY_LABELS = 100


def check_run(
    schedule: "Schedule", output: "Output", *, seed: int, where: str, smallest_batch: int = 2
) -> None:
    """Raise an OptionError for the first number outside its range."""
    for key, value, least in (
        ("schedule.epochs", schedule.epochs, 0 if schedule.steps else 1),
        ("schedule.steps", schedule.steps, 0),
        ("schedule.batch_size", schedule.batch_size, smallest_batch),
        ("schedule.batch_tokens", schedule.batch_tokens, 0),
        ("schedule.piece_tokens", schedule.piece_tokens, 1),
        ("schedule.evaluate_steps", schedule.evaluate_steps, 0),
        ("schedule.learning_rate", schedule.learning_rate, 1e-12),
        ("schedule.warmup", schedule.warmup, 0),
        ("schedule.weight_decay", schedule.weight_decay, 0),
        ("schedule.clip", schedule.clip, 0),
        ("output.keep", output.keep, 1),
        ("output.checkpoint_minutes", output.checkpoint_minutes, 0),
        ("output.checkpoint_steps", output.checkpoint_steps, 0),
        ("output.early_stopping", output.early_stopping, 0),
    ):
        check_least(key, value, least, where=where)
    if not output.precision:
        raise OptionError(
            f"{where}: output.precision is empty; expected one or more, for each is a bundle. "
            "Name one."
        )
    check_seed(seed, where=where)


def check_clean(steps: Sequence[str] | None, *, where: str) -> None:
    """Raise an OptionError for clean-up that is not known, or that no tokenizer is safe after."""
    missing = [step for step in SAFE if step not in check_steps(SAFE if steps is None else steps)]
    if missing:
        raise OptionError(
            f"{where}: clean has no {missing[0]}; expected it, for no tokenizer reads half a "
            "character. Put it first."
        )


def check_least(key: str, value: float, least: float, *, where: str) -> None:
    """Raise an OptionError for a number below the least that it may be."""
    if not value >= least:
        raise OptionError(f"{where}: {key} is {value}; expected {least} or more. Correct it.")


def check_seed(seed: int, *, where: str) -> None:
    """Raise an OptionError for a seed that a generator of random numbers does not take."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise OptionError(f"{where}: seed is {seed}; expected 0 to {_LARGEST_SEED}. Correct it.")


def check_evaluations(entries: Sequence["Evaluation"], *, where: str) -> None:
    """Raise an OptionError for two evaluations whose scores would have the same name."""
    counts = Counter(entry.title for entry in entries)
    for i, entry in enumerate(entries):
        if counts[entry.title] > 1:
            raise OptionError(
                f"{where}: evaluation[{i}] and another are both called {entry.title}; expected a "
                "name for each score. Add the key name to one."
            )
        check_least(f"evaluation[{i}].limit", entry.limit, 0, where=where)


def check_classes(classes: Sequence[str], rows: int, *, where: str) -> None:
    """Raise a DataError for labels that are hardly ever the same: texts, by all appearance."""
    if len(classes) > _MANY_LABELS and 2 * len(classes) > rows:
        raise DataError(
            f"{where} have {len(classes):,} different labels in {rows:,} rows; expected labels "
            "that come again. Check which column is the label."
        )
