"""Rows out of text files: plain lines, TSV and CSV with a header, JSON lines.

Rows that do not fit are counted and told with the number of their line; `strict` stops at the
first one instead.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .errors import DataError, by_number, counted
from .files import Tell, read_lines

Row = dict[str, str]

_TABLES = {".tsv": "\t", ".csv": ","}
_SHOWN = 5  # how many line numbers of bad rows are named


@dataclass
class BadRows:
    """The rows passed over, told once at the end of a file; `strict` raises at the first."""

    name: str
    strict: bool
    lines: list[int] = field(default_factory=list)

    def add(self, line: int, found: str, expected: str) -> None:
        """Count a row that does not fit; `found` and `expected` go into the message."""
        if self.strict:
            raise DataError(
                f"line {line} of {self.name} has {found}; expected {expected}. "
                "Mend the line, or leave strict off to pass over such lines."
            )
        self.lines.append(line)

    def report(self, tell: Tell) -> None:
        """Tell how many rows were passed over, and where the first ones are."""
        if self.lines:
            shown = ", ".join(str(line) for line in self.lines[:_SHOWN])
            more = ", …" if len(self.lines) > _SHOWN else ""
            lines = by_number(len(self.lines), "line", "lines")
            tell(
                f"{self.name}: {counted(len(self.lines), 'row')} passed over ({lines} "
                f"{shown}{more})"
            )


def is_table(path: str | Path) -> bool:
    """Tell whether a file has named fields, by its ending."""
    return Path(path).suffix.lower() in (*_TABLES, ".jsonl")


def read_rows(path: str | Path, *, tell: Tell | None = None, strict: bool = False) -> Iterator[Row]:
    """Yield the rows of a .tsv, .csv or .jsonl file as dictionaries of text."""
    for _, row in read_numbered_rows(path, tell=tell, strict=strict):
        yield row


def read_numbered_rows(
    path: str | Path, *, tell: Tell | None = None, strict: bool = False
) -> Iterator[tuple[int, Row]]:
    """Yield rows as `read_rows` does, each with the number of the line it ends on."""
    tell = tell or (lambda message: None)
    bad = BadRows(str(path), strict)
    suffix = Path(path).suffix.lower()
    lines = read_lines(path, tell=tell)
    if suffix == ".jsonl":
        yield from _json_rows(lines, bad)
    elif suffix in _TABLES:
        yield from _table_rows(lines, _TABLES[suffix], bad)
    else:
        raise DataError(
            f"{path} ends in {suffix or 'nothing'}; expected .tsv, .csv or .jsonl. Rename the file."
        )
    bad.report(tell)


def read_typed_rows(
    path: str | Path, *, tell: Tell | None = None, strict: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield numbered rows, the values of a .jsonl file as they are and not as text."""
    if Path(path).suffix.lower() != ".jsonl":
        yield from read_numbered_rows(path, tell=tell, strict=strict)
        return
    tell = tell or (lambda message: None)
    bad = BadRows(str(path), strict)
    yield from _json_objects(read_lines(path, tell=tell), bad)
    bad.report(tell)


def read_texts(
    path: str | Path, *, column: str | None = None, tell: Tell | None = None
) -> Iterator[str]:
    """Yield one text a line of a plain file, or the named column of a table.

    A table's only column needs no name.
    """
    if column is None and not is_table(path):
        yield from read_lines(path, tell=tell)
        return
    for row in read_rows(path, tell=tell):
        name = column if column is not None else _only(row, path)
        if name not in row:
            raise _no_column(path, name, list(row))
        yield row[name]


def _json_rows(lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, Row]]:
    for number, row in _json_objects(lines, bad):
        yield number, {key: _as_str(value) for key, value in row.items()}


def _json_objects(lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            bad.add(number, "no JSON object", "one object a line")


def _as_str(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table_rows(lines: Iterator[str], separator: str, bad: BadRows) -> Iterator[tuple[int, Row]]:
    # Tab-separated files in the wild do not quote: a lone " in a sentence is only a character.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(2**31 - 1)
    # A quoted field may hold line ends, so the reader needs them back.
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, quoting=quoting)
    header = next(reader, None)
    if not header:
        raise DataError(f"{bad.name} is empty; expected a header line and rows. Check the file.")
    try:
        for values in reader:
            if len(values) == len(header):
                yield reader.line_num, dict(zip(header, values, strict=True))
            elif values:
                bad.add(reader.line_num, counted(len(values), "field"), str(len(header)))
    except csv.Error as error:
        raise DataError(
            f"line {reader.line_num} of {bad.name} cannot be read as a table ({error}). "
            "Check its quotes, or save it as .tsv."
        ) from error


def _only(row: Row, path: str | Path) -> str:
    if len(row) == 1:
        return next(iter(row))
    raise _no_column(path, None, list(row))


def _no_column(path: str | Path, name: str | None, found: list[str]) -> DataError:
    wanted = f"no column {name!r}" if name else "several columns and none was named"
    return DataError(f"{path} has {wanted}; it has {', '.join(found)}. Name one with --column.")
