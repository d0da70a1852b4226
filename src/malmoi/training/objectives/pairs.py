"""Encoders and rerankers: objectives over pairs of texts, from the recipe to the examples.

Each objective of pairs is data: the columns of one example, what kind of label goes with them,
the options it takes, and the function that builds its loss. All share one recipe, whose [[data]]
may name several of them.
"""

import importlib
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator
from pydantic import model_validator as check

from ...bundle.manifest import POOLER, POOLINGS
from ...errors import DataError, OptionError, by_number, counted
from ...export.source import ModelSource
from ...io.files import read_lines
from ..data import (
    Check,
    Found,
    Measure,
    check_classes,
    file_rows,
    hash_named,
    is_held,
    is_label,
    is_number,
    read_base,
    read_measure,
)
from ..objective import Objective, objectives
from ..sampler import BatchClusters
from ..schema import (
    AboveZero,
    BaseRecipe,
    Count,
    Dimensions,
    Evaluation,
    HeldRows,
    Many,
    ModelRecipe,
    Names,
    PairSchedule,
    PartShare,
    Positive,
    RecipeTable,
    Two,
    check_titles,
    key,
    needed,
    unknown_key,
    unknown_objective,
)

logger = logging.getLogger(__name__)

RERANKER_TASKS = ("sts", "pairs", "nli")


class Negatives(RecipeTable):
    """negatives: files of what is confused and is not the same."""

    files: Names = needed("The files, under the data root.", min_length=1)
    columns: dict[str, str] = needed("The columns a and b, each a concept or a name.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")


class Data(RecipeTable):
    """[[data]]: files of one form, and what is learnt from them."""

    files: Names = needed(
        "The files (.tsv, .csv, .jsonl, .json; term-alignment: lexicons), under the data root.",
        min_length=1,
    )
    columns: dict[str, str] = key(
        {},
        "The files' columns by role: a, b, negative, score, label …; term-alignment knows some.",
    )
    objective: str = key("", "What is learnt; the recipe's own objective when left out.")
    range: Two[float] | None = key(None, "The lowest and highest score; 0 and 1 when left out.")
    labels: Names = key((), "The classes in order; found in the files when left out.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    without: dict[str, Names] = key({}, "Leave out the rows with one of these values, by column.")
    triplets: dict[str, str] = key({}, "The labels positive and negative; joins rows of one a.")
    weight: AboveZero = key(1.0, "How often an epoch sees each row; 0.5 takes half of them.")
    limit: Count = key(0, "Only the first rows; 0 means all.")
    held_out: HeldRows | None = key(None, "Leave out rows, which an evaluation may ask for.")
    hold_out: PartShare = key(0.0, "term-alignment: leave out this share of the concepts.")
    negatives: Many[Negatives] = key((), "term-alignment: files of concepts that are confused.")
    options: dict[str, Any] = key({}, "Options of the objective, such as scale.")

    @check(mode="after")
    def _fits(self) -> Self:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise OptionError(f"range is {list(self.range)}; expected [least, most]. Swap them.")
        if len(set(self.labels)) < len(self.labels):
            raise OptionError("labels names one twice; expected each once. Remove the second.")
        for negatives in self.negatives:
            if set(negatives.columns) != {"a", "b"}:
                raise OptionError(
                    f"negatives have the columns {', '.join(negatives.columns) or 'none'}; "
                    "expected the columns a and b. Write columns = { a = …, b = … }."
                )
        return self


class AddedTerms(RecipeTable):
    """[vocabulary]: words that get tokens of their own before training (WordPiece, Unigram)."""

    add: str = needed("Terms, one a line, or a lexicon or code table, under the data root.")
    longest: Positive = key(2, "Words of more tokens than this get one of their own.")
    most: Positive = key(10000, "At most so many new tokens, those of the commonest words.")


class Lora(RecipeTable):
    """[lora]: train small additions to the linear layers, by peft; the base's weights stay."""

    rank: Positive = key(16, "The rank of an addition.")
    alpha: Positive = key(32, "An addition counts alpha / rank.")
    dropout: PartShare = key(0.0, "Dropout before an addition.")
    modules: Names = key(
        (), "The layers that get one, by the ends of their names; all linear ones."
    )


class Recipe(ModelRecipe):
    """An encoder or a reranker, trained on one data set or several."""

    base: str = needed("The model to start from: a folder, a shipped bundle, a hub id, package:…")
    data: Many[Data] = needed("The data sets, one or more.", min_length=1)
    kind: Literal["encoder", "reranker"] = key("encoder", "A reranker reads two texts at once.")
    pooling: str | None = key(
        None, "cls, mean, max …, joined by +, or BERT's pooler; the base's if left out."
    )
    max_tokens: int | None = key(None, "Longer texts are cut; the base's limit when left out.")
    dropout: float = key(-1.0, "Dropout while training; below 0 the base's own.", lt=1)
    layers: Count = key(0, "Keep only so many layers, from the embeddings up; 0 keeps all.")
    head: Literal["dense", "dropout-dense"] = key(
        "dense",
        "A reranker's, on [CLS]: dense, GELU, dropout, projection; dropout-dense drops first too.",
    )
    base_share: PartShare = key(0.0, "Mix this share of the base's weights back in (encoders).")
    objective: str = key("", "The objective of every [[data]] that names none.")
    matryoshka: Dimensions = key((), "Train these prefixes of the vector too; the whole one first.")
    schedule: PairSchedule = key(PairSchedule(), "How long and how fast.")
    evaluation: Many[Evaluation] = key((), "What measures the model during training.")
    vocabulary: AddedTerms | None = key(None, "Words that the tokenizer learns first.")
    lora: Lora | None = key(None, "Train small additions to the layers instead of all weights.")

    @check(mode="before")
    @classmethod
    def _share_objective(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not isinstance(table.get("data"), list | tuple):
            return table
        shared = table.get("objective", "")
        entries = [
            entry | {"objective": shared}
            if isinstance(entry, dict) and entry.get("objective", "") == ""
            else entry
            for entry in table["data"]
        ]
        return table | {"data": entries}

    @field_validator("pooling")
    @classmethod
    def _is_known(cls, pooling: str | None) -> str | None:
        for name in pooling.split("+") if pooling and pooling != POOLER else ():
            if name not in POOLINGS:
                raise OptionError(
                    f'pooling is "{name}"; known are {", ".join(POOLINGS)} and {POOLER}. Choose '
                    "one, or join several with +."
                )
        return pooling

    @check(mode="after")
    def _fits(self) -> Self:
        if self.base_share and self.kind != "encoder":
            raise OptionError(
                f"base_share is {self.base_share} and the kind {self.kind}; expected it for an "
                "encoder only. Remove the key."
            )
        if self.lora and (self.kind != "encoder" or self.base_share or self.vocabulary):
            raise OptionError(
                "lora is for an encoder without base_share and vocabulary, whose weights must "
                "learn; expected one of the two ways. Remove the other's keys."
            )
        mines = {"contrastive", "gist"} & {entry.objective for entry in self.data}
        if self.schedule.mine_steps and not mines:
            raise OptionError(
                f"schedule.mine_steps is {self.schedule.mine_steps} and no objective reads "
                "negatives; expected contrastive or gist. Remove the key."
            )
        for i, measure in enumerate(self.evaluation):
            if self.kind == "reranker" and measure.task not in RERANKER_TASKS:
                raise OptionError(
                    f'evaluation[{i}].task is "{measure.task}"; known for a reranker are '
                    f"{', '.join(RERANKER_TASKS)}. Choose one."
                )
        check_titles((one.title for one in self.evaluation), "[[evaluation]]")
        for i, entry in enumerate(self.data):
            self._check_data(entry, f"data[{i}]")
        return self

    def _check_data(self, entry: Data, where: str) -> None:
        if not entry.objective:
            raise OptionError(f"{where}: no objective; expected one here or above. Add the key.")
        objective = find_pairs(entry.objective, where=where)
        if self.kind not in objective.kinds:
            raise OptionError(
                f"{where}: objective {objective.name} is for {' and '.join(objective.kinds)}; the "
                f"recipe's kind is {self.kind}. Choose another objective."
            )
        options = objective.settle(entry.options, where=where)
        if options.get("guide") == "":
            raise OptionError(
                f"{where}: {objective.name} has no guide; expected a model that judges negatives. "
                'Add options = { guide = "ko-en-small" }.'
            )
        _check_columns(entry, objective, where)
        for name, value, role in (
            ("range", entry.range, "score" if objective.scaled else ""),
            ("labels", entry.labels, "label"),
        ):
            if value and role not in needed_columns(entry, objective):
                raise OptionError(
                    f"{where}: {name} is for a {role}; {objective.name} reads none. Remove it."
                )
        if not objective.reader and (entry.hold_out or entry.negatives):
            raise OptionError(
                f"{where}: hold_out and negatives are for names with concepts; the objective is "
                f'{objective.name}. Remove them, or set objective = "term-alignment".'
            )


Label = Literal["score", "label", ""]


@dataclass(frozen=True)
class PairObjective(Objective[Recipe, "PreparedPairs"]):
    """How one kind of example is read and learnt from.

    `texts` are the columns that every example has, `optional` those it may have besides. `label`
    is "score" (a number, `scaled` from its range to 0…1), "label" (a class) or "" (none).
    `distinct` asks for batches in which no text occurs twice, because in-batch negatives would
    make it its own negative. `loss` and `reader` are functions named as text, "module:function",
    because they may need torch: one builds the loss, the other reads the examples where rows are
    not examples themselves. The reader gets the options that `reading` names, the loss the others.
    `renamed` are options of older recipes with their names now.
    """

    name: str
    loss: str
    texts: tuple[str, ...] = ("a", "b")
    optional: tuple[str, ...] = ()
    label: Label = ""
    scaled: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    distinct: bool = False
    kinds: tuple[str, ...] = ("encoder",)
    reader: str = ""
    reading: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)

    recipe: ClassVar[type[BaseRecipe]] = Recipe
    trainer: ClassVar[str] = "malmoi.training.objectives.pairs_task"

    def build(self) -> Callable[..., Any]:
        """Import the function that builds the loss."""
        return _imported(self.loss)

    def loss_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Give those of the settled options that the loss takes."""
        return {name: value for name, value in options.items() if name not in self.reading}

    def settle(self, options: dict[str, Any], *, where: str) -> dict[str, Any]:
        """Give the options with defaults filled in; an unknown or ill-typed one is an OptionError.

        >>> find_pairs("triplet").settle({"margin": 2}, where="recipe.toml")
        {'margin': 2.0}
        """
        settled = dict(self.options)
        for given, value in options.items():
            name = self.renamed.get(given, given)
            if name not in self.options:
                raise unknown_key(name, list(self.options), f"{where}: options of {self.name}")
            expected = type(self.options[name])
            if expected is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            infinite = isinstance(value, float) and not math.isfinite(value)
            if not isinstance(value, expected) or infinite:
                raise OptionError(
                    f"{where}: option {name} of {self.name} is {value!r}; "
                    f"expected {expected.__name__}, such as {self.options[name]!r}. Change it."
                )
            settled[name] = value
        return settled

    def prepare(self, recipe: Recipe, root: Path, *, strict: bool = False) -> "PreparedPairs":
        """Read and check everything but the weights."""
        return prepare_pairs(recipe, root, strict=strict)


def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def pair_objectives() -> dict[str, PairObjective]:
    """Give the objectives of pairs by their names, the built-in ones and others."""
    return {name: one for name, one in objectives().items() if isinstance(one, PairObjective)}


def find_pairs(name: str, *, where: str = "the recipe") -> PairObjective:
    """Find an objective of pairs by its name."""
    known = pair_objectives()
    if name not in known:
        raise unknown_objective(name, known, where)
    return known[name]


def needed_columns(entry: Data, objective: PairObjective) -> tuple[str, ...]:
    """Name the columns that an entry must map."""
    if entry.triplets:
        return ("a", "b", "label")
    return (*objective.texts, objective.label) if objective.label else objective.texts


def _check_columns(entry: Data, objective: PairObjective, where: str) -> None:
    if not entry.columns and objective.reader:
        return  # the reader knows its files by their form
    required = needed_columns(entry, objective)
    known = (*required, *objective.optional)
    if entry.triplets:
        takes = "negative" in (*objective.texts, *objective.optional)
        if not takes or set(entry.triplets) != {"positive", "negative"}:
            raise OptionError(
                f"{where}: triplets is {entry.triplets} for {objective.name}; expected the labels "
                '{ positive = "…", negative = "…" } and the objective triplet or contrastive.'
            )
        known = required
    reads = f"{objective.name} reads {', '.join(known)}"
    for name in required:
        if name not in entry.columns:
            raise OptionError(f"{where}: columns has no {name}; {reads}. Add it.")
    for name in entry.columns:
        if name not in known:
            raise OptionError(f"{where}: columns has {name}; {reads}. Remove it.")


@dataclass(frozen=True)
class TrainingExamples:
    """What one [[data]] entry holds.

    `columns` (n, k) int32 are numbers of texts, one column a text of the example; `labels` (n,)
    are float32 scores in 0…1, int64 classes, or None. `clusters` say which rows meet in a batch.
    """

    texts: list[str]
    columns: NDArray[np.int32]
    labels: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    clusters: BatchClusters | None = None

    def __len__(self) -> int:
        return len(self.columns)


def named_files(recipe: Recipe, *, learnt: bool = False) -> list[tuple[str, str]]:
    """List every file that a recipe names, or only what is learnt from, each with its use."""
    found = []
    for entry in recipe.data:
        found += [(file, entry.objective) for file in entry.files]
        for negatives in entry.negatives:
            found += [(file, f"{entry.objective}, negatives") for file in negatives.files]
    if recipe.vocabulary is not None:
        found.append((recipe.vocabulary.add, "vocabulary"))
    for measure in () if learnt else recipe.evaluation:
        files = [measure.file, *([measure.dictionary] if measure.dictionary else [])]
        found += [(file, f"evaluation {measure.title}") for file in files]
    return found


def read_terms(path: Path) -> list[str]:
    """Read the terms of a file, one a line, or the names of a lexicon or a code table."""
    # here, because few recipes read a lexicon
    from ...terms.export import synonyms
    from ...terms.readers import form_of

    plain = path.suffix.lower() == ".txt" and form_of(path) == "table"
    lines = read_lines(path, mixed=True) if plain else (name for _, _, name in synonyms(path))
    return [name for line in lines if (name := line.strip())]


def read_examples(
    entry: Data, root: Path, *, seed: int = 1, strict: bool = False
) -> TrainingExamples:
    """Read the files of one entry; raises DataError for anything that cannot be learnt from."""
    objective = find_pairs(entry.objective)
    if objective.reader:
        read: TrainingExamples = _imported(objective.reader)(entry, root, seed=seed, strict=strict)
        return read
    rows = list(_rows(entry, objective, root, strict))
    if not rows:
        condition = ", ".join(f"{name} is {value}" for name, value in entry.where.items())
        condition = f" where {condition}" if condition else ""
        raise DataError(
            f"{', '.join(entry.files)} give no examples; expected rows with text"
            f"{condition}. Check the files and the recipe's columns."
        )
    if entry.triplets:
        return _joined(entry, rows)
    names = [*objective.texts, *(name for name in objective.optional if name in entry.columns)]
    texts, columns = _numbered([[row[entry.columns[name]] for name in names] for *_, row in rows])
    if not objective.label:
        return TrainingExamples(texts, columns)
    labels, classes = _labels(entry, objective, rows)
    if len(np.unique(labels)) < 2:
        raise DataError(
            f"{', '.join(entry.files)} have one {objective.label} only; {objective.name} learns "
            "from differences. Add rows with another one."
        )
    return TrainingExamples(texts, columns, labels, classes)


def count_repeated(pairs: Sequence[tuple[str, str]], examples: Sequence[TrainingExamples]) -> int:
    """Count the pairs of an evaluation that are trained on too, either way round."""
    known = set()
    for part in examples:
        texts = [text.strip() for text in part.texts]
        known |= {frozenset((texts[row[0]], texts[row[1]])) for row in part.columns}
    return sum(frozenset((a.strip(), b.strip())) in known for a, b in pairs)


def _rows(entry: Data, objective: PairObjective, root: Path, strict: bool) -> Iterator[Found]:
    checks: dict[str, Check] = {"score": is_number, "label": is_label}
    names = [name for name in objective.optional if name in entry.columns]
    columns = {name: entry.columns[name] for name in (*needed_columns(entry, objective), *names)}
    return entry_rows(entry, root, columns, checks, strict)


def entry_rows(
    entry: Data, root: Path, columns: dict[str, str], checks: dict[str, Check], strict: bool
) -> Iterator[Found]:
    """Yield the rows of all files of an entry, up to its limit, without those it holds out."""
    held = entry.held_out
    asked = columns | ({"held_out": held.by} if held else {})
    found = (
        row
        for file in entry.files
        for row in file_rows(root / file, asked, entry.where, checks, strict, without=entry.without)
        if held is None or not is_held(row[2][held.by], held)
    )
    return itertools.islice(found, entry.limit or None)


def _numbered(rows: list[list[str]]) -> tuple[list[str], NDArray[np.int32]]:
    """Give each distinct text a number; (n, k) numbers come back with the texts."""
    numbers: dict[str, int] = {}
    columns = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
    return list(numbers), np.array(columns, dtype=np.int32)


def _labels(
    entry: Data, objective: PairObjective, rows: list[Found]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    column = entry.columns[objective.label]
    if not objective.scaled:
        return np.array([float(row[column]) for *_, row in rows], dtype=np.float32), ()
    if objective.label == "score":
        least, most = entry.range or (0.0, 1.0)
        scores = np.array([float(row[column]) for *_, row in rows])
        for i in np.flatnonzero((scores < least) | (scores > most))[:1]:
            raise DataError(
                f"line {rows[i][1]} of {rows[i][0]} has the score {scores[i]:g}; expected "
                f"{least:g} to {most:g}. Change the score, or range in the recipe."
            )
        return ((scores - least) / (most - least)).astype(np.float32), ()
    classes = entry.labels or tuple(sorted({row[column] for *_, row in rows}))
    check_classes(classes, len(rows), where=", ".join(entry.files))
    numbers = {name: i for i, name in enumerate(classes)}
    for file, line, row in rows:
        if row[column] not in numbers:
            raise DataError(
                f"line {line} of {file} has a label that is none of {', '.join(classes)}. "
                "Change the label, or labels in the recipe."
            )
    return np.array([numbers[row[column]] for *_, row in rows], dtype=np.int64), classes


def _joined(entry: Data, rows: list[Found]) -> TrainingExamples:
    """Join the rows of one `a`: each positive with each negative, one triplet a pair."""
    groups: dict[str, dict[str, list[str]]] = {}
    a, b, label = (entry.columns[name] for name in ("a", "b", "label"))
    for *_, row in rows:
        groups.setdefault(row[a], {}).setdefault(row[label], []).append(row[b])
    found = [
        [anchor, positive, negative]
        for anchor, group in groups.items()
        for positive in group.get(entry.triplets["positive"], [])
        for negative in group.get(entry.triplets["negative"], [])
    ]
    if not found:
        raise DataError(
            f"{', '.join(entry.files)} have no text in {a} with both a "
            f"{entry.triplets['positive']} and a {entry.triplets['negative']} row; expected some. "
            "Name labels of the file in triplets."
        )
    return TrainingExamples(*_numbered(found))


@dataclass(frozen=True)
class PreparedPairs:
    """Everything a run needs that can be checked without torch.

    `hashes` are of all files, `learnt` of those that are trained on; `repeated` counts the pairs
    of each evaluation that are trained on too.
    """

    recipe: Recipe
    source: ModelSource
    examples: list[TrainingExamples]
    measures: list[Measure]
    hashes: dict[str, str]
    repeated: dict[str, int]
    terms: list[str] = field(default_factory=list)

    @property
    def learnt(self) -> dict[str, str]:
        """The hashes of the files that are trained on; those of evaluations may change in a run."""
        return {name: self.hashes[name] for name, _ in named_files(self.recipe, learnt=True)}


def prepare_pairs(recipe: Recipe, root: Path, *, strict: bool) -> PreparedPairs:
    """Read and check everything but the weights."""
    hashes = hash_named((file for file, _ in named_files(recipe)), root)
    reranker = recipe.kind == "reranker"
    source = read_base(
        recipe.base,
        max_tokens=recipe.max_tokens,
        clean=recipe.clean,
        pooling=recipe.pooling,
        layers=recipe.layers,
        rerankers=reranker,
    )
    examples = [
        read_examples(entry, root, seed=recipe.seed, strict=strict) for entry in recipe.data
    ]
    labels = examples[0].classes if reranker else None
    measures = [
        read_measure(entry, root, judges=labels, strict=strict) for entry in recipe.evaluation
    ]
    repeated: dict[str, int] = {}
    for entry, measure in zip(recipe.evaluation, measures, strict=True):
        count = count_repeated(measure.pairs, examples)
        # A file may be measured twice, in one language and across two.
        repeated[entry.file] = max(count, repeated.get(entry.file, 0))
        if count:
            logger.info(
                f"{count:,} of the {counted(len(measure.pairs), 'pair')} of {entry.file} "
                f"{by_number(count, 'is', 'are')} trained on too"
            )
    _warn_unmeasured(recipe)
    terms = read_terms(root / recipe.vocabulary.add) if recipe.vocabulary else []
    return PreparedPairs(recipe, source, examples, measures, hashes, repeated, terms)


def _warn_unmeasured(recipe: Recipe) -> None:
    """Say which held-out rows no evaluation asks for."""
    measured = {(one.hold_out, one.held_out) for one in recipe.evaluation}
    for entry in recipe.data:
        if (entry.hold_out or entry.held_out) and (
            (entry.hold_out, entry.held_out) not in measured
        ):
            name = "hold_out" if entry.hold_out else "held_out"
            logger.warning(
                f"{entry.files[0]}: {name} leaves rows out and nothing is measured on them; "
                f"expected an [[evaluation]] with the same {name}. Add one, or remove the key."
            )


_LOSSES = "malmoi.training.losses"
_CROSS = "malmoi.training.objectives.cross_encoder"
_SCALE = {"scale": 20.0}
_MINING = {"alpha": 2.0, "beta": 50.0, "threshold": 0.5, "epsilon": 0.2}
_DRAWING = {"pairs": 50, "together": 2, "neighbours": 2, "siblings": 0}
_THREE = ("a", "b", "negative")

OBJECTIVES = (
    PairObjective("softmax", f"{_LOSSES}:softmax", label="label"),
    PairObjective("cosine", f"{_LOSSES}:cosine", label="score"),
    PairObjective("triplet", f"{_LOSSES}:triplet", texts=_THREE, options={"margin": 1.0}),
    PairObjective(
        "contrastive",
        f"{_LOSSES}:contrastive",
        optional=("negative",),
        options=_SCALE | {"symmetric": False},
        distinct=True,
    ),
    PairObjective(
        "gist",
        f"{_LOSSES}:gist",
        optional=("negative",),
        options={"guide": "", "temperature": 0.01, "margin": 0.0},
        distinct=True,
        reading=("guide",),
    ),
    PairObjective("margin-mse", f"{_LOSSES}:margin_mse", texts=_THREE, label="score", scaled=False),
    PairObjective("cosent", f"{_LOSSES}:cosent", label="score", options=_SCALE),
    PairObjective("angle", f"{_LOSSES}:angle", label="score", options=_SCALE),
    PairObjective(
        "term-alignment",
        f"{_LOSSES}:term_alignment",
        texts=("name", "concept"),
        optional=("synonym",),
        options=_MINING | _DRAWING,
        renamed={"base": "threshold"},
        reader="malmoi.training.terms:read_synonyms",
        reading=tuple(_DRAWING),
    ),
    *(
        PairObjective(name, f"{_CROSS}:cross_loss", label="score", kinds=("reranker",))
        for name in ("regression", "bce", "mse", "listwise")
    ),
    PairObjective(
        "cross-encoder-classification",
        f"{_CROSS}:cross_loss",
        label="label",
        kinds=("reranker",),
    ),
)
