"""Rows out of files: plain lines, TSV and CSV with a header, JSON, and cells of any table.

A .json file has a list of objects (alone, or under one key of an object) or an object a line.
Objects inside of a row are read as columns with a dot in their names: labels.real-label.

Rows that do not fit are counted and logged with the number of their line; `strict` stops at the
first one instead. A file's texts never get into a message, its first line included: that is a
header only if it looks like one.
"""

import csv
import io
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import DataError, by_number, counted, require
from .files import parse_json, read_lines, read_text

logger = logging.getLogger(__name__)

Row = dict[str, str]
Cells = tuple[int, list[str]]  # the number of a line, and what stands in it

_TABLES = {".tsv": "\t", ".csv": ","}
_JSON = (".jsonl", ".json")
_LONGEST_JSON = 1024**3  # bytes; it is parsed at once
_SHOWN = 5  # how many line numbers of bad rows are named
# Names that columns have the world over, without case, signs and numbers.
_WORDS = (
    "answer category class code concept document en gold grade group hypothesis id intent kind ko "
    "label lang mention name negative note passage patient positive premise query question "
    "relevance reply same score sentence set similarity source synonym target text title topic "
    "type word words 내용 답변 라벨 문장 본문 이름 점수 제목 질문 코드 텍스트"
)
_USUAL = frozenset(_WORDS.split())
_LONGEST_NAME = 40


@dataclass
class BadRows:
    """The rows passed over, logged once at the end of a file; `strict` raises at the first."""

    name: str
    strict: bool
    lines: list[int] = field(default_factory=list)
    unit: str = "line"  # what is counted: lines, or the entries of a list

    @property
    def _units(self) -> str:
        return "entries" if self.unit == "entry" else f"{self.unit}s"

    def add(self, line: int, found: str, expected: str) -> None:
        """Count a row that does not fit; `found` and `expected` go into the message."""
        if self.strict:
            raise DataError(
                f"{self.unit} {line} of {self.name} has {found}; expected {expected}. "
                f"Fix the {self.unit}, or leave strict off to pass over such {self._units}."
            )
        self.lines.append(line)

    def report(self) -> None:
        """Log how many rows were passed over, and where the first ones are."""
        if self.lines:
            shown = ", ".join(str(line) for line in self.lines[:_SHOWN])
            more = ", …" if len(self.lines) > _SHOWN else ""
            lines = by_number(len(self.lines), self.unit, self._units)
            logger.warning(
                f"{self.name}: {counted(len(self.lines), 'row')} passed over ({lines} "
                f"{shown}{more})"
            )


def is_table(path: str | Path) -> bool:
    """Say whether a file has named fields, by its ending."""
    return Path(path).suffix.lower() in (*_TABLES, *_JSON)


def read_rows(path: str | Path, *, strict: bool = False) -> Iterator[Row]:
    """Yield the rows of a .tsv, .csv, .jsonl or .json file as dictionaries of text."""
    for _, row in read_numbered_rows(path, strict=strict):
        yield row


def read_numbered_rows(
    path: str | Path, *, strict: bool = False, null: str = "null"
) -> Iterator[tuple[int, Row]]:
    """Yield rows as `read_rows` does, each with the number of the line it ends on.

    `null` is the text that a JSON null becomes.
    """
    bad = BadRows(str(path), strict)
    suffix = Path(path).suffix.lower()
    if suffix in _JSON:
        for number, row in _objects(path, bad):
            yield number, {key: _as_str(value, null) for key, value in _flat(row)}
    elif suffix in _TABLES:
        yield from _table_rows(read_lines(path), _TABLES[suffix], bad)
    else:
        raise DataError(
            f"{path} ends in {suffix or 'nothing'}; expected a table: .tsv (tabs), .csv (commas), "
            ".jsonl (a JSON object a line) or .json (a list of objects), with names of columns. "
            "Save it as one of these; for a sheet of .xlsx choose CSV UTF-8."
        )
    bad.report()


def read_json(path: str | Path) -> Any:
    """Parse a whole .json file; anything else in it is a DataError."""
    text = read_text(path, longest=_LONGEST_JSON)
    try:
        return parse_json(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DataError(
            f"{path} cannot be read as JSON (line {line}); expected a list of objects, or an "
            "object a line. Check that the file is whole."
        ) from error


def list_in(data: object) -> list[Any] | None:
    """Find the list that a file of JSON holds: itself, `data`, or the one list under its keys."""
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return list_in(data["data"])
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list)]
        return lists[0] if len(lists) == 1 else None
    return data if isinstance(data, list) else None


def _objects(path: str | Path, bad: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON with the number of their line or entry."""
    if Path(path).suffix.lower() == ".jsonl" or _has_object_lines(path):
        yield from _json_objects(read_lines(path), bad)
        return
    rows = list_in(read_json(path))
    if rows is None:
        raise DataError(
            f"{path} holds no list of rows; expected a list of objects, alone or under one key. "
            "Give the part of the file that is such a list."
        )
    bad.unit = "entry"
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield number, row
        else:
            bad.add(number, "no JSON object", "a list of objects")


def _has_object_lines(path: str | Path) -> bool:
    """Whether the first line of a .json file is an object by itself and a second one follows."""
    lines = (line for line in read_lines(path) if line.strip())
    first, second = next(lines, ""), next(lines, "")
    try:
        return isinstance(parse_json(first), dict) and second.lstrip().startswith("{")
    except ValueError:
        return False


def _flat(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give the values of an object, those of objects inside of it by both names too."""
    for key, value in row.items():
        yield key, value
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())


def read_cells(path: Path) -> Iterator[Cells]:
    """Yield the rows of any table, with a header or not: .tsv, .csv or the first sheet of .xlsx.

    Rows of text may differ in their encoding; a file that is not named .tsv is separated by what
    its first line has: tabs, commas or semicolons. Empty rows are left out.
    """
    suffix = path.suffix.lower()
    if suffix == ".xls":
        raise DataError(
            f"{path} is of Excel's old form; expected .xlsx, .tsv or .csv. Save it as .xlsx."
        )
    rows = _sheet_rows(path) if suffix in (".xlsx", ".xlsm") else _separated_rows(path)
    yield from ((number, cells) for number, cells in rows if any(cells))


def _separated_rows(path: Path) -> Iterator[Cells]:
    lines = read_lines(path, mixed=True)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty; expected a table. Check the file.")
    lines = chain([first], lines)
    if path.suffix.lower() == ".tsv" or "\t" in first:
        return _tab_rows(lines)
    # Strict, for a quote that is never closed would swallow the rest of the file as one cell.
    return _comma_rows(lines, max(",;", key=first.count), str(path), strict=True)


def _sheet_rows(path: Path) -> Iterator[Cells]:
    """Read the first sheet, row by row; formulas give the values that were saved."""
    openpyxl = require("openpyxl", extra="xlsx", purpose=f"reading {path}")
    try:
        data = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Check the name.") from error
    try:
        book = openpyxl.load_workbook(data, read_only=True, data_only=True)
        for number, values in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
            yield number, ["" if value is None else _shown(value) for value in values]
        book.close()
    except Exception as error:  # a damaged zip or XML shows itself in dozens of ways
        raise DataError(
            f"{path} cannot be read as .xlsx ({type(error).__name__}); expected a workbook. "
            "Open and save it again, or save it as .tsv."
        ) from error


def _shown(value: object) -> str:
    """Show a cell as a person sees it: codes that look like numbers have no ".0"."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def read_columns(
    path: str | Path, names: Sequence[str], bad: BadRows, *, remedy: str
) -> Iterator[tuple[int, Row]]:
    """Yield the numbered rows that have every column named; a JSON null is an empty cell.

    The first row says which columns a file has, and one that is missing is a DataError that ends
    with `remedy`. A later line of JSON may lack one too: it is counted as bad.
    """
    first = True
    for line, row in read_numbered_rows(path, strict=bad.strict, null=""):
        missing = next((name for name in names if name not in row), None)
        if missing is not None and first:
            raise DataError(
                f"{path} has no column {missing}; it has {show_columns(list(row), asked=names)}. "
                + remedy
            )
        first = False
        if missing is None:
            yield line, row
        else:
            bad.add(line, f"no {missing}", "every field of the first line")
    if first:
        logger.info(f"{path} has no rows")


def read_typed_rows(
    path: str | Path, *, strict: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield numbered rows, the values of a file of JSON as they are and not as text."""
    if Path(path).suffix.lower() not in _JSON:
        yield from read_numbered_rows(path, strict=strict)
        return
    bad = BadRows(str(path), strict)
    yield from _objects(path, bad)
    bad.report()


def read_texts(path: str | Path, *, column: str | None = None) -> Iterator[str]:
    """Yield one text a line of a plain file, or the named column of a table.

    A table's only column needs no name.
    """
    if column is None and not is_table(path):
        yield from read_lines(path)
        return
    for row in read_rows(path):
        name = next(iter(row)) if column is None and len(row) == 1 else column
        if name is None or name not in row:
            wanted = f"no column {name!r}" if name else "several columns and none was named"
            raise DataError(
                f"{path} has {wanted}; it has {show_columns(list(row))}. Name one with --column."
            )
        yield row[name]


def show_columns(names: Sequence[str], *, asked: Collection[str] = (), lead: str = "") -> str:
    """Say in a message which columns a file has; `lead` stands before their names.

    A table without a header has a row of texts in its place, which no message may show. Names
    are shown as a whole where half of them were `asked` for or are usual, else those alone.

    >>> show_columns(["id", "발화", "score"], lead="the columns ")
    'the columns id, 발화, score'
    >>> show_columns(["배가 아프다", "복통이 있다", "4.5"])
    '3 columns of no known name (is its first line a header?)'
    """
    known = [name for name in names if name in asked or _is_usual(name)]
    if not known:
        some = f"{len(names)} columns" if len(names) != 1 else "1 column"
        return f"{some} of no known name (is its first line a header?)"
    others = len(names) - len(known)
    if 2 * len(known) >= len(names) and all(len(name) <= _LONGEST_NAME for name in names):
        known, others = list(names), 0
    more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
    return lead + ", ".join(known) + more


def _is_usual(name: str) -> bool:
    plain = "".join(c for c in name.casefold() if c.isalpha())
    return plain in _USUAL or (len(plain) == 1 and plain.isascii() and len(name) < 4)


def _json_objects(lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_once)
        except KeyError:
            bad.add(number, "a key twice", "each key once")
            continue
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            bad.add(number, "no JSON object", "one object a line")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object of its pairs; a key that comes twice is a KeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise KeyError
    return found


def _as_str(value: object, null: str) -> str:
    if value is None:
        return null
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table_rows(lines: Iterator[str], separator: str, bad: BadRows) -> Iterator[tuple[int, Row]]:
    rows = _tab_rows(lines) if separator == "\t" else _comma_rows(lines, separator, bad.name)
    _, header = next(rows, (0, []))
    if not any(header):
        raise DataError(f"{bad.name} is empty; expected a header line and rows. Name another file.")
    _check_header(header, bad.name)
    for number, values in rows:
        if len(values) == len(header):
            yield number, dict(zip(header, values, strict=True))
        else:
            bad.add(number, counted(len(values), "field"), str(len(header)))


def _tab_rows(lines: Iterator[str]) -> Iterator[Cells]:
    # Tab-separated files in the wild do not quote: a lone " in a sentence is only a character.
    for number, line in enumerate(lines, start=1):
        if line:
            yield number, line.split("\t")


def _comma_rows(
    lines: Iterator[str], separator: str, name: str, *, strict: bool = False
) -> Iterator[Cells]:
    csv.field_size_limit(2**31 - 1)
    # A quoted field may hold line ends, so the reader needs them back.
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=strict)
    try:
        for values in reader:
            if values:
                yield reader.line_num, values
    except csv.Error as error:
        raise DataError(
            f"line {reader.line_num} of {name} cannot be read as a table ({error}). "
            "Check its quotes and line ends, or save it as .tsv."
        ) from error


def _check_header(header: list[str], name: str) -> None:
    if any("\0" in cell for cell in header):
        raise DataError(
            f"{name} has NUL characters in its first line, as UTF-16 without a byte-order mark "
            "has; expected text. Save it as UTF-8."
        )
    if any("\r" in cell for cell in header):
        raise DataError(
            f"{name} has lines that end in a carriage return alone; expected line feeds. Save it "
            "with the line ends of Unix or Windows."
        )
    seen: dict[str, int] = {}
    for place, cell in enumerate(header, start=1):
        if cell.strip() and seen.setdefault(cell, place) != place:
            raise DataError(
                f"columns {seen[cell]} and {place} of {name} have the same name; expected a "
                "header that names each column once. Rename one of them."
            )
