"""How commands print: for people on a terminal, as JSON lines or CSV for programs.

Rows go to stdout; messages go to stderr. Without an option, a terminal gets what a person reads
and a pipe gets JSON lines.
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

from .display import table, terminal_width
from .options import Csv, Json, Table

logger = logging.getLogger(__name__)

Row = Mapping[str, object]
Command = Callable[..., Iterable[Row] | None]
View = Callable[[list[dict[str, Any]], int], Iterable[str]]  # rows and columns → lines


class Format(enum.StrEnum):
    """How a command's rows are printed."""

    JSON = "json"
    PEOPLE = "people"
    CSV = "csv"


def choose(*, table: bool = False, as_csv: bool = False, as_json: bool = False) -> Format:
    """Turn the flags into one format; without any, a terminal is for people."""
    if table + as_csv + as_json > 1:
        raise BadParameter("--table, --csv and --json exclude each other; choose one")
    if as_csv:
        return Format.CSV
    if table or (sys.stdout.isatty() and not as_json):
        return Format.PEOPLE
    return Format.JSON


def prints(view: View | None = None) -> Callable[[Command], Callable[..., None]]:
    """Add --table, --csv and --json to a command, and print the rows that it returns.

    `view` lays the rows out for people; a table if left out. A command whose rows depend on the
    format has a parameter `form`, which is no option.
    """
    return functools.partial(prints_rows, view=view)


def prints_rows(command: Command, *, view: View | None = None) -> Callable[..., None]:
    """`prints`, with a table for people."""
    signature = inspect.signature(command)
    parameters = {name: one for name, one in signature.parameters.items() if name != "form"}

    @functools.wraps(command)
    def run(*, table: bool, as_csv: bool, as_json: bool, **options: Any) -> None:
        form = choose(table=table, as_csv=as_csv, as_json=as_json)
        if "form" in signature.parameters:
            options["form"] = form
        print_rows(command(**options) or (), form, view=view)

    for name, kind in (("table", Table), ("as_csv", Csv), ("as_json", Json)):
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


def print_rows(rows: Iterable[Row], form: Format, *, view: View | None = None) -> None:
    """Print rows as they come (people get all of them at once); NaN is null, or nothing."""
    made = ({name: _defined(value) for name, value in row.items()} for row in rows)
    if form is Format.JSON:
        for row in made:
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif form is Format.CSV:
        _print_csv(made)
    elif found := list(made):
        print_lines((view or table)(found, terminal_width()))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for people."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_card(lines: Iterable[str], data: object, form: Format) -> None:
    """Print one thing: lines for people, or one JSON object."""
    if form is Format.PEOPLE:
        print_lines(lines)
    else:
        print_json(data)


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
