"""Evaluation: a model and a file of examples → a Report with confidence intervals.

    from malmoi.evaluation import evaluate
    report = evaluate(malmoi.load(), "sts", "korsts-dev.tsv")

Every task is an object in `TASKS`: `read` makes examples of a file, `measure` makes an Outcome of
a model and examples, for use without intervals (`outcome.values()`). Nothing here needs torch.
"""

from typing import Any

from .models import WordVectors, load_baselines
from .report import Comparison, Difference, Metric, Report, evaluate, make_report
from .tasks import TASKS, Outcome, Settings

__all__ = [
    "TASKS",
    "Comparison",
    "Difference",
    "Metric",
    "Outcome",
    "Report",
    "Settings",
    "WordVectors",
    "evaluate",
    "load_baselines",
    "make_report",
]


def __getattr__(name: str) -> Any:
    """Give a task by its name, as in: from malmoi.evaluation import sts."""
    if name in TASKS:
        return TASKS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
