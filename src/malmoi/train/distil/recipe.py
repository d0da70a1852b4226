"""A recipe with `objective = "distil"`, key by key."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator
from pydantic import model_validator as check

from ...errors import OptionError
from ..schema import (
    CLEAN,
    SEED,
    AboveZero,
    Amount,
    BaseRecipe,
    BundleOutput,
    CleanSteps,
    Count,
    Dimensions,
    Evaluation,
    HeldRows,
    Many,
    Names,
    Positive,
    RecipeTable,
    Schedule,
    Seed,
    Share,
    Two,
    check_titles,
    key,
    needed,
    unknown_key,
)


@dataclass(frozen=True)
class LessonKind:
    """A kind of task: the columns it needs, those it may have, its usual batch."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    size: int = 64


BASE = "base"  # the weights that the first stage starts from
LESSONS = {
    "scores": LessonKind(("left", "right", "score"), size=40),
    "pairs": LessonKind(("a", "b"), ("label", "key")),
    "groups": LessonKind(("group", "text")),
    "senses": LessonKind(("a", "b"), ("same", "target", "sense_a", "sense_b"), size=26),
    "translations": LessonKind(size=96),
    "neighbours": LessonKind(size=36),
    "swaps": LessonKind(size=48),
    "passages": LessonKind(size=24),
    "teacher": LessonKind(),
}
_GONE = {  # kinds of older recipes
    "likeness": 'is "neighbours" now, which orders sentences as the teacher does. Write that.',
    "links": 'is gone; "senses" teaches words in their sentence. Write that, or remove the task.',
    "names": 'is "groups" now: columns = { group = "code", text = "name" }. Write that.',
}


class HeldPairs(RecipeTable):
    """[held_out]: sentence pairs that no parallel file teaches; they measure the bundle."""

    files: Names = needed("The files, under the data root.")
    source: str = needed("The column in the teacher's language.")
    target: str = needed("The column with its translation.")
    pairs: Positive = key(1000, "How many pairs, those of smallest sha1, no sentence twice.")


class DistilledFiles(RecipeTable):
    """The keys that [[parallel]] and [[text]] share."""

    files: Names = needed("The files, under the data root.", min_length=1)
    name: str = key("", "What tasks call it; the first file's name when left out.")
    words: Two[int] | None = key(None, "Distil only texts (sources) of [fewest, most] words.")
    limit: Count = key(0, "Distil only so many rows, drawn at random; 0 means all.")
    join: Two[int] | None = key(None, "Join runs of [fewest, most] rows into passages.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")

    @property
    def title(self) -> str:
        """What tasks call it: its name, or its first file's."""
        return self.name or Path(self.files[0]).stem

    @check(mode="after")
    def _spans(self) -> Self:
        for name, span, least in (("join", self.join, 1), ("words", self.words, 0)):
            if span is not None and not least <= span[0] <= span[1]:
                raise OptionError(
                    f"{name} is {list(span)}; expected [fewest, most] from {least} on. Swap them."
                )
        return self


class Parallel(DistilledFiles):
    """[[parallel]]: files of sentences with their translations."""

    source: Names = key(("en",), "Columns in the language that the teacher knows.", min_length=1)
    target: Names = key(("ko",), "Columns with the translations, one for each source column.")
    weight: Amount = key(1.0, "How often a sentence is drawn, next to the other entries.")
    align: Count = key(1, "How often it counts for the alignment; 0 leaves it out there.")
    pieces: Count = key(1, "How often it counts for the vocabulary; 0 leaves it out there.")
    plain: bool = key(False, "Distil no mark-up, placeholders or loose translations.")
    languages: Two[str] = key(("en", "ko"), "The languages of source and target.")

    @check(mode="after")
    def _fits(self) -> Self:
        if len(self.source) != len(self.target):
            raise OptionError(
                f"there are {len(self.source)} source and {len(self.target)} target columns; "
                "expected as many. Name them in pairs."
            )
        return self


class Text(DistilledFiles):
    """[[text]]: text in one language, whose goals are the teachers' vectors of itself."""

    columns: Names = key((), "The columns that are read; a file without any has a text a line.")
    language: str = key("ko", "Its language.")
    weight: Amount = key(1.0, "How often a text is drawn, next to the other entries.")


class TeacherRecipe(RecipeTable):
    """[[teachers]]: one of several models whose vectors are joined into one goal."""

    model: str = needed("A bundle, a folder, package:NAME/PATH, or an ONNX file of strings.")
    weight: AboveZero = key(1.0, "Its share of the goal's similarities.")
    languages: Names = key((), "Those it is trusted for, the best first; all when empty.")
    sides: Literal["first", "mean"] = key(
        "first", "Of a pair: its best language alone, or the mean of both."
    )
    entries: Names = key((), "The [[parallel]] and [[text]] it is trusted for; all when empty.")


class Texts(RecipeTable):
    """[[vocabulary.text]] and [[vocabulary.terms]]: files of text."""

    files: Names = needed("The files, under the data root.", min_length=1)
    columns: Names = needed("The columns that are read.", min_length=1)
    weight: Positive = key(1, "How often each text counts.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")


class VocabularyRecipe(RecipeTable):
    """[vocabulary]: new tokens, learnt from the targets of the parallel files."""

    size: Count = needed("How many tokens to learn, syllables included; 0 learns none.")
    fewest: Positive = key(2, "How often a token must occur.")
    words: Literal["hangul", "letters"] = key(
        "hangul", "What a word is: runs of Hangul, or letters."
    )
    particles: bool = key(True, "Keep Korean particles apart from their nouns.")
    syllables: bool = key(True, "Add every common Hangul syllable of the text.")
    rare: bool = key(False, "Read all other syllables by a token of their onset and vowel.")
    reuse: str = key(r"\[unused\d+\]", "A pattern of old tokens whose rows may be taken.")
    init: Literal["align", "mean", "random"] = key("align", "Where the new rows start.")
    text: Many[Texts] = key((), "More text to learn from.")
    terms: Many[Texts] = key((), "Terms whose words become whole tokens.")
    term_words: int = key(2000, "The most words of the terms that are added.")

    @field_validator("reuse")
    @classmethod
    def _is_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(
                f"reuse is no pattern ({error}); expected a regular expression. Escape signs "
                "such as ( with a backslash."
            ) from error
        return pattern


class Align(RecipeTable):
    """[align]: how new rows are brought to their translations before any transformer step."""

    renamed: ClassVar[dict[str, str]] = {
        "sharp": 'only method = "ibm1" used it, which is gone. Remove the key.'
    }

    method: Literal["regression"] = key("regression", "How rows are fitted.")
    epochs: AboveZero = key(3.0, "Passes over the pairs, for regression.")
    learning_rate: AboveZero = key(0.03, "The learning rate of the regression.")
    batch: Positive = key(4096, "Pairs in a batch.")
    longest: Positive = key(64, "Tokens of a sentence that are read.")
    rounds: Positive = key(4, "Rounds of IBM model 1, which finds words to swap and to mix.")


class StageSchedule(RecipeTable):
    """The keys that [distil] and [[tune]] share: how long, how fast, what is kept."""

    steps: Count = key(0, "End after so many steps; 0 sets no limit.")
    minutes: Amount = key(0.0, "End after so many minutes; 0 sets no limit.")
    longest: Positive = key(64, "Tokens of a text that are read.")
    learning_rate: AboveZero = key(2e-4, "The learning rate of the layers.")
    old_rows: Amount = key(1e-4, "The learning rate of the old embedding rows.")
    new_rows: Amount = key(1e-3, "The learning rate of the new embedding rows.")
    frozen_layers: Count = key(0, "So many first layers are not trained.")
    warmup: Share = key(0.05, "The share of the stage in which the rates rise.")
    floor: Share = key(0.02, "The share of the rates at the end.")
    weight_decay: Amount = key(0.01, "Weight decay of the layers.")
    clip: AboveZero = key(1.0, "The largest norm of the gradient.")
    average: Share = key(0.998, "The moving average that the stage hands on; 0 for none.")
    evaluate_steps: Count = key(0, "Evaluate every so many steps and keep the best; 0: the end.")

    @check(mode="after")
    def _ends(self) -> Self:
        if not self.steps and not self.minutes:
            raise OptionError("neither steps nor minutes is set; expected one. Add a key.")
        return self

    def schedule(self) -> Schedule:
        """Give the schedule of the training loop."""
        shared = type(self).model_fields.keys() & Schedule.model_fields.keys()
        found: dict[str, Any] = {name: getattr(self, name) for name in shared}
        return Schedule(**found | {"epochs": 0, "warmup": min(self.warmup, 0.999)})


class Distil(StageSchedule):
    """[distil]: the teacher's vectors as goals."""

    tokens: Positive = key(4096, "Padded tokens in a step.")
    source_share: Share = key(0.2, "The share of the steps that read the teacher's own language.")
    goal: Literal["turned", "projection"] = key(
        "turned", "Several teachers: one vector turned onto the student, or through a layer."
    )
    contrast: float = key(0.15, "The weight of the in-batch term; 0 for none.")
    temperature: AboveZero = key(0.05, "The temperature of the in-batch term.")


class ExtraFiles(RecipeTable):
    """[[task.also]]: more files of a task, with columns of their own."""

    files: Names = needed('The files; "package:malmoi/data/…" comes with malmoi.', min_length=1)
    columns: dict[str, str] = needed("The same roles as the task's columns.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")
    split: str = key("", "What separates several texts in the last column's cell.")


class LessonRecipe(RecipeTable):
    """[[task]]: something to learn besides the teacher's vectors."""

    kind: Literal[
        "scores", "pairs", "groups", "senses", "translations", "neighbours", "swaps", "passages",
        "teacher",
    ] = needed("What is learnt; see docs/distillation.md.")  # fmt: skip
    name: str = key("", "What the log and [[tune]] call it; the first file's name if left out.")
    files: Names = key((), "The files, under the data root.")
    columns: dict[str, Any] = key({}, "The files' columns by role; the kind says which.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")
    parallel: Names = key((), "The names of the [[parallel]] it reads; all when empty.")
    positive: str = key("", "The label of what belongs to a text.")
    negative: str = key("", "The label of hard negatives.")
    weight: Amount = key(1.0, "How often it is drawn, next to the other tasks.")
    size: Count = key(0, "Examples in a batch; 0 takes the kind's own number.")
    run: Positive = key(1, "Draw so many neighbouring rows together.")
    most: Count = key(0, "The most texts of a group, or of each parallel entry; 0 means all.")
    draws: dict[str, int] = key({}, "The same, by parallel entry.")
    teacher_share: Share = key(0.0, "scores: this share of the score is the teacher's similarity.")
    highest: AboveZero = key(1.0, "scores: the highest score.")
    text: Names = key((), "passages: the names of the [[text]] it reads.")
    join: Two[int] = key((3, 8), "passages: the rows of a passage, [fewest, most].")
    inside: Share = key(0.2, "passages: how often the sentence asked for stays in the passage.")
    layers: Many[int] = key((4,), "senses: the hidden layers that learn.")
    each: int = key(5, "senses: sentences of a word in a batch.", ge=2)
    drop: Share = key(0.1, "senses: dropout in this task.")
    near: int = key(64, "neighbours, swaps: the neighbours of a sentence or a word.", ge=2)
    relations: float = key(1.0, "neighbours, swaps: the weight of the order of pairs.")
    tokens: Positive = key(2048, "teacher: padded tokens in a batch.")
    contrast: float = key(0.15, "teacher, neighbours, swaps: the weight of the in-batch term.")
    source_share: Share = key(0.2, "teacher, neighbours: how often the source is read.")
    mixed: Share = key(0.0, "teacher, swaps: translations with some words of the source.")
    dropped: Share = key(0.0, "teacher, swaps: the share of tokens that is left out.")
    also: Many[ExtraFiles] = key((), "More files of the task.")

    @property
    def title(self) -> str:
        """What the log and a [[tune]]'s weights call it."""
        return self.name or (Path(self.files[0]).stem if self.files else self.kind)

    @field_validator("kind", mode="before")
    @classmethod
    def _is_left(cls, kind: Any) -> Any:
        if isinstance(kind, str) and kind in _GONE:
            raise OptionError(f'the kind "{kind}" of older recipes {_GONE[kind]}')
        return kind

    @check(mode="after")
    def _fits(self) -> Self:
        kind = LESSONS[self.kind]
        known = (*kind.needed, *kind.optional)
        for name, value in self.columns.items():
            if name not in known:
                raise unknown_key(name, known, f"columns of {self.kind}")
            self._check_column(name, value)
        for name in kind.needed:
            if name not in self.columns:
                reads = f"{self.kind} reads {', '.join(known)}"
                raise OptionError(f"columns has no {name}; {reads}. Add it.")
        if kind.needed and not self.files:
            raise OptionError("files is empty; expected one or more. Add one.")
        for i, more in enumerate(self.also):
            if set(more.columns) != set(self.columns):
                raise OptionError(
                    f"also[{i}].columns names {', '.join(more.columns) or 'nothing'}; expected "
                    f"the task's {', '.join(self.columns) or 'files to have columns'}. Name these."
                )
        self._check_choices()
        return self

    def _check_column(self, name: str, value: object) -> None:
        several = self.kind == "scores" and name in ("left", "right")
        listed = several and isinstance(value, list) and all(isinstance(v, str) for v in value)
        if not isinstance(value, str) and not listed:
            expected = "a column or a list of columns" if several else "the name of a column"
            raise OptionError(f"columns.{name} is {value!r}; expected {expected}. Name it.")

    def _check_choices(self) -> None:
        """Check keys and columns of which a task needs one or the other."""
        found = set(self.columns)
        if "label" in found and not self.positive:
            raise OptionError(
                "label is a column and positive is empty; expected its value. Add it."
            )
        if self.kind == "senses" and not (
            "same" in found or {"target", "sense_a", "sense_b"} <= found
        ):
            raise OptionError(
                "columns says nothing of the senses; expected same, or target, sense_a and "
                "sense_b. Add them."
            )


class Tune(StageSchedule):
    """[[tune]]: one stage on all tasks together."""

    learning_rate: AboveZero = key(1e-4, "The learning rate of the layers.")
    old_rows: Amount = key(5e-5, "The learning rate of the old embedding rows.")
    new_rows: Amount = key(4e-4, "The learning rate of the new embedding rows.")
    together: Positive = key(3, "Tasks that are drawn by weight in each step.")
    start: Literal["average", "last"] = key(
        "average", "Start from the stage before: which weights."
    )
    mix: dict[str, float] = key({}, "Start from a mean of base, distil, tune-1 … with shares.")
    weights: dict[str, float] = key({}, "This stage's own weights by task; 0 leaves one out.")
    sizes: dict[str, Positive] = key({}, "This stage's own batch sizes by task.")
    lead: Names = key((), "Tasks in every step, besides those drawn.")
    others: float = key(1.0, "What the losses of the other tasks count.")
    turns: Many[Names] = key((), 'Lists of tasks of which each step takes the next; "" is none.')
    factors: dict[str, float] = key({}, "Factors of the losses of lead and turns, by task.")
    own_goals: bool = key(False, "The teacher is the student itself, as the stage finds it.")
    dropout: Share = key(0.0, "Dropout in all tasks.")


class StaticTwin(RecipeTable):
    """[output.static]: a model of one vector for each token, learnt from the bundle's vectors."""

    name: str = needed("Its name; its folder is static.")
    dim: Positive = key(192, "Its dimensions.")


class DistillationOutput(BundleOutput):
    """[output]: where the run writes, how often it saves, and the form of the result."""

    checkpoint_minutes: float = key(5.0, "Save a checkpoint every so many minutes; 0 never.")
    cache: str = key("", "A folder for the teacher's vectors that runs may share, one at a time.")
    static: StaticTwin | None = key(None, "Also write the static twin of the bundle.")


class Distillation(BaseRecipe):
    """A model of one language carried over to another, by the vectors of a teacher."""

    base: str = needed("The student: a transformer with its pooling.")
    parallel: Many[Parallel] = needed("Sentences with their translations.")
    output: DistillationOutput = needed("Where the run writes.")
    distil: Distil = needed("The distillation.")
    objective: Literal["distil"] = key("distil", "Chooses this kind of recipe.")
    teacher: str = key("", "Any encoder as wide as the student; the base when left out.")
    teachers: Many[TeacherRecipe] = key((), "Several teachers, joined into one goal.")
    text: Many[Text] = key((), "Text in one language.")
    languages: Names = key((), "The languages, for the card.")
    max_tokens: int | None = key(None, "What the bundle reads; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    precision: Literal["auto", "float32", "bfloat16"] = key("auto", "Of the layers in training.")
    seed: Seed = key(1, SEED)
    matryoshka: Dimensions = key((), "Tune these prefixes of the vector too.")
    short_weight: float = key(0.3, "What each of the shorter ones counts.")
    mix: dict[str, float] = key({}, "The result is a mean of stages or base with shares.")
    held_out: HeldPairs | None = key(None, "Pairs that measure the bundle.")
    vocabulary: VocabularyRecipe | None = key(None, "New tokens; without it the tokenizer stays.")
    align: Align = key(Align(), "Where their rows start.")
    task: Many[LessonRecipe] = key((), "What is tuned on.")
    tune: Many[Tune] = key((), "The tuning stages.")
    evaluation: Many[Evaluation] = key((), "What measures stages and bundle.")

    @check(mode="after")
    def _fits(self) -> Self:
        if not any(entry.weight for entry in self.parallel):
            raise OptionError("no [[parallel]] has a weight; expected one or more. Add one.")
        if self.tune and not self.task:
            raise OptionError("[[tune]] has no [[task]] to learn; expected one or more. Add one.")
        entries = [entry.title for entry in self.parallel]
        texts = [entry.title for entry in self.text]
        check_titles([*entries, *texts], "[[parallel]] or [[text]]")
        if self.teacher and self.teachers:
            raise OptionError("teacher and [[teachers]] are both set; expected one. Remove one.")
        for i, one in enumerate(self.teachers):
            _check_known(one.entries, [*entries, *texts], f"teachers[{i}].entries")
        self._check_trust()
        check_titles((task.title for task in self.task), "[[task]]")
        check_titles((one.title for one in self.evaluation), "[[evaluation]]")
        for i, task in enumerate(self.task):
            _check_known((*task.parallel, *task.draws), entries, f"task[{i}].parallel")
            _check_known(task.text, texts, f"task[{i}].text")
        for i, stage in enumerate(self.tune):
            self._check_stage(stage, i)
        self._check_mix(self.mix, len(self.tune), "mix")
        return self

    def _check_stage(self, stage: Tune, number: int) -> None:
        where = f"tune[{number}]"
        titles = [task.title for task in self.task]
        turns = [name for names in stage.turns for name in names if name]
        named = (*stage.weights, *stage.sizes, *stage.factors, *stage.lead, *turns)
        _check_known(named, titles, f"{where} names a task")
        weights = [stage.weights.get(task.title, task.weight) for task in self.task]
        if min(weights) < 0 or not (any(weights) or stage.lead or turns):
            raise OptionError(
                f"{where}: no task has a weight above 0, or one is below 0; expected 0 or more and "
                f"one above it. Change {where}.weights."
            )
        self._check_mix(stage.mix, number, f"{where}.mix")

    def _check_trust(self) -> None:
        """Raise unless every text that is learnt has a teacher who reads its language."""
        entries: list[Parallel | Text] = [*self.parallel, *self.text]
        for entry in entries:
            known = entry.languages if isinstance(entry, Parallel) else (entry.language,)
            if self.teachers and not any(trusted(one, entry, known) for one in self.teachers):
                raise OptionError(
                    f"no teacher is trusted for {entry.title} in {' or '.join(known)}; expected "
                    "one or more. Add a language to one of [[teachers]], or leave the entry out."
                )

    def _check_mix(self, mix: dict[str, float], stages: int, where: str) -> None:
        _check_known(mix, [BASE, "distil", *(f"tune-{i + 1}" for i in range(stages))], where)
        # One share may be below 0: a little beyond the last stage, away from the one before.
        if mix and not sum(mix.values()) > 0:
            raise OptionError(
                f"the shares of {where} add up to 0 or less; expected more than 0. Raise one."
            )


def trusted(
    teacher: TeacherRecipe, entry: Parallel | Text, languages: Iterable[str]
) -> tuple[str, ...]:
    """Give the languages of an entry that a teacher is trusted for, its best first."""
    if teacher.entries and entry.title not in teacher.entries:
        return ()
    own = tuple(languages)
    return tuple(one for one in teacher.languages if one in own) if teacher.languages else own


def _check_known(names: Iterable[str], known: list[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise unknown_key(name, known, where)
