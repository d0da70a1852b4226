"""How commands print: JSON lines for programs, a table or CSV when asked, notices on stderr."""

import csv
import enum
import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

logger = logging.getLogger(__name__)


class Format(enum.StrEnum):
    """The shapes a command's rows can be printed in."""

    JSON = "json"
    TABLE = "table"
    CSV = "csv"


Table = Annotated[bool, typer.Option("--table", help="Print a table for people.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A bundle, a model folder, a shipped name or a hub id."),
]
Sides = Annotated[
    str | None, typer.Option(help="Languages by their columns: ko, en, or ko-en across.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Cores to use; all when left out.")]


def choose(*, table: bool, as_csv: bool) -> Format:
    """Turn the two flags into one format; both at once is a usage error."""
    if table and as_csv:
        raise typer.BadParameter("--table and --csv exclude each other; choose one")
    return Format.TABLE if table else Format.CSV if as_csv else Format.JSON


_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0}


def seconds(text: str) -> float:
    """Read the time that --within allows.

    >>> seconds("200ms"), seconds("1.5s")
    (0.2, 1.5)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|)", text.strip())
    if not found:
        raise typer.BadParameter(f"--within is {text!r}; expected a time such as 200ms or 1.5s")
    return float(found[1]) * _UNITS[found[2]]


class StderrHandler(logging.Handler):
    """Shows log messages to the person at the terminal, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message to what is stderr now (tests exchange it)."""
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
    """Tell whether a person is looking at stderr."""
    return sys.stderr.isatty()


def print_rows(rows: Iterable[Mapping[str, object]], form: Format) -> None:
    """Print rows as they come (a table needs them all first)."""
    if form is Format.JSON:
        for row in rows:
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif form is Format.CSV:
        _print_csv(rows)
    else:
        _print_table(list(rows))


def _print_csv(rows: Iterable[Mapping[str, object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for i, row in enumerate(rows):
        flat = _spread(row)
        if i == 0:
            writer.writerow(flat)
        writer.writerow(flat.values())


def _spread(row: Mapping[str, object]) -> dict[str, object]:
    """Give a list in a row one column a value."""
    flat: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, list):
            flat |= {f"{name}_{i}": item for i, item in enumerate(value)}
        else:
            flat[name] = value
    return flat


def _print_table(rows: list[Mapping[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    if not rows:
        return
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    # Piped output has no width of its own; a fixed one would cut texts without a word.
    Console(width=None if sys.stdout.isatty() else 160).print(table, markup=False)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        shown = " ".join(_cell(item) for item in value[:4])
        return f"{shown} … ({len(value)})" if len(value) > 4 else shown
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"
