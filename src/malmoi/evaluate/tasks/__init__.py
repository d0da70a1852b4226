"""The registry of tasks: every task that `malmoi evaluate` and recipes can name."""

from typing import Any

from ..task import Task
from .answers import Answers
from .concepts import Concepts
from .linking import Linking
from .nli import Inference, Transfer
from .notes import NoteMentions
from .retrieval import Reranking, Retrieval
from .similarity import SamePairs, Sts
from .tagging import Entities
from .wic import Senses

TASKS: dict[str, Task[Any]] = {
    task.name: task
    for task in (
        Sts(),
        SamePairs(),
        Retrieval(),
        Reranking(),
        Inference(),
        Transfer(),
        Senses(),
        NoteMentions(),
        Entities(),
        Linking(),
        Concepts(),
        Answers(),
    )
}
