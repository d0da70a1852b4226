"""Evaluation: a model and a file of examples → a Report with confidence intervals.

    from malmoi.evaluate import evaluate
    report = evaluate(malmoi.load(), "sts", "korsts-dev.tsv")

Every task is an object in `TASKS`: `read` makes examples of a file, `measure` makes an Outcome of
a model and examples, for use without intervals (`outcome.values()`). Nothing here needs torch.
"""

from .models import load_baselines
from .report import Comparison, Difference, Metric, Report, make_report
from .run import evaluate
from .task import Outcome, Settings
from .tasks import TASKS

# The tasks by name, as in: from malmoi.evaluate import sts
sts, pairs, retrieval, rerank = (TASKS[name] for name in ("sts", "pairs", "retrieval", "rerank"))
nli, transfer, senses = (TASKS[name] for name in ("nli", "transfer", "senses"))
notes, tagging, linking = (TASKS[name] for name in ("notes", "tagging", "linking"))
concepts = TASKS["concepts"]

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
