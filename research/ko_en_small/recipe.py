"""The recipe of the joint run: a distillation, the tasks that are learnt beside it, [joint]."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator as check

from malmoi.errors import OptionError
from malmoi.training.distil.recipe import Distillation, check_known
from malmoi.training.schema import (
    AboveZero,
    Amount,
    Count,
    Dimensions,
    HeldRows,
    Many,
    Names,
    Positive,
    RecipeTable,
    Schedule,
    Share,
    check_titles,
    key,
    needed,
    unknown_key,
)


@dataclass(frozen=True)
class TaskKind:
    """A kind of task: the columns it needs, those it may have, its usual batch."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    size: int = 64


KINDS = {
    "scores": TaskKind(("left", "right", "score"), size=40),
    "pairs": TaskKind(("a", "b"), ("label", "key")),
    "groups": TaskKind(("group", "text")),
    "senses": TaskKind(("a", "b", "target", "sense_a", "sense_b"), size=26),
    "neighbours": TaskKind(size=36),
    "swaps": TaskKind(size=48),
    "teacher": TaskKind(),
}


class ExtraFiles(RecipeTable):
    """[[task.extra_files]]: more files of a task, with columns of their own."""

    files: Names = needed('The files; "package:malmoi/data/…" comes with malmoi.', min_length=1)
    columns: dict[str, str] = needed("The same roles as the task's columns.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")
    split: str = key("", "What separates several texts in the last column's cell.")


class TaskRecipe(RecipeTable):
    """[[task]]: something to learn besides the teachers' vectors."""

    kind: Literal["scores", "pairs", "groups", "senses", "neighbours", "swaps", "teacher"] = needed(
        "What is learnt."
    )
    name: str = key("", "What the log and [joint] call it; the first file's name if left out.")
    files: Names = key((), "The files, under the data root.")
    columns: dict[str, Any] = key({}, "The files' columns by role; the kind says which.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")
    extra_files: Many[ExtraFiles] = key((), "More files of the task.")
    positive: str = key("", "pairs: the label of what belongs to a text.")
    negative: str = key("", "pairs: the label of hard negatives.")
    size: Count = key(0, "Examples in a batch; 0 takes the kind's own number.")
    run: Positive = key(1, "pairs, groups: draw this many neighbouring rows together.")
    teacher_share: Share = key(0.0, "scores: this share of the score is the teacher's similarity.")
    highest: AboveZero = key(1.0, "scores: the highest score.")
    layers: Many[int] = key((4,), "senses: the hidden layers that learn.")
    sentences_per_word: int = key(5, "senses: sentences of a word in a batch.", ge=2)
    drop: Share = key(0.1, "senses: dropout in this task.")
    parallel: Names = key((), "swaps: the names of the [[parallel]] it reads; all when empty.")
    per_entry_limit: dict[str, int] = key({}, "neighbours: the most sentences, by [[parallel]].")
    neighbors: int = key(64, "neighbours, swaps: the neighbours of a sentence or a word.", ge=2)
    relations: float = key(1.0, "neighbours, swaps: the weight of the order of pairs.")
    tokens: Positive = key(2048, "teacher: padded tokens in a batch.")
    contrast: float = key(0.15, "teacher, neighbours, swaps: the weight of the in-batch term.")
    source_share: Share = key(0.2, "teacher, neighbours: how often the source is read.")
    mixed: Share = key(0.0, "teacher, swaps: translations with some words of the source.")
    dropped: Share = key(0.0, "teacher, swaps: the share of tokens that is left out.")

    @property
    def title(self) -> str:
        """What the log and [joint] call it."""
        return self.name or (Path(self.files[0]).stem if self.files else self.kind)

    @check(mode="after")
    def _fits(self) -> Self:
        kind = KINDS[self.kind]
        known = (*kind.needed, *kind.optional)
        for name in self.columns:
            if name not in known:
                raise unknown_key(name, known, f"columns of {self.kind}")
        missing = [name for name in kind.needed if name not in self.columns]
        if missing:
            reads = f"{self.kind} reads {', '.join(known)}"
            raise OptionError(f"columns has no {missing[0]}; {reads}. Add it.")
        if kind.needed and not self.files:
            raise OptionError("files is empty; expected one or more. Add one.")
        for i, more in enumerate(self.extra_files):
            if set(more.columns) != set(self.columns):
                raise OptionError(
                    f"extra_files[{i}].columns names {', '.join(more.columns) or 'nothing'}; "
                    f"expected the task's {', '.join(self.columns)}. Name these."
                )
        if "label" in self.columns and not self.positive:
            raise OptionError(
                "label is a column and positive is empty; expected its value. Add it."
            )
        return self


class Joint(RecipeTable):
    """[joint]: how the run is made; shares are chances to be drawn in a step."""

    base_sha256: str = needed("The sha256 of the base's graph.")
    steps: Positive = needed("The steps of the run.")
    longest: Positive = key(384, "Tokens of a text that are read.")
    learning_rate: AboveZero = key(1e-4, "The learning rate of the layers.")
    table_rate: Amount = key(1e-4, "The learning rate of the embedding rows.")
    decay: Literal["linear", "cosine", "constant"] = key("constant", "How the rates fall.")
    warmup: Count = key(200, "The steps in which the rates rise.")
    average: Share = key(0.999, "The moving average of the weights; 0 for none.")
    dropout: Share = key(0.05, "Dropout in the labelled tasks.")
    evaluate_steps: Count = key(500, "Evaluate every this many steps.")
    checkpoint_minutes: Amount = key(10.0, "Save a checkpoint every this many minutes.")
    layer: int = key(4, "The hidden layer that token vectors are a map of.")
    token_size: Positive = key(64, "The dimensions of a token vector.")
    tasks_per_step: Positive = key(2, "Labelled tasks that are drawn in a step.")
    goals: Amount = key(1.0, "The weight of the teachers' goals, which are in every step.")
    tasks: dict[str, float] = key({}, "The chances of the [[task]]s, by name.")
    factors: dict[str, float] = key({}, "The factors of their losses, by name.")
    matches: dict[str, float] = key({}, "The chances of the matches, one of which is in each step.")
    match_size: Positive = key(24, "Queries in a batch of a match.")
    match_factor: Amount = key(1.0, "What the matches count.")
    documents: Names = key((), "Parallel files whose rows are in the order of their pages.")
    translations: Names = key((), "The [[parallel]] whose pairs are matched.")
    not_aligned: Names = key((), "The [[parallel]] that word translations are not learnt from.")

    def shortened(self, steps: int) -> "Joint":
        """Give the same run with another length and an evaluation at its end only."""
        return self.model_copy(update={"steps": steps, "evaluate_steps": steps})

    def schedule(self) -> Schedule:
        """Give the schedule of the training loop."""
        shared = type(self).model_fields.keys() & Schedule.model_fields.keys()
        found = {name: getattr(self, name) for name in shared} | {"warmup": float(self.warmup)}
        return Schedule(epochs=0, **found)


class JointRecipe(Distillation):
    """The distillation of ko-en-small with everything that is learnt beside it."""

    renamed: ClassVar[dict[str, str]] = {}

    task: Many[TaskRecipe] = needed("What is learnt beside the goals.")
    joint: Joint = needed("How the run is made.")
    matryoshka: Dimensions = key((), "Train these prefixes of the vector too.")
    short_weight: float = key(0.3, "What each of the shorter ones counts.")

    @check(mode="after")
    def _names_are_known(self) -> Self:
        entries = [entry.title for entry in self.parallel]
        titles = [task.title for task in self.task]
        check_titles(titles, "[[task]]")
        for i, task in enumerate(self.task):
            check_known((*task.parallel, *task.per_entry_limit), entries, f"task[{i}].parallel")
        check_known((*self.joint.tasks, *self.joint.factors), titles, "joint: a task")
        check_known((*self.joint.translations, *self.joint.not_aligned), entries, "joint: an entry")
        return self
