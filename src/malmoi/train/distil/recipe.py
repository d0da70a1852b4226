"""A recipe with `objective = "distil"`: frozen dataclasses with visible defaults.

Nothing heavy is imported here, so a slip in a recipe is told within a second.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..recipe import Evaluation

OBJECTIVE = "distil"
STARTS = ("average", "last")
INITS = ("align", "mean", "random")
METHODS = ("regression", "ibm1", "both")
WORDS = ("hangul", "letters")
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class HeldRows:
    """Rows kept for measuring: those whose `by` column has a sha1 that `one_in` divides."""

    by: str
    one_in: int = 10


@dataclass(frozen=True)
class HeldPairs:
    """Pairs kept for measuring, none of whose sentences is taught by any parallel file.

    They are the `pairs` of smallest sha1 of "source TAB target" in the files, no sentence twice.
    """

    files: tuple[str, ...]
    source: str
    target: str
    pairs: int = 1000


@dataclass(frozen=True)
class Parallel:
    """Files of sentences with their translations; `source` is the language the teacher knows.

    Several columns on each side are read pair by pair: the first source with the first target.
    A sentence is drawn in proportion to `weight`; `align` and `pieces` say how often it counts
    for the alignment and for the vocabulary; 0 leaves the files out there. For the distillation
    alone, `words` bounds the words of the source, `plain` leaves out mark-up and loose
    translations, and `limit` draws so many rows at random.
    """

    files: tuple[str, ...]
    source: tuple[str, ...]
    target: tuple[str, ...]
    name: str = ""
    weight: float = 1.0
    align: int = 1
    pieces: int = 1
    words: tuple[int, int] | None = None
    plain: bool = False
    limit: int = 0
    where: dict[str, str] = field(default_factory=dict)
    held_out: HeldRows | None = None

    @property
    def title(self) -> str:
        """What tasks call it: its name, or its first file's."""
        return self.name or Path(self.files[0]).stem


@dataclass(frozen=True)
class Texts:
    """Files of text in one or several columns, each text counted `weight` times."""

    files: tuple[str, ...]
    columns: tuple[str, ...]
    weight: int = 1
    where: dict[str, str] = field(default_factory=dict)
    held_out: HeldRows | None = None


@dataclass(frozen=True)
class Vocabulary:
    """Pieces to learn from the parallel files' targets and from further `text`.

    `particles` keeps Korean particles apart from their nouns; `syllables` adds every common
    Hangul syllable that the text holds; `words` are runs of Hangul, or of any letters; a piece
    occurs `fewest` times or more. `reuse` (a pattern) names old pieces that give up their rows.
    `terms` adds up to `term_words` whole words that the tokenizer would break.
    `init` is where new rows begin: at their translations, the mean of their old pieces, anywhere.
    """

    size: int
    fewest: int = 2
    words: str = "hangul"
    particles: bool = True
    syllables: bool = True
    reuse: str = r"\[unused\d+\]"
    init: str = "align"
    text: tuple[Texts, ...] = ()
    terms: tuple[Texts, ...] = ()
    term_words: int = 2000


@dataclass(frozen=True)
class Align:
    """How new rows are brought to their translations before any transformer step.

    `regression` makes the weighted mean of a sentence's rows equal that of its translation's,
    `ibm1` takes the rows of the old pieces that a new one translates to, `both` starts the first
    with the second.
    """

    method: str = "regression"
    epochs: float = 3.0
    learning_rate: float = 0.03
    batch: int = 4096
    longest: int = 64
    rounds: int = 4
    sharp: float = 1.5


@dataclass(frozen=True)
class StageSchedule:
    """What the two trainings share: how long, how fast, and what is kept of the weights.

    A stage ends after `steps` or `minutes`, whichever comes first; 0 sets no bound. Texts are cut
    at `longest` tokens. The rates are those of the layers, of the old and of the new rows of the
    embedding table. `average` above 0 keeps a moving average of the weights, which is what the
    stage hands on.
    """

    steps: int = 0
    minutes: float = 0.0
    longest: int = 64
    learning_rate: float = 2e-4
    old_rows: float = 1e-4
    new_rows: float = 1e-3
    frozen_layers: int = 0
    warmup: float = 0.05
    floor: float = 0.02
    weight_decay: float = 0.01
    clip: float = 1.0
    average: float = 0.998


@dataclass(frozen=True)
class Distil(StageSchedule):
    """The teacher's vectors as goals.

    A step holds `tokens` padded tokens; `source_share` of the steps read the teacher's own
    language; `contrast` weighs the in-batch term, at its `temperature`, against the distance.
    """

    tokens: int = 4096
    source_share: float = 0.2
    contrast: float = 0.15
    temperature: float = 0.05


@dataclass(frozen=True)
class ExtraFiles:
    """Further files of a task, whose columns are called otherwise.

    With `split`, the cell of the last column holds several texts with that between them.
    """

    files: tuple[str, ...]
    columns: dict[str, str]
    where: dict[str, str] = field(default_factory=dict)
    held_out: HeldRows | None = None
    split: str = ""


@dataclass(frozen=True)
class LessonRecipe:
    """Something to learn besides the teacher: files of one form, and how they are learnt from.

    `kind` is one of the KINDS in `checks`, which say what `columns` it reads. Tasks are drawn by
    `weight`; a batch holds `size` examples (0: the kind's own). `positive` and `negative` are the
    labels of what belongs to a text and what does not. `run` draws stretches of so many
    neighbouring rows; `most` takes so many texts of a group, and so many of each parallel entry
    (`draws` says it by entry). A share of the scores, whose highest is `highest`, may be the
    teacher's likeness (`teacher_share`). Words are told apart in the hidden `layers`, `each` of a
    word's sentences at a time, with a dropout of `drop`. A sentence has `near` neighbours, whose
    order counts `relations`; so has a word that is swapped. A share `mixed` of the translations
    is read with some words of the other language, and of each a share `dropped` of its pieces is
    left out. `also` are further files of the task; a file that comes with malmoi is named
    "package:malmoi/data/…".
    """

    kind: str
    name: str = ""
    files: tuple[str, ...] = ()
    columns: dict[str, Any] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    held_out: HeldRows | None = None
    parallel: tuple[str, ...] = ()
    positive: str = ""
    negative: str = ""
    weight: float = 1.0
    size: int = 0
    run: int = 1
    most: int = 0
    draws: dict[str, int] = field(default_factory=dict)
    teacher_share: float = 0.0
    highest: float = 1.0
    layers: tuple[int, ...] = (4,)
    each: int = 5
    drop: float = 0.1
    near: int = 64
    relations: float = 1.0
    tokens: int = 2048
    contrast: float = 0.15
    source_share: float = 0.2
    mixed: float = 0.0
    dropped: float = 0.0
    also: tuple[ExtraFiles, ...] = ()

    @property
    def title(self) -> str:
        """What the log and a [[tune]]'s weights call it."""
        return self.name or (Path(self.files[0]).stem if self.files else self.kind)


@dataclass(frozen=True)
class Tune(StageSchedule):
    """One stage on all tasks together; a step adds up `together` of them.

    It starts from the averaged weights of the stage before, or from its last ones, or from a
    `mix` of stages by name (distil, tune-1, …), each with its share. `weights` replaces those of
    the tasks by name, 0 leaving one out, and `sizes` their batches. The tasks in `lead` take part
    in every step besides, and the others then count `others` of their loss. Each list in `turns`
    adds the next of its tasks to a step, "" for none; `factors` are those of a task's loss when it
    leads or has its turn. With `own_goals` the teacher is the student itself, as it starts here:
    the language it knows best teaches the other. `dropout` is in all its lessons.
    """

    learning_rate: float = 1e-4
    old_rows: float = 5e-5
    new_rows: float = 4e-4
    together: int = 3
    start: str = "average"
    mix: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    lead: tuple[str, ...] = ()
    others: float = 1.0
    turns: tuple[tuple[str, ...], ...] = ()
    factors: dict[str, float] = field(default_factory=dict)
    own_goals: bool = False
    dropout: float = 0.0


@dataclass(frozen=True)
class DistillationOutput:
    """Where the run writes, how often it is saved, and in what form the model leaves it.

    `cache` is a folder for the teacher's vectors that several runs may share, one at a time; the
    run's own when empty.
    """

    folder: str
    precision: tuple[str, ...] = ("float32",)
    layers: str = "none"
    weights: bool = True
    licence: str = ""
    checkpoint_minutes: float = 5.0
    cache: str = ""


@dataclass(frozen=True)
class Distillation:
    """A whole run: vocabulary, alignment, distillation, tuning, export.

    `teacher` is the `base` when left out. Without [vocabulary] the base's tokenizer stays as it
    is; without [[tune]] the distilled model is the result. `clean` is what the bundle does to a
    text before its tokenizer. Shorter prefixes of the vector
    (`matryoshka`) count `short_weight` in the tuning. `mix` makes the result of several stages'
    weights, each with its share; without it, the last stage's are the result.
    """

    name: str
    base: str
    parallel: tuple[Parallel, ...]
    output: DistillationOutput
    distil: Distil
    objective: str = OBJECTIVE
    teacher: str = ""
    languages: tuple[str, ...] = ()
    max_tokens: int | None = None
    clean: tuple[str, ...] | None = None
    precision: str = "auto"
    seed: int = 1
    matryoshka: tuple[int, ...] = ()
    short_weight: float = 0.3
    mix: dict[str, float] = field(default_factory=dict)
    held_out: HeldPairs | None = None
    vocabulary: Vocabulary | None = None
    align: Align = field(default_factory=Align)
    task: tuple[LessonRecipe, ...] = ()
    tune: tuple[Tune, ...] = ()
    evaluation: tuple[Evaluation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return dataclasses.asdict(self)
