"""Evaluation during training: the tasks of `malmoi.evaluate`, one number each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluate import TASKS, Settings
from .schema import Evaluation

_OPTIONS = ("columns", "limit", "dictionary_columns", "hold_out")


@dataclass(frozen=True)
class Measure:
    """One evaluation of a recipe, read and ready: call it with a model for its main score.

    `pairs` are the texts that belong together in its file, to be looked for in the training data.
    """

    title: str
    task: str
    data: Any
    pairs: list[tuple[str, str]]

    def __call__(self, model: object) -> float:
        outcome = TASKS[self.task].measure(model, self.data)
        return float(outcome.values()[outcome.main])


def read_measure(
    entry: Evaluation, root: Path, *, judges: Sequence[str] | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file; `judges` are the labels of a reranker, None for an encoder."""
    task, options = TASKS[entry.task], {name: getattr(entry, name) for name in _OPTIONS}
    dictionary = root / entry.dictionary if entry.dictionary else None
    settings = Settings(strict=strict, dictionary=dictionary, **options)
    rows = task.read(root / entry.file, settings).rows
    task.check_training(rows, judges)  # now, and not after the first epoch
    return Measure(entry.title, entry.task, rows, task.text_pairs(rows))
