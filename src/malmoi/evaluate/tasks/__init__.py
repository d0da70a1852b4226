"""The registry of tasks: every task that `malmoi evaluate` and recipes can name."""

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any

from ..task import Task


class Tasks(MutableMapping[str, Task[Any]]):
    """Tasks by name; the module of one is imported when the task is asked for.

    So a training run that measures sentence pairs does not import what reads clinical notes.
    """

    def __init__(self, places: dict[str, str]) -> None:
        """Take the place of every task: "module:Class", the module in this package."""
        self._tasks: dict[str, str | Task[Any]] = dict(places)

    def __getitem__(self, name: str) -> Task[Any]:
        found = self._tasks[name]
        if isinstance(found, str):
            module, _, cls = found.partition(":")
            found = getattr(importlib.import_module(f"{__name__}.{module}"), cls)()
            self._tasks[name] = found
        return found

    def __setitem__(self, name: str, task: Task[Any]) -> None:
        self._tasks[name] = task

    def __delitem__(self, name: str) -> None:
        del self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


TASKS = Tasks(
    {
        "sts": "similarity:Sts",
        "pairs": "similarity:SamePairs",
        "retrieval": "retrieval:Retrieval",
        "rerank": "retrieval:Reranking",
        "nli": "nli:Inference",
        "transfer": "nli:Transfer",
        "senses": "wic:Senses",
        "notes": "notes:NoteMentions",
        "tagging": "tagging:Entities",
        "linking": "linking:Linking",
        "concepts": "concepts:Concepts",
        "answers": "answers:Answers",
    }
)
