"""Evaluation during training: the tasks of `malmoi.evaluate`, one number each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluate import pairs, sts
from ..files import Tell
from .recipe import Evaluation

_TASKS: dict[str, Any] = {"sts": sts, "pairs": pairs}


@dataclass(frozen=True)
class Measure:
    """One evaluation of a recipe, read and ready: call it with a model for its main score."""

    title: str
    task: str
    rows: Sequence[Any]

    def __call__(self, model: object) -> float:
        outcome = _TASKS[self.task].measure(model, self.rows)
        return float(outcome.values()[outcome.main])


def read_measure(
    entry: Evaluation, root: Path, *, tell: Tell | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file."""
    path = root / entry.file
    found = _TASKS[entry.task].read(path, columns=entry.columns, tell=tell, strict=strict)
    rows = found.rows[: entry.limit] if entry.limit else found.rows
    return Measure(entry.title, entry.task, rows)
