"""Lines of tables whose encoding is uncertain, and names that went through a wrong one.

Tables are put together from exports of many years: one file may hold lines of UTF-8 and of cp949,
so every line is decoded by itself. A name that was once decoded wrongly and saved again
("ë‹¹ë‡¨ë³‘") can often be brought back, because no byte of it was lost.

Rows of cells out of tables: tab- or comma-separated text, or the first sheet of an .xlsx.
"""

import codecs
import csv
import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..errors import DataError, counted, require
from ..io.files import LONGEST_LINE, opening, read_lines

logger = logging.getLogger(__name__)

_HEAD = 1024 * 1024
_HANGUL = re.compile("[가-힣]")
_WRONG = re.compile("[\x80-\u02ff‘-•…‰‹›€™ŒœŠšŽžŸƒˆ˜–—]{2,}")
# How text is brought back: as which encoding it was read, and what it was.
_WAYS = (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "euc_kr"), ("cp949", "utf-8"))
BROKEN = "\ufffd"


def table_lines(path: str | Path) -> Iterator[str]:
    """Yield a file's lines without their ends, each in its own encoding: UTF-8 or cp949.

    The encoding of most lines of the file's beginning is tried first. What was found is
    logged once if it is not UTF-8 throughout.
    """
    with opening(path) as file:
        head = file.read(_HEAD)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from read_lines(path)
        return
    order = ("cp949", "utf-8") if _mostly_cp949(head) else ("utf-8", "cp949")
    seen: Counter[str] = Counter()
    first: dict[str, int] = {}
    with opening(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            line, encoding = _decode(
                raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, order
            )
            seen[encoding] += 1
            first.setdefault(encoding, number)
            yield line.rstrip("\r\n")
    _log_encodings(str(path), seen, first)


def _mostly_cp949(head: bytes) -> bool:
    votes = Counter(
        _decode(line, ("utf-8", "cp949"))[1] for line in head.splitlines()[:-1] or [head]
    )
    return votes["cp949"] > votes["utf-8"]


def _decode(raw: bytes, order: tuple[str, str]) -> tuple[str, str]:
    if raw.isascii():
        return raw.decode("ascii"), "ascii"
    for encoding in order:
        try:
            return raw.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return raw.decode(order[0], "replace"), "broken"


def _log_encodings(name: str, seen: Counter[str], first: dict[str, int]) -> None:
    if seen["cp949"] and seen["utf-8"]:
        fewer = min(("utf-8", "cp949"), key=lambda encoding: seen[encoding])
        logger.info(
            f"{name} mixes encodings: {counted(seen['utf-8'], 'line is', 'lines are')} UTF-8, "
            f"{seen['cp949']:,} cp949 "
            f"(the first {fewer} line is {first[fewer]}); each was read as what it is"
        )
    elif seen["cp949"]:
        logger.info(f"{name} is cp949, not UTF-8; reading it as cp949")
    if seen["broken"]:
        logger.info(
            f"{name} has {counted(seen['broken'], 'line that is', 'lines that are')} neither UTF-8 "
            f"nor cp949 (the first is line {first['broken']}); their broken names are left out and "
            "counted"
        )


def repair(text: str) -> str | None:
    """Bring back Korean that was decoded wrongly and saved again; None where nothing is wrong.

    >>> repair("당뇨병".encode("utf-8").decode("latin-1"))
    '당뇨병'
    >>> repair("당뇨병".encode("cp949").decode("latin-1"))
    '당뇨병'
    >>> repair("Ménière병"), repair("당뇨병"), repair("Behçet’s disease")
    (None, None, None)
    """
    if text.isascii() or BROKEN in text:
        return None
    ways = _WAYS[:3] if _WRONG.search(text) and not _HANGUL.search(text) else _WAYS[3:]
    for wrong, right in ways:
        try:
            mended = text.encode(wrong).decode(right)
        except UnicodeError:
            continue
        if _is_korean(mended):
            return mended
    return None


def _is_korean(text: str) -> bool:
    """Tell whether everything that is not ASCII is Hangul, or nearly so."""
    signs = [sign for sign in text if not sign.isascii()]
    return len(_HANGUL.findall(text)) >= max(1, 0.9 * len(signs))


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
