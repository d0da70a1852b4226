"""Evaluation: a model and a file of examples → a Report with confidence intervals.

    from malmoi.evaluate import evaluate
    report = evaluate(malmoi.load(), "sts", "korsts-dev.tsv")

Each task is a module: `read` makes examples of a file, `measure` an Outcome of a model and
examples, for use without files or intervals (`outcome.values()`). Nothing here needs torch.
"""

from .baselines import load_baselines
from .report import Comparison, Difference, Metric, Outcome, Report, make_report
from .run import TASKS, Settings, evaluate

__all__ = [
    "TASKS",
    "Comparison",
    "Difference",
    "Metric",
    "Outcome",
    "Report",
    "Settings",
    "evaluate",
    "load_baselines",
    "make_report",
]
