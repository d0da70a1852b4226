"""Rows of cells out of tables: tab- or comma-separated text, or the first sheet of an .xlsx."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..errors import DataError, require
from .encodings import table_lines

Cells = tuple[int, list[str]]  # the number of a line, and what stands in it


def read_cells(path: Path) -> Iterator[Cells]:
    """Yield the rows of a table as lists of text, each with the number of its line."""
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        yield from _sheet(path)
    elif path.suffix.lower() == ".xls":
        raise DataError(
            f"{path} is of Excel's old form; expected .xlsx, .tsv or .csv. Save it as .xlsx."
        )
    else:
        yield from _separated(path)


def _separated(path: Path) -> Iterator[Cells]:
    lines = table_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty; expected a table. Check the file.")
    separator = separator_of(first, path)
    # Tab-separated files do not quote: a lone " in a name is only a character.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(2**31 - 1)
    text = (line + "\n" for line in _again(first, lines))
    # Strict, for a quote that is never closed would swallow the rest of the file as one cell.
    strict = separator != "\t"
    reader = csv.reader(text, delimiter=separator, quoting=quoting, strict=strict)
    try:
        for cells in reader:
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(
            f"line {reader.line_num} of {path} cannot be read as a table ({error}). "
            "Check its quotes, or save it as .tsv."
        ) from error


def separator_of(line: str, path: Path) -> str:
    """Tell what stands between the cells: by the file's ending, then by the first line."""
    if path.suffix.lower() == ".tsv" or "\t" in line:
        return "\t"
    return max(",;", key=line.count)


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _sheet(path: Path) -> Iterator[Cells]:
    """Read the first sheet, row by row; formulas give the values that were saved."""
    openpyxl = require("openpyxl", extra="xlsx", purpose=f"reading {path}")
    try:
        data = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Check the name.") from error
    try:
        book = openpyxl.load_workbook(data, read_only=True, data_only=True)
        rows: Sequence[Any] = book.worksheets[0].iter_rows(values_only=True)
        for number, values in enumerate(rows, start=1):
            cells = ["" if value is None else _shown(value) for value in values]
            if any(cells):
                yield number, cells
        book.close()
    except DataError:
        raise
    except Exception as error:  # a damaged zip or XML shows itself in dozens of ways
        raise DataError(
            f"{path} cannot be read as .xlsx ({type(error).__name__}); expected a workbook. "
            "Open and save it again, or save it as .tsv."
        ) from error


def _shown(value: object) -> str:
    """Show a cell as a person sees it: codes that look like numbers have no ".0"."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
