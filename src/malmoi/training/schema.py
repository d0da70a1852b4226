"""The parts that recipes share: checked tables, and errors worded for people.

A table of a recipe is a pydantic model. Each key has a type, a default, a range and a one-line
description on its field; the recipe reference of the site is generated from them. Nothing heavy is
imported here, so a mistake in a recipe is reported within a second.
"""

import difflib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError
from pydantic import model_validator as check
from pydantic.fields import FieldInfo

from ..errors import OptionError, counted
from ..text.cleanup import SAFE, check_steps

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R", bound="RecipeTable")

# TOML has lists; a frozen recipe holds tuples.
Many = Annotated[tuple[T, ...], Strict(False)]
Two = Annotated[tuple[T, T], Strict(False)]
Names = Many[str]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
PartShare = Annotated[float, Field(ge=0, lt=1)]
Amount = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
Dimensions = Many[Positive]
Precision = Literal["float32", "float16", "int8"]
InnerShare = Annotated[float, Field(gt=0, lt=1)]
Shares = dict[Literal["dev", "test"], InnerShare]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]  # torch's generators take no more


def _check_clean(steps: tuple[str, ...]) -> tuple[str, ...]:
    missing = [step for step in SAFE if step not in check_steps(steps)]
    if missing:
        raise OptionError(
            f"clean has no {missing[0]}; expected it, because a tokenizer cannot read half a "
            "character. Put it first in the list."
        )
    return steps


CleanSteps = Annotated[Names, AfterValidator(_check_clean)]
# The names that objectives had up to 0.2, with those of now.
OLD_OBJECTIVES = {
    "in-batch": "contrastive",
    "align": "term-alignment",
    "classification": "cross-encoder-classification",
    "classify": "note-classification",
}
# What other libraries and papers call objectives, without case, signs and "Loss".
KNOWN_AS = {
    **dict.fromkeys(
        ("mnrl", "multiplenegativesranking", "cachedmultiplenegativesranking", "infonce", "ntxent"),
        "contrastive",
    ),
    **dict.fromkeys(("gistembed", "cachedgistembed", "cachedgist"), "gist"),
    "cosinesimilarity": "cosine",
    "angle": "angle",
    "batchhardtriplet": "triplet",
    **dict.fromkeys(("multisimilarity", "sapbert"), "term-alignment"),
    **dict.fromkeys(("maskedlm", "mlm", "mlmnsp"), "pretrain"),
    **dict.fromkeys(("crossencoder", "crossentropy"), "cross-encoder-classification"),
    "binarycrossentropy": "bce",
    **dict.fromkeys(("lambda", "listnet", "plistmle"), "listwise"),
    **dict.fromkeys(("ner", "tagging", "tokenclassification"), "tag"),
    **dict.fromkeys(("questionanswering", "qa", "squad"), "answer"),
    **dict.fromkeys(("distillation", "distillkldiv"), "distil"),
    **dict.fromkeys(("sequenceclassification", "textclassification"), "note-classification"),
}
CLEAN = "Text clean-up before the tokenizer; the base's own when left out."
SEED = "The seed of all random numbers."


def key(default: Any, description: str, **limits: Any) -> Any:
    """Declare an optional key by its default, its meaning and its limits (ge, gt, le, lt)."""
    return Field(default, description=description, **limits)


def needed(description: str, **limits: Any) -> Any:
    """Declare a key that every recipe must have."""
    return Field(description=description, **limits)


class RecipeTable(BaseModel):
    """A table of a recipe: frozen, every key known, every value of its own type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    # Keys of older recipes, each with its name now.
    renamed: ClassVar[dict[str, str]] = {}

    @check(mode="before")
    @classmethod
    def _take_old_keys(cls, table: Any) -> Any:
        for old in [name for name in cls.renamed if isinstance(table, dict) and name in table]:
            new = cls.renamed[old]
            if new in table:
                raise OptionError(f"{old} is the old name of {new}; expected one. Remove {old}.")
            logger.warning(f"the recipe's key {old} is called {new} now; change it when you can")
            table = {new if name == old else name: value for name, value in table.items()}
        return table


class HeldRows(RecipeTable):
    """held_out of an entry: rows that are kept for measuring."""

    by: str = needed("The column whose sha1 chooses the rows.")
    one_in: int = key(10, "Keep the rows whose sha1 this number divides.", ge=2)


class Evaluation(RecipeTable):
    """[[evaluation]]: a file that measures the model; the mean score chooses the best."""

    task: Literal["sts", "pairs", "retrieval", "nli", "concepts"] = needed("What is measured.")
    file: str = needed("The file, under the data root.")
    columns: dict[str, str] = key({}, "The file's columns by role; guessed from its header.")
    name: str = key("", "What the score is called; task:file when left out.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Use only the rows that an entry holds out like this.")
    measure: Literal["", "hit@1", "hit@5", "hit@10", "mrr@10", "ndcg@10", "map"] = key(
        "", "retrieval: the measure that is reported; ndcg@10 when left out."
    )
    limit: Count = key(0, "Only the first rows (of retrieval, queries); 0 means all.")
    dictionary: str = key("", "concepts: the file of names to search; the file itself if empty.")
    dictionary_columns: dict[str, str] = key({}, "concepts: the columns of the dictionary.")
    hold_out: float = key(0.0, "concepts: ask only the held-out share of the concepts.")

    @property
    def title(self) -> str:
        """The name of its score."""
        return self.name or f"{self.task}:{Path(self.file).stem}"

    @check(mode="after")
    def _fits(self) -> Self:
        if self.measure and self.task != "retrieval":
            raise OptionError(
                f"measure is {self.measure} and task is {self.task}; expected retrieval. Remove it."
            )
        if self.task == "concepts" and (self.where or self.held_out):
            raise OptionError(
                "task is concepts, which has no where and no held_out; expected hold_out. Use it."
            )
        return self


class Schedule(RecipeTable):
    """[schedule]: how long, how fast, and how large the batches are."""

    epochs: Count = key(1, "Passes over the data; 0 if steps or minutes set the length.")
    steps: Count = key(0, "The most steps; 0 sets no limit.")
    minutes: Amount = key(0.0, "The most minutes of training; 0 sets no limit.")
    batch_size: Positive = key(32, "Examples in a batch, in each process.")
    batch_tokens: Count = key(0, "Padded tokens in a batch, instead of batch_size; 0 for none.")
    piece_tokens: Positive = key(2048, "Padded tokens computed at once; less needs less memory.")
    accumulate: Positive = key(1, "Batches whose gradients make one step.")
    learning_rate: float = key(2e-5, "The highest learning rate of AdamW.", gt=0)
    warmup: Amount = key(0.1, "Rising steps: a share of all below 1, a number of steps from 1 on.")
    decay: Literal["linear", "cosine", "constant"] = key("linear", "How the rate falls afterwards.")
    floor: Share = key(0.0, "The share of the highest rate that it never falls below.")
    weight_decay: Amount = key(0.01, "Weight decay; biases and normalisations have none.")
    clip: Amount = key(1.0, "The largest norm of the gradient; 0 does not clip.")
    bf16: bool = key(False, "Compute the layers in bfloat16; weights and losses stay float32.")
    freeze: Names = key((), "Parameters that are not trained, by the start of their names.")
    evaluate_steps: Count = key(0, "Evaluate every so many steps, not only after an epoch.")

    @check(mode="after")
    def _has_a_length(self) -> Self:
        if not self.epochs and not self.steps and not self.minutes:
            raise OptionError(
                "epochs is 0; expected 1 or more, or steps or minutes above 0. Set one of them."
            )
        return self


class PairSchedule(Schedule):
    """[schedule]: how long, how fast, and how large the batches are."""

    # A loss over pairs compares the rows of a batch.
    batch_size: int = key(
        32, "Examples in a batch of each process (tag, pretrain: 1 or more).", ge=2
    )
    recompute: bool = key(
        False,
        "Encoders: compute each piece again for its gradient; large batches in little memory.",
    )
    mine_steps: Count = key(
        0, "contrastive, gist: find each pair's hard negative anew every so many steps; 0 never."
    )


class BundleOutput(RecipeTable):
    """The keys of [output] that all recipes have."""

    folder: str = needed("The run's folder; it must not exist yet.")
    precision: Many[Precision] = key(("float32",), "One bundle for each.", min_length=1)
    layers: Literal["none", "all"] = key("none", "all keeps hidden states, for word vectors.")
    weights: bool | None = key(
        None, "Keep torch weights in the bundle; left out: in bundles that are not int8."
    )

    def keeps_weights(self, precision: str) -> bool:
        """Whether a bundle of a precision has torch weights: an int8 one is small for a reason."""
        return precision != "int8" if self.weights is None else self.weights

    licence: str = key("", "The licence of the weights; the base's when left out.")


class Output(BundleOutput):
    """[output]: where the run writes, how often it saves, and the form of the result."""

    checkpoint_minutes: Amount = key(5.0, "Save a checkpoint every so many minutes; 0 never.")
    checkpoint_steps: Count = key(500, "Save a checkpoint every so many steps; 0 never.")
    keep: Positive = key(2, "How many checkpoints stay on disk.")
    early_stopping: Count = key(0, "Stop after so many evaluations without a better one; 0 never.")
    report: Many[Literal["tensorboard", "wandb"]] = key(
        (), "Write loss and scores for TensorBoard or Weights & Biases too, where it is installed."
    )


class BaseRecipe(RecipeTable):
    """The keys that the recipes of all objectives have."""

    name: str = needed("The model's name, in its bundle and its card.")

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return self.model_dump()


class ModelRecipe(BaseRecipe):
    """The keys of recipes that train one model in one run."""

    base: str = needed("The encoder to start from.")
    output: Output = needed("Where the run writes.")
    max_tokens: int | None = key(None, "Tokens of a window; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    seed: Seed = key(1, SEED)
    schedule: Schedule = key(Schedule(), "How long and how fast.")


class DataParts(RecipeTable):
    """[data]: files by part, or files that are divided into parts."""

    train: Names = key((), "Files to learn from.")
    dev: Names = key((), "Files that choose the best checkpoint.")
    test: Names = key((), "Files that judge the finished bundle, once.")
    files: Names = key((), "Instead of these three: files that are divided by the seed.")
    shares: Shares = key({}, "The shares of dev and test in files.")
    limit: Count = key(0, "Only the first rows; 0 means all.")

    @property
    def names(self) -> Names:
        """All files."""
        return (*self.train, *self.dev, *self.test, *self.files)

    @check(mode="after")
    def _has_parts(self) -> Self:
        if bool(self.files) == bool(self.train):
            raise OptionError(
                f"data has {'both files and train' if self.files else 'no files'}; expected "
                "files, which are divided by shares, or train, dev and test. Name one of the two."
            )
        if self.train and not self.dev:
            raise OptionError("dev is missing; expected files that choose the best. Add the key.")
        usual = type(self).model_fields["shares"].default
        if self.files and "dev" in usual and "dev" not in self.shares:
            raise OptionError("shares has no dev; expected its share, to choose by. Add it.")
        if self.files and not sum(self.shares.values()) < 1:
            raise OptionError(
                f"shares leave nothing to train on ({sum(self.shares.values()):g} in all); "
                "expected less than 1 together. Lower one."
            )
        return self


def check_titles(titles: Iterable[str], table: str) -> None:
    """Raise an OptionError for two entries of a list of tables that have the same name."""
    for title, count in Counter(titles).items():
        if count > 1:
            raise OptionError(
                f"two {table} are called {title}; expected different names. Add the key name to "
                "one of them."
            )


def parse_table(model: type[R], table: object, *, where: str) -> R:
    """Check a table of parsed TOML; `where` names the file in messages.

    >>> parse_table(Schedule, {"epoch": 2}, where="my.toml")
    Traceback (most recent call last):
    ...
    malmoi.errors.OptionError: my.toml: epoch is not a key; known are epochs, steps, minutes, \
batch_size, batch_tokens, piece_tokens, accumulate, learning_rate, warmup, decay, floor, \
weight_decay, clip, bf16, freeze, evaluate_steps. Did you mean epochs?
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise word_error(error, model, where) from error


def unknown_key(name: str, known: Iterable[str], where: str) -> OptionError:
    """Say that a name is not known, and which one was perhaps meant."""
    known = list(known)
    listed = ", ".join(known) or "none here"
    return OptionError(f"{where}: {name} is not a key; known are {listed}. {_meant(name, known)}")


def unknown_value(value: str, known: Iterable[str], where: str) -> OptionError:
    """Say that a key's value is not known, and which one was perhaps meant."""
    known = list(known)
    remedy = _meant(value, known, "Choose one.")
    return OptionError(f'{where} is "{value}"; known are {", ".join(known)}. {remedy}')


def unknown_objective(name: str, known: Iterable[str], where: str) -> OptionError:
    """Say that an objective is not known, or what it is called now."""
    if name in OLD_OBJECTIVES:
        return OptionError(
            f'{where}: objective is "{name}", which is called "{OLD_OBJECTIVES[name]}" now. '
            "Write the new name."
        )
    plain = re.sub("[^a-z]", "", name.lower()).removesuffix("loss")
    own = next((one for one in known if one.replace("-", "") == plain), KNOWN_AS.get(plain))
    if own is not None:
        return OptionError(f'{where}: objective is "{name}"; here it is "{own}". Write that.')
    return unknown_value(name, known, f"{where}: objective")


def _meant(name: str, known: list[str], otherwise: str = "Remove it.") -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else otherwise


_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "finite_number": "a finite number",
}


def word_error(error: ValidationError, model: type[RecipeTable], where: str) -> OptionError:
    """Word the first mistake: file, key, value, what is allowed, what to do."""
    found: list[Any] = error.errors(include_url=False)
    first = min(found, key=lambda one: one["type"] != "extra_forbidden")  # a misspelling explains
    kind, loc, value = first["type"], first["loc"], first["input"]
    loc = loc[:-2] if loc and loc[-1] == "[key]" else loc  # a key that its table does not know
    path, limits = _path(loc), first.get("ctx", {})
    table, info = _field_at(model, loc)
    if kind == "extra_forbidden":
        before = path.removesuffix(str(loc[-1]))
        return unknown_key(path, [before + name for name in table.model_fields], where)
    if kind == "value_error":
        return OptionError(f"{where}: {_joined(path, str(limits['error']), table, loc)}")
    if kind == "missing" and isinstance(loc[-1], str):
        what = info.description if info else None
        return OptionError(f"{where}: {path} is missing; expected: {what or 'it'} Add the key.")
    if kind == "model_type":
        name = path or "the recipe"
        return OptionError(f"{where}: {name} is not a table; expected keys. Write [{name}].")
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", limits["expected"])
        return unknown_value(str(value), known, f"{where}: {path}")
    if kind == "too_short":
        return OptionError(f"{where}: {path} is empty; expected one or more. Add one.")
    if kind in ("missing", "too_long"):  # of a pair of values
        expected = counted(len(value) + 1 if kind == "missing" else limits["max_length"], "value")
        path = path if kind == "too_long" else _path(loc[:-1])
        return OptionError(f"{where}: {path} has {len(value)}; expected {expected}.")
    expected = _TYPES.get(kind) or range_words(info, limits) or first["msg"]
    meaning = f" ({info.description.rstrip('.')})" if info and info.description else ""
    return OptionError(
        f"{where}: {path} is {_shown(value)}; expected {expected}. Change it{meaning}."
    )


def _path(loc: Sequence[str | int]) -> str:
    """Write a place as people do.

    >>> _path(("data", 0, "weight"))
    'data[0].weight'
    """
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return "".join(parts).removeprefix(".")


def _joined(path: str, message: str, table: type[BaseModel], loc: Sequence[str | int]) -> str:
    """Put the place before a check's own message, which may begin with a key."""
    first = re.split(r"[\s.\[]", message, maxsplit=1)[0]
    if loc and first == loc[-1]:
        return _path(loc[:-1]) + ("." if len(loc) > 1 else "") + message
    if not path:
        return message
    return f"{path}.{message}" if first in table.model_fields else f"{path}: {message}"


def _field_at(
    model: type[BaseModel], loc: Sequence[str | int]
) -> tuple[type[BaseModel], FieldInfo | None]:
    """Find the table at a place, or the one that holds the key there, and the key's field."""
    table, info = model, None
    for part in loc:
        if isinstance(part, str) and part in table.model_fields:
            info = table.model_fields[part]
            table = table_in(info.annotation) or table
    return table, info


def table_in(annotation: Any) -> type[RecipeTable] | None:
    """Find the model inside a type such as tuple[Data, ...] or Align | None."""
    if isinstance(annotation, type) and issubclass(annotation, RecipeTable):
        return annotation
    return next((found for one in get_args(annotation) if (found := table_in(one))), None)


def range_words(info: FieldInfo | None, limits: dict[str, Any] | None = None) -> str:
    """Word a key's limits: "0 to 1", "2 or more", "more than 0"; empty where it has none."""
    found = dict(limits or {})
    for part in info.metadata if info else ():
        found |= {
            name: getattr(part, name) for name in ("ge", "gt", "le", "lt") if hasattr(part, name)
        }
    if "ge" in found and "le" in found:
        return (
            f"{found['ge']:g} to {found['le']:g}"
            if found["le"] < 1e9
            else f"{found['ge']} to {found['le']}"
        )
    words = [
        f"more than {found['gt']:g}" if "gt" in found else "",
        f"{found['ge']:g} or more" if "ge" in found else "",
        f"less than {found['lt']:g}" if "lt" in found else "",
        f"{found['le']:g} or less" if "le" in found else "",
    ]
    return " and ".join(word for word in words if word)


def _shown(value: object) -> str:
    if isinstance(value, str | int | float):
        return repr(value)
    return "a table" if isinstance(value, dict) else "a list"
