"""Options that several commands share, and how their values are read."""

import re
from typing import Annotated, Any

from typer import Argument, BadParameter, Option


def opt(help: str, *names: str, **limits: Any) -> Any:
    """An option with its help; named as its parameter unless names are given."""
    return Option(*names, help=help, **limits)


def more(help: str, *names: str, **limits: Any) -> Any:
    """An option that is rarely used: help shows it at its end."""
    return Option(*names, help=help, rich_help_panel="More", **limits)


def arg(help: str) -> Any:
    """An argument with its help."""
    return Argument(help=help)


Table = Annotated[bool, more("Print for people, also into a pipe.", "--table")]
Csv = Annotated[bool, more("Print comma-separated values.", "--csv")]
Json = Annotated[bool, more("Print JSON lines, also on a terminal.", "--json")]
ModelOption = Annotated[
    str | None, opt("A bundle, a model folder, a shipped name or a hub id.", "--model", "-m")
]
Sides = Annotated[str | None, opt("Languages by their columns: ko, en, or ko-en across.")]
Strict = Annotated[bool, more("Stop at the first bad row.", "--strict")]
Threads = Annotated[int | None, more("Cores to use; all when left out.", min=1)]
Column = Annotated[str | None, opt("The column of .tsv and .csv, the field of .jsonl.")]
TableColumn = Annotated[str | None, opt("The column of a table to read.")]


def seconds(text: str | None) -> float | None:
    """Read the time that --within allows.

    >>> seconds("200ms"), seconds("1.5s"), seconds(None)
    (0.2, 1.5, None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|)", text.strip())
    if not found:
        raise BadParameter(f"--within is {text!r}; expected a time such as 200ms or 1.5s")
    return float(found[1]) * (0.001 if found[2] == "ms" else 1.0)


def parse_columns(columns: str | None) -> dict[str, str] | None:
    """Turn "a=ko1,b=ko2" into a dictionary; anything else is bad usage."""
    if columns is None:
        return None
    parts = [part.partition("=") for part in columns.split(",")]
    if not all(role.strip() and name.strip() for role, _, name in parts):
        raise BadParameter(f"--columns {columns}: expected role=column, with commas between")
    roles = [role.strip() for role, _, _ in parts]
    if len(set(roles)) < len(roles):
        raise BadParameter(f"--columns {columns}: expected each role once")
    return {role.strip(): name.strip() for role, _, name in parts}
