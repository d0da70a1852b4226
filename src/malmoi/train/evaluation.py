"""Evaluation during training: the tasks of `malmoi.evaluate`, one number each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluate import concepts, nli, pairs, retrieval, searches, sts
from ..evaluate.probes import check_probe
from ..evaluate.transfer import labels_of
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
    entry: Evaluation, root: Path, *, judges: Sequence[str] | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file, and check that it can be measured: not after an epoch, but now.

    `judges` are the labels of a reranker, which says itself what an encoder is asked through a
    probe; None for an encoder.
    """
    path = root / entry.file
    if entry.task == "concepts":
        names = concepts.read(
            path,
            columns=entry.columns,
            dictionary=root / entry.dictionary if entry.dictionary else None,
            dictionary_columns=entry.dictionary_columns,
            hold_out=entry.hold_out,
            limit=entry.limit,
            strict=strict,
        )
        return Measure(entry.title, entry.task, names, [])
    if entry.task == "retrieval":
        found, _ = searches.read(path, columns=entry.columns, strict=strict)
        found = searches.first_queries(found, entry.limit) if entry.limit else found
        together = [
            (query, found.documents[row])
            for query, rows in zip(found.queries, found.relevant, strict=True)
            for row in rows
        ]
        return Measure(entry.title, entry.task, found, together)
    rows = _TASKS[entry.task].read(path, columns=entry.columns, strict=strict).rows
    rows = rows[: entry.limit] if entry.limit else rows
    if entry.task == "nli":
        if judges is None:
            check_probe(labels_of(rows))
        else:
            nli.check_labels(judges, rows, name="the reranker")
        return Measure(entry.title, entry.task, rows, [row.texts[:2] for row in rows])
    _TASKS[entry.task].check(rows, str(path))
    return Measure(entry.title, entry.task, rows, [(row.a, row.b) for row in rows])
