"""Reads PDFs in a process of its own: a file that is made to harm ends this process, not yours.

It is started by `pdf.py` as a script with a file's path, and imports nothing of malmoi. Its output
has a JSON object for each page and one that ends the file.
"""

import contextlib
import ctypes
import json
import os
import sys
from typing import Any

MEMORY = 3 * 2**29  # bytes of address space; PDFium with a large file needs some hundred MB
MOST_PAGES = 50_000
MOST_CHARACTERS = 2_000_000  # of one page; a dense one has ten thousand

_SAMPLED = 16  # one character of this many is asked whether its font says what it means
_GAP = 1.2  # widths of a character between two parts of a line that are two cells or columns

Line = tuple[str, float, float, float, float, bool]  # text, x0, x1, baseline, size, bold


def main() -> None:
    """Read the file that the command line names."""
    _limit_memory()
    import pypdfium2

    try:
        _read(pypdfium2, sys.argv[1])
    except MemoryError:
        _answer(error="memory")
    except Exception as error:
        _answer(error="damaged", kind=type(error).__name__)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(AttributeError, OSError):
        os.nice(1)


def _answer(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _read(pypdfium2: Any, path: str) -> None:
    raw = pypdfium2.raw
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError:
        code = raw.FPDF_GetLastError()
        kind = "encrypted" if code == raw.FPDF_ERR_PASSWORD else "damaged"
        _answer(error=kind, kind="PdfiumError")
        return
    try:
        pages = len(document)
        if pages > MOST_PAGES:
            _answer(error="pages", count=pages)
            return
        for number in range(pages):
            page = document[number]
            try:
                _answer(page=number + 1, **_page(raw, page))
            finally:
                page.close()
        about = document.get_metadata_dict(skip_empty=True)
        date = about.get("ModDate") or about.get("CreationDate") or ""
        _answer(end=True, title=about.get("Title", ""), author=about.get("Author", ""), date=date)
    finally:
        document.close()


def _page(raw: Any, page: Any) -> dict[str, Any]:
    text = page.get_textpage()
    try:
        count = max(0, raw.FPDFText_CountChars(text.raw))
        if count > MOST_CHARACTERS:
            raise ValueError("too many characters")
        units = [raw.FPDFText_GetUnicode(text.raw, at) for at in range(count)]
        odd = sum(_is_odd(raw, text.raw, at, units[at]) for at in range(0, count, _SAMPLED))
        lines: list[Line] = []
        start = 0
        for at in range(count + 1):
            if at == count or units[at] in (10, 13):
                lines += _line(raw, text.raw, units, start, at)
                start = at + 1
    finally:
        text.close()
    width, height = page.get_size()
    drawn = count == 0 and any(True for _ in page.get_objects(max_depth=2))
    return {
        "width": width,
        "height": height,
        "lines": lines,
        "drawn": drawn,
        "odd": odd,
        "sampled": -(-count // _SAMPLED),
    }


def _is_odd(raw: Any, text: Any, at: int, unit: int) -> bool:
    """Say whether a character's font does not say what it means."""
    unknown = unit == 0 or unit == 0xFFFD or 0xE000 <= unit < 0xF900
    return unknown or raw.FPDFText_HasUnicodeMapError(text, at) == 1


def _line(raw: Any, text: Any, units: list[int], start: int, end: int) -> list[Line]:
    """Measure a line by its first and last character, and break it where cells are far apart."""
    while start < end and units[start] in (32, 160):
        start += 1
    last = end
    while last > start and units[last - 1] in (32, 160):
        last -= 1
    if start == last:
        return []
    size = _size(raw, text, start)
    x0, x1 = _box(raw, text, start)[0], _box(raw, text, last - 1)[1]
    wide = sum(1.0 if unit > 0x1100 else 0.55 for unit in units[start:last])
    if size and x1 - x0 > wide * size + _GAP * size:
        for at in range(start, last):
            if units[at] in (32, 160):
                before, after = _around(units, at, start, last)
                if _box(raw, text, after)[0] - _box(raw, text, before)[1] > _GAP * size:
                    left = _line(raw, text, units, start, before + 1)
                    return left + _line(raw, text, units, after, end)
    # A space at the end says that no word was broken here.
    content = "".join(map(_character, units[start : min(end, last + 1)]))
    bold = _is_bold(raw, text, start) and _is_bold(raw, text, last - 1)
    return [(content, round(x0, 1), round(x1, 1), _baseline(raw, text, start), size, bold)]


def _around(units: list[int], at: int, start: int, last: int) -> tuple[int, int]:
    """Find the characters before and after a run of spaces."""
    before, after = at, at
    while before > start and units[before] in (32, 160):
        before -= 1
    while after < last - 1 and units[after] in (32, 160):
        after += 1
    return before, after


def _box(raw: Any, text: Any, at: int) -> tuple[float, float]:
    """Give where a character starts and ends on its line."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    raw.FPDFText_GetCharBox(text, at, left, right, bottom, top)
    return left.value, right.value


def _baseline(raw: Any, text: Any, at: int) -> float:
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(text, at, x, y)
    return round(y.value, 1)


def _is_bold(raw: Any, text: Any, at: int) -> bool:
    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(text, at, name, 128, None)
    return b"bold" in name.value.lower() or b"black" in name.value.lower()


def _size(raw: Any, text: Any, at: int) -> float:
    """Give the size of a character as it is seen: the font's, scaled by the text's matrix."""
    matrix = raw.FS_MATRIX()
    size: float = raw.FPDFText_GetFontSize(text, at)
    if raw.FPDFText_GetMatrix(text, at, matrix):
        size *= (matrix.c**2 + matrix.d**2) ** 0.5
    return round(size, 1)


def _character(unit: int) -> str:
    if unit in (2, 0xFFFE, 0xAD):  # a hyphen that breaks a word at the end of a line
        return "\u00ad"
    return chr(unit) if unit >= 32 and not 0xD800 <= unit < 0xE000 else " "


if __name__ == "__main__":
    main()
