"""Progress of long work on stderr: rate and time left; and silence for work done twice."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progressing(label: str, *, total: int | None, shown: bool) -> Iterator[Advance]:
    """Give a function to call with how many more are done; shows nothing unless `shown`."""
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f}/s")

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate()]
    times = [TimeElapsedColumn(), TimeRemainingColumn(elapsed_when_finished=True)]
    with Progress(*columns, *times[1:], console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def silenced() -> Iterator[None]:
    """Log only errors of malmoi, for work that is done a second time."""
    ours = logging.getLogger("malmoi")
    level = ours.level
    ours.setLevel(logging.ERROR)
    try:
        yield
    finally:
        ours.setLevel(level)
