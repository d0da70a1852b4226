"""Evaluation during training: the tasks of `malmoi.evaluate`, one number each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluate import concepts, nli, pairs, retrieval, searches, sts
from ..files import Tell
from .recipe import Evaluation

_TASKS: dict[str, Any] = {"sts": sts, "pairs": pairs, "nli": nli, "retrieval": retrieval}
_TASKS["concepts"] = concepts


@dataclass(frozen=True)
class Measure:
    """One evaluation of a recipe, read and ready: call it with a model for its main score.

    `pairs` are the texts that stand together in its file, to be looked for in the training data.
    """

    title: str
    task: str
    data: Any
    pairs: list[tuple[str, str]]

    def __call__(self, model: object) -> float:
        outcome = _TASKS[self.task].measure(model, self.data)
        return float(outcome.values()[outcome.main])


def read_measure(
    entry: Evaluation, root: Path, *, tell: Tell | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file."""
    path = root / entry.file
    if entry.task == "concepts":
        names = concepts.read(
            path,
            columns=entry.columns,
            dictionary=root / entry.dictionary if entry.dictionary else None,
            dictionary_columns=entry.dictionary_columns,
            hold_out=entry.hold_out,
            limit=entry.limit,
            tell=tell,
            strict=strict,
        )
        return Measure(entry.title, entry.task, names, [])
    if entry.task == "retrieval":
        found, _ = searches.read(path, columns=entry.columns, tell=tell, strict=strict)
        together = [
            (query, found.documents[row])
            for query, rows in zip(found.queries, found.relevant, strict=True)
            for row in rows
        ]
        return Measure(entry.title, entry.task, found, together)
    rows = _TASKS[entry.task].read(path, columns=entry.columns, tell=tell, strict=strict).rows
    rows = rows[: entry.limit] if entry.limit else rows
    if entry.task == "nli":
        return Measure(entry.title, entry.task, rows, [row.texts[:2] for row in rows])
    return Measure(entry.title, entry.task, rows, [(row.a, row.b) for row in rows])
