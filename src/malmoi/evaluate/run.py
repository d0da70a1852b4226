"""One call for every task: a model, a file, a Report."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import OptionError
from .models import name_of
from .report import ROUNDS, Report, make_report
from .task import Settings
from .tasks import TASKS

logger = logging.getLogger(__name__)


def evaluate(
    model: object,
    task: str,
    data: str | Path,
    *,
    against: Sequence[object] = (),
    settings: Settings | None = None,
    rounds: int = ROUNDS,
) -> Report:
    """Measure a model by a task on a file, and compare it with others on the same rows.

    model: anything with `encode(texts)` or `score(pairs)`; see `malmoi.evaluate.models`.
    task: a name of `TASKS`.
    data: a .tsv, .csv or .jsonl file of examples.
    against: other models to compare with.
    rounds: rounds of the bootstrap, which gives intervals and tells whether a difference is
        significant; 0 leaves both out.
    """
    if task not in TASKS:
        raise OptionError(f"task is {task!r}; known are {', '.join(TASKS)}. Choose one of these.")
    settings = settings or Settings()
    chosen = TASKS[task]
    examples = chosen.read(data, settings)
    ours = chosen.measure(model, examples, settings)
    name, *names = _distinct([name_of(one) for one in (model, *against)])
    # The errors that are written are those of the model that is reported.
    quiet = replace(settings, errors=None)
    theirs = [
        (title, chosen.measure(other, examples, quiet))
        for title, other in zip(names, against, strict=True)
    ]
    report = make_report(
        task,
        name,
        ours,
        examples.source,
        against=[*ours.others, *theirs],
        settings=examples.about,
        rounds=rounds,
        seed=settings.seed,
    )
    for note in report.notes:
        logger.info(note)
    return report


def _distinct(names: Sequence[str]) -> list[str]:
    """Number names that come again, so that the rows of a table can be told apart.

    >>> _distinct(["small", "large", "small"])
    ['small', 'large', 'small (2)']
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
