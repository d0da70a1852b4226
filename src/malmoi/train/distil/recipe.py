"""A recipe with `objective = "distil"`, key by key: teachers, student, data, schedule."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import model_validator as check

from ...errors import OptionError
from ..schema import (
    CLEAN,
    SEED,
    AboveZero,
    Amount,
    BaseRecipe,
    CleanSteps,
    Count,
    Evaluation,
    HeldRows,
    Many,
    Names,
    Output,
    Positive,
    RecipeTable,
    Schedule,
    Seed,
    Share,
    Two,
    check_titles,
    key,
    needed,
    unknown_value,
)

_LABORATORY = "it belongs to how ko-en-small was made (research/ko_en_small). Remove it."
_TOKENS = "a distillation adds no tokens; pretraining does (extend). Remove it."


class HeldPairs(RecipeTable):
    """[held_out]: sentence pairs that no parallel file teaches; they measure the bundle."""

    files: Names = needed("The files, under the data root.")
    source: str = needed("The column in the teacher's language.")
    target: str = needed("The column with its translation.")
    pairs: Positive = key(1000, "How many pairs, those of smallest sha1, no sentence twice.")


class DistilledFiles(RecipeTable):
    """The keys that [[parallel]] and [[text]] share."""

    files: Names = needed("The files, under the data root.", min_length=1)
    name: str = key("", "Its name; the first file's name when left out.")
    words: Two[int] | None = key(None, "Distil only texts (sources) of [fewest, most] words.")
    limit: Count = key(0, "Distil only this many rows, drawn at random; 0 means all.")
    join: Two[int] | None = key(None, "Join runs of [fewest, most] rows into passages.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")

    @property
    def title(self) -> str:
        """Its name, or its first file's."""
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

    renamed: ClassVar[dict[str, str]] = {"align": _LABORATORY, "pieces": _TOKENS}

    source: Names = key(("en",), "Columns in the language that the teacher knows.", min_length=1)
    target: Names = key(("ko",), "Columns with the translations, one for each source column.")
    weight: Amount = key(1.0, "How often a sentence is drawn, next to the other entries.")
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

    columns: Names = key((), "The columns that are read; without any, the files have one per line.")
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


class Distil(RecipeTable):
    """[distil]: how long, how fast, and what a step reads."""

    renamed: ClassVar[dict[str, str]] = {
        "old_rows": "embedding_rate",
        "new_rows": _TOKENS,
        "goal": "the goals are always turned onto the student. Remove it.",
        "frozen_layers": "all layers are trained. Remove it.",
    }

    steps: Count = key(0, "End after this many steps; 0 sets no limit.")
    minutes: Amount = key(0.0, "End after this many minutes; 0 sets no limit.")
    tokens: Positive = key(4096, "Padded tokens in a step.")
    longest: Positive = key(64, "Tokens of a text that are read.")
    source_share: Share = key(0.2, "The share of the steps that read the teacher's own language.")
    contrast: float = key(0.15, "The weight of the in-batch term; 0 for none.")
    temperature: AboveZero = key(0.05, "The temperature of the in-batch term.")
    learning_rate: AboveZero = key(2e-4, "The learning rate of the layers.")
    embedding_rate: Amount = key(1e-4, "The learning rate of the embedding rows.")
    warmup: Share = key(0.05, "The share of the run in which the rates rise.")
    floor: Share = key(0.02, "The share of the rates at the end.")
    weight_decay: Amount = key(0.01, "Weight decay of the layers.")
    clip: AboveZero = key(1.0, "The largest norm of the gradient.")
    average: Share = key(0.998, "The moving average of the weights; 0 for none.")
    evaluate_steps: Count = key(0, "Evaluate every this many steps, keep the best; 0: the end.")

    @check(mode="after")
    def _ends(self) -> Self:
        if not self.steps and not self.minutes:
            raise OptionError("neither steps nor minutes is set; expected one. Add a key.")
        return self


class DistillationOutput(Output):
    """[output]: where the run writes, how often it saves, and the form of the result."""

    renamed: ClassVar[dict[str, str]] = {
        "static": "write the static model afterwards with: malmoi export --static. Remove it."
    }

    cache: str = key("", "A folder for the teacher's vectors that runs may share, one at a time.")


class Distillation(BaseRecipe):
    """A model of one language carried over to another, by the vectors of a teacher."""

    renamed: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("task", "tune", "mix", "short_weight", "matryoshka"), _LABORATORY),
        **dict.fromkeys(("vocabulary", "align"), _TOKENS),
    }

    base: str = needed("The student: a transformer with its pooling.")
    parallel: Many[Parallel] = needed("Sentences with their translations.")
    output: DistillationOutput = needed("Where the run writes.")
    distil: Distil = needed("How long and how fast.")
    objective: Literal["distil"] = key("distil", "Chooses this kind of recipe.")
    teacher: str = key("", "Any encoder as wide as the student; the base when left out.")
    teachers: Many[TeacherRecipe] = key((), "Several teachers, joined into one goal.")
    text: Many[Text] = key((), "Text in one language.")
    languages: Names = key((), "The languages, for the card.")
    max_tokens: int | None = key(None, "What the bundle reads; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    precision: Literal["auto", "float32", "bfloat16"] = key("auto", "Of the layers in training.")
    seed: Seed = key(1, SEED)
    held_out: HeldPairs | None = key(None, "Pairs that measure the bundle.")
    evaluation: Many[Evaluation] = key((), "What measures the student and its bundle.")

    @property
    def schedule(self) -> Schedule:
        """The schedule of the training loop."""
        shared = Distil.model_fields.keys() & Schedule.model_fields.keys()
        found = {name: getattr(self.distil, name) for name in shared}
        return Schedule(**found | {"epochs": 0, "warmup": min(self.distil.warmup, 0.999)})

    @check(mode="after")
    def _fits(self) -> Self:
        if not any(entry.weight for entry in self.parallel):
            raise OptionError("no [[parallel]] has a weight; expected one or more. Add one.")
        if self.teacher and self.teachers:
            raise OptionError("teacher and [[teachers]] are both set; expected one. Remove one.")
        titles = [entry.title for entry in (*self.parallel, *self.text)]
        check_titles(titles, "[[parallel]] or [[text]]")
        check_titles((one.title for one in self.evaluation), "[[evaluation]]")
        for i, one in enumerate(self.teachers):
            check_known(one.entries, titles, f"teachers[{i}].entries")
        self._check_trust()
        return self

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


def trusted(
    teacher: TeacherRecipe, entry: Parallel | Text, languages: Iterable[str]
) -> tuple[str, ...]:
    """Give the languages of an entry that a teacher is trusted for, its best first."""
    if teacher.entries and entry.title not in teacher.entries:
        return ()
    own = tuple(languages)
    return tuple(one for one in teacher.languages if one in own) if teacher.languages else own


def check_known(names: Iterable[str], known: list[str], where: str) -> None:
    """Raise an OptionError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise unknown_value(name, known, where)
