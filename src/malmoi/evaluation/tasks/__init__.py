"""What a task is, and the registry of all that `malmoi evaluate` and recipes can name.

A task is one subclass of `Task` in a file of this package, and one line in `TASKS`. It says which
forms of files it reads and turns a model and examples into an Outcome; reading, options,
confidence intervals, comparisons, the command line and recipes are the same for all.
"""

import importlib
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..examples import Examples, Form, Roles, read_examples
from ..measures import Measure, value

T = TypeVar("T")
# Each form of file with a function that makes a row of its values; the first that fits is used.
Forms = Sequence[tuple[Form, Callable[[Roles], Any]]]


@dataclass(frozen=True)
class Settings:
    """The options of all tasks; each task uses those that concern it.

    columns: the column of each role, as {"a": "ko1"}; others are guessed from the header.
    sides: languages by their columns, "ko" or "ko-en".
    strict: stop at the first bad row instead of passing over it.
    ks: cut-offs of ranks (retrieval, rerank, linking, concepts).
    documents: a file of more texts to search among, or a folder of files that questions are
        about (retrieval, rerank).
    query_prompt, document_prompt: prompts of an encoder that reads queries and documents
        differently (retrieval, rerank).
    encoder: the encoder that proposes documents (rerank).
    top: how many documents to rerank (rerank).
    train: a file to fit the probe on (nli, transfer), or to find thresholds on (senses).
    folds: folds of cross-validation where `train` is left out (nli, transfer).
    lexicon: the lexicon to link to (linking).
    types: types of mentions to keep (linking).
    errors: a .tsv file to write what the model got wrong to (linking).
    seed: seed of the bootstrap and of folds.
    limit: take only this many rows or queries; 0 takes all.
    dictionary, dictionary_columns: a file of names to look among (concepts).
    hold_out: ask only the concepts of this share, which a recipe can hold out (concepts).
    keep: says which rows of the file are used, by their cells; all when left out (not concepts).
    """

    columns: Roles | None = None
    sides: str | None = None
    strict: bool = False
    ks: tuple[int, ...] = (1, 5, 10)
    documents: str | Path | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    encoder: object | None = None
    top: int = 50
    train: str | Path | None = None
    folds: int = 10
    lexicon: str | Path | None = None
    types: tuple[str, ...] = ()
    errors: str | Path | None = None
    seed: int = 0
    limit: int = 0
    dictionary: str | Path | None = None
    dictionary_columns: Roles | None = None
    hold_out: float = 0.0
    keep: Callable[[Mapping[str, str]], bool] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a model did with a task's examples, before any number is drawn from it.

    measures: functions of weights, ready to be resampled; see `malmoi.evaluation.measures`.
    units: the unit (n,) that each item is drawn with; see `resample`.
    main: the measure to judge the model by.
    details: findings without an interval.
    notes: sentences for the reader.
    others: what the report compares the model with besides the models that were named.
    """

    measures: Mapping[str, Measure]
    units: NDArray[np.intp]
    main: str
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    others: tuple[tuple[str, "Outcome"], ...] = ()

    def values(self) -> dict[str, float]:
        """Every measure's plain value, without intervals."""
        return {name: value(measure, len(self.units)) for name, measure in self.measures.items()}


class Task(Generic[T]):
    """One way to judge a model; T is the type of all rows together, mostly a list.

    A subclass gives `name`, `forms` and `outcome`, and overrides the rest where it must.
    """

    name: ClassVar[str]
    forms: ClassVar[Forms] = ()
    # True for a task that is fitted on rows of its own: `Settings.train` or cross-validation.
    fitted: ClassVar[bool] = False

    def read(
        self, path: str | Path, settings: Settings | None = None, **options: Any
    ) -> Examples[T]:
        """Read a file of examples; `options` are fields of Settings, for use without one."""
        examples = self.load(Path(path), replace(settings or Settings(), **options))
        self.check(examples.rows, str(path))
        return examples

    def measure(
        self,
        model: object,
        examples: Examples[T] | T,
        settings: Settings | None = None,
        *,
        train: T | None = None,
        **options: Any,
    ) -> Outcome:
        """Measure a model on examples, or on rows and rows to train on that you made yourself.

        `options` are fields of Settings, for use without one.
        """
        if not isinstance(examples, Examples):
            examples = Examples(examples, train=train)
        return self.outcome(model, examples, replace(settings or Settings(), **options))

    def read_forms(self, path: str | Path, settings: Settings) -> Examples[list[Any]]:
        """Read all rows of a file by `forms`."""
        chosen = {name: getattr(settings, name) for name in ("columns", "sides", "strict", "keep")}
        return read_examples(path, self.forms, **chosen)

    def load(self, path: Path, settings: Settings) -> Examples[T]:
        """Read rows by `forms`; overridden by a task whose files have another shape."""
        examples = self.read_forms(path, settings)
        found: Examples[Any] = replace(examples, rows=examples.rows[: settings.limit or None])
        if self.fitted and settings.train is not None:
            train = self.read_forms(settings.train, settings)
            return replace(found, train=train.rows, about={"train": train.source.sha256})
        return replace(found, about={"folds": settings.folds}) if self.fitted else found

    def check(self, rows: T, where: str) -> None:
        """Raise a DataError for rows that nothing can be measured on."""

    def outcome(self, model: object, examples: Examples[T], settings: Settings) -> Outcome:
        """Measure a model on examples."""
        raise NotImplementedError

    def check_training(self, rows: T, labels: Sequence[str] | None) -> None:
        """Raise before training for what would otherwise fail after its first epoch.

        `labels` are those of a reranker that names a label itself; None for any other model.
        """

    def text_pairs(self, rows: T) -> list[tuple[str, str]]:
        """Texts that belong together, to be looked for in training data; [] if there are none."""
        return []


class Tasks(UserDict[str, Task[Any]]):
    """Tasks by name; the module of one is imported when the task is asked for.

    So a training run that measures sentence pairs does not import what reads clinical notes.
    """

    def __getitem__(self, name: str) -> Task[Any]:
        """Give a task, made from its place, "module:Class", where it is asked for first."""
        place: Task[Any] | str = self.data[name]
        if isinstance(place, str):
            module, _, cls = place.partition(":")
            self.data[name] = getattr(importlib.import_module(f"{__name__}.{module}"), cls)()
        return self.data[name]


_PLACES: Any = {
    "sts": "similarity:Sts",
    "pairs": "similarity:SamePairs",
    "retrieval": "retrieval:Retrieval",
    "rerank": "retrieval:Reranking",
    "nli": "nli:Inference",
    "transfer": "nli:Transfer",
    "senses": "similarity:SameSenses",
    "notes": "note_mentions:NoteMentions",
    "tagging": "spans:Entities",
    "linking": "linking:Linking",
    "concepts": "concepts:Concepts",
    "answers": "spans:Answers",
}
TASKS = Tasks(_PLACES)
