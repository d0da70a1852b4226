"""How commands print.

Rows go to stdout as JSON lines, or as a table or CSV when asked; messages go to stderr.
"""

import csv
import enum
import functools
import inspect
import json
import logging
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typer import BadParameter

from .options import Csv, Table

logger = logging.getLogger(__name__)

Row = Mapping[str, object]


class Format(enum.StrEnum):
    """How a command's rows are printed."""

    JSON = "json"
    TABLE = "table"
    CSV = "csv"


def choose(*, table: bool, as_csv: bool) -> Format:
    """Turn the two flags into one format; both at once is a usage error."""
    if table and as_csv:
        raise BadParameter("--table and --csv exclude each other; choose one")
    return Format.TABLE if table else Format.CSV if as_csv else Format.JSON


def prints_rows(command: Callable[..., Iterable[Row] | None]) -> Callable[..., None]:
    """Add --table and --csv to a command, and print the rows that it returns.

    A command whose rows depend on the format has a parameter `form`, which is no option.
    """
    signature = inspect.signature(command)
    parameters = {name: one for name, one in signature.parameters.items() if name != "form"}

    @functools.wraps(command)
    def run(*, table: bool, as_csv: bool, **options: Any) -> None:
        form = choose(table=table, as_csv=as_csv)
        if "form" in signature.parameters:
            options["form"] = form
        print_rows(command(**options) or (), form)

    for name, kind in (("table", Table), ("as_csv", Csv)):
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation=kind
        )
    run.__signature__ = signature.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return run


class Stopped(SystemExit):
    """Ctrl-C, with what a command left behind."""

    def __init__(self, message: str) -> None:
        super().__init__(130)
        self.message = message


class StderrHandler(logging.Handler):
    """Shows log messages to the person at the terminal, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message to the current stderr (tests exchange it)."""
        complain(record.getMessage())


def install_handler(level: int = logging.INFO) -> None:
    """Show malmoi's messages of this level and above on stderr, whatever was set before."""
    ours = logging.getLogger("malmoi")
    ours.handlers[:] = [StderrHandler()]
    ours.setLevel(level)
    ours.propagate = False


def say(message: str) -> None:
    """Log what a command did; `-q` hides it."""
    logger.info(message)


def complain(message: str) -> None:
    """Write a line to stderr, whatever the level of logging."""
    sys.stderr.write(f"malmoi: {message}\n")
    sys.stderr.flush()


def watched() -> bool:
    """Whether stderr is a terminal, where progress can be shown."""
    return sys.stderr.isatty()


def print_rows(rows: Iterable[Row], form: Format) -> None:
    """Print rows as they come (a table needs all of them first); NaN is null, or nothing."""
    rows = ({name: _defined(value) for name, value in row.items()} for row in rows)
    if form is Format.JSON:
        for row in rows:
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif form is Format.CSV:
        _print_csv(rows)
    else:
        _print_table(list(rows))


def _defined(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def print_json(data: object) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")


def _print_csv(rows: Iterable[Row]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for i, row in enumerate(rows):
        flat: dict[str, object] = {}
        for name, value in row.items():  # a list gets a column for each of its values
            if isinstance(value, list):
                flat |= {f"{name}_{i}": item for i, item in enumerate(value)}
            else:
                flat[name] = value
        if i == 0:
            writer.writerow(flat)
        writer.writerow(flat.values())


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    if not rows:
        return
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    # A pipe has no width of its own, and a narrow one would cut texts without notice.
    Console(width=None if sys.stdout.isatty() else 160).print(table, markup=False)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        shown = " ".join(_cell(item) for item in value[:4])
        return f"{shown} … ({len(value)})" if len(value) > 4 else shown
    text = "" if value is None else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
