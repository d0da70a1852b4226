"""Evaluation: a model and a file of examples → a Report with confidence intervals.

    from malmoi.evaluate import evaluate
    report = evaluate(malmoi.load(), "sts", "korsts-dev.tsv")

Every task is an object in `TASKS`: `read` makes examples of a file, `measure` makes an Outcome of
a model and examples, for use without intervals (`outcome.values()`). Nothing here needs torch.
"""

from .models import WordVectors, load_baselines
from .report import Comparison, Difference, Metric, Report, evaluate, make_report
from .task import Outcome, Settings
from .tasks import TASKS

# The tasks by name, as in: from malmoi.evaluate import sts
sts, pairs, retrieval, rerank = (TASKS[name] for name in ("sts", "pairs", "retrieval", "rerank"))
nli, transfer, senses = (TASKS[name] for name in ("nli", "transfer", "senses"))
notes, tagging, linking = (TASKS[name] for name in ("notes", "tagging", "linking"))
concepts, answers = TASKS["concepts"], TASKS["answers"]

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
