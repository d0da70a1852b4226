"""A recipe with `objective = "pretrain"`: frozen dataclasses, checked on reading, without torch."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from ...errors import OptionError
from ..checks import check_clean, check_run
from ..recipe import DECAYS, Output, Schedule
from ..settings import read_table
from ..stages import Stage

WORDS = ("whitespace", "morphemes", "pieces")


@dataclass(frozen=True)
class LeaveOut:
    """Files whose documents must not be learnt from: by the value of `id`, and by their text."""

    files: tuple[str, ...]
    id: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Also:
    """More files, with columns of their own."""

    files: tuple[str, ...]
    columns: tuple[str, ...] = ("text",)
    id: str = ""
    lines: bool = False


@dataclass(frozen=True)
class TextData:
    """Where the text is.

    .txt files hold a sentence a line, with blank lines between documents, or a document a line
    where `lines` is said; rows of .jsonl, .tsv and .csv are documents, their `columns` joined.
    `held_out` is the share of documents that perplexity is measured on, `id` the column that
    `leave_out` compares. Files of another form stand under `also`.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...] = ("text",)
    id: str = ""
    lines: bool = False
    also: tuple[Also, ...] = ()
    held_out: float = 0.05
    leave_out: tuple[LeaveOut, ...] = ()
    limit: int = 0

    @property
    def parts(self) -> tuple[Also, ...]:
        """All files, each with how it is read."""
        return (Also(self.files, self.columns, self.id, self.lines), *self.also)


@dataclass(frozen=True)
class Masking:
    """What is hidden: a `share` of the pieces, whole `words` at a time; `next_sentence` or not."""

    share: float = 0.15
    words: str = "whitespace"
    next_sentence: bool = False


@dataclass(frozen=True)
class Scratch:
    """The BERT that is made where no base is named."""

    layers: int = 4
    hidden: int = 256
    heads: int = 4
    vocabulary: int = 8000


@dataclass(frozen=True)
class Pretraining(Stage):
    """A whole run: continued from `base`, or from scratch where it is left out.

    `extend` teaches the base's tokenizer so many new pieces. In the first `head_steps` only the
    head learns: an encoder that has none would be spoilt by a fresh one.
    """

    name: str
    data: TextData
    output: Output
    base: str = ""
    objective: str = "pretrain"
    max_tokens: int = 128
    clean: tuple[str, ...] | None = None
    dropout: float = 0.1
    extend: int = 0
    head_steps: int = 0
    measured: int = 256
    seed: int = 1
    masking: Masking = field(default_factory=Masking)
    scratch: Scratch = field(default_factory=Scratch)
    schedule: Schedule = field(default_factory=Schedule)

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        return dataclasses.asdict(self)


def make(table: dict[str, Any], *, where: str = "the recipe") -> Pretraining:
    """Make the recipe from parsed TOML, and check it."""
    recipe = read_table(Pretraining, table, where=where)
    for value, known, key in (
        (recipe.masking.words, WORDS, "masking.words"),
        (recipe.schedule.decay, DECAYS, "schedule.decay"),
    ):
        if value not in known:
            raise OptionError(f'{where}: {key} is "{value}"; known are {", ".join(known)}.')
    check_clean(recipe.clean, where=where)
    check_run(recipe.schedule, recipe.output, seed=recipe.seed, where=where, smallest_batch=1)
    scratch = recipe.scratch
    for key, number, good in (
        ("data.held_out", recipe.data.held_out, 0 < recipe.data.held_out < 1),
        ("masking.share", recipe.masking.share, 0 < recipe.masking.share < 1),
        ("dropout", recipe.dropout, 0 <= recipe.dropout < 1),
        ("max_tokens", recipe.max_tokens, recipe.max_tokens >= 8),
        ("extend", recipe.extend, recipe.extend >= 0),
        ("head_steps", recipe.head_steps, recipe.head_steps >= 0),
        ("measured", recipe.measured, recipe.measured >= 1),
        ("scratch.layers", scratch.layers, scratch.layers >= 1),
        ("scratch.hidden", scratch.hidden, scratch.hidden >= 1),
        ("scratch.heads", scratch.heads, scratch.heads >= 1),
        ("scratch.heads", scratch.heads, scratch.hidden % max(scratch.heads, 1) == 0),
        ("scratch.vocabulary", scratch.vocabulary, scratch.vocabulary >= 100),
    ):
        if not good:
            raise OptionError(f"{where}: {key} is {number}, out of its range. Correct it.")
    if not all(part.files for part in recipe.data.parts):
        raise OptionError(f"{where}: data.files is empty; expected text to learn from. Add some.")
    if any((one.id == "") == (one.columns == ()) for one in recipe.data.leave_out):
        raise OptionError(f"{where}: data.leave_out needs an id or columns, one of them. Add it.")
    return recipe
