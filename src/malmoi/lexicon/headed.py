"""Tables with a header: a code, and names in columns or rows."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice

from ..errors import DataError
from .cells import Cells
from .entries import Entry, Passed
from .layouts import NOTE, UNSAID, Layout, kind_of, language_code, layout_by_name, layout_of
from .terms import EXCLUDED

_TITLE_ROWS = 20  # a table's header may stand under a title and a date
_SEVERAL = re.compile(r"\s*[|;]\s*")
_ICD = re.compile(r"[A-Z]\d{3,5}")
_MARK = re.compile(r"[†‡*+]+$")


def read_headed(
    rows: Iterator[Cells],
    *,
    where: str,
    columns: Mapping[str, str] | None,
    name: str,
    keep_uncoded: bool,
    passed: Passed,
) -> Iterator[Entry]:
    """Yield the entries of a table; `columns` names its columns by part, else they are guessed."""
    head = list(islice(rows, _TITLE_ROWS))
    at, layout = _find_header(head, columns, where)
    width = len(head[at][1])
    master = layout.has("headword")
    above = ""
    for line, row in chain(head[at + 1 :], rows):
        if len(row) > width and any(row[width:]):
            passed.add("more cells than the header", line)
            continue
        code = _code(layout.cell(row, "code"), master=master)
        if not code and master:
            code = above  # a master leaves the cell empty under the code it belongs to
        elif not code and keep_uncoded:
            code = f"{name}:{line}"
        if not code:
            passed.add("no code", line)
            continue
        above = code
        yield from _names(layout, row, code, name, line, passed)


def _find_header(
    head: list[Cells], columns: Mapping[str, str] | None, where: str
) -> tuple[int, Layout]:
    if not head:
        raise DataError(f"{where} is empty; expected a header and rows. Check the file.")
    if columns is not None:
        code = columns.get("code", "")
        fits = [i for i, (_, row) in enumerate(head) if code in [cell.strip() for cell in row]]
        at = fits[0] if fits else 0
        return at, layout_by_name(head[at][1], columns, where=where)
    for i, (_, row) in enumerate(head):
        layout = layout_of(row)
        if layout is not None:
            return i, layout
    raise DataError(
        f"{where} has the columns {_listed(head[0][1])}; expected one of codes (code, 코드 …) and "
        "one of names (ko, en, name, 한글명 …). Name them: --columns code=…,ko=…,en=…"
    )


def _listed(cells: list[str]) -> str:
    shown = [cell.strip()[:30] for cell in cells if cell.strip()][:8]
    return ", ".join(shown) or "nothing"


def _code(cell: str, *, master: bool) -> str:
    """Take marks off a code; a KCD master may leave out the point as well."""
    code = _MARK.sub("", cell)
    if master and _ICD.fullmatch(code):
        return f"{code[:3]}.{code[3:]}"
    return code


def _names(
    layout: Layout, row: list[str], code: str, name: str, line: int, passed: Passed
) -> Iterator[Entry]:
    kind = _kind(layout, row)
    if kind in (None, NOTE):
        passed.add("a note" if kind else "a kind that is not known", line)
        return
    source = layout.cell(row, "source") or name
    found = False
    for text, language, said in _texts(layout, row, kind or UNSAID):
        found = True
        yield Entry(code, text, language, said, source, line)
    if not found:
        passed.add("empty names", line)


def _kind(layout: Layout, row: list[str]) -> str | None:
    """Tell what a row is; None when its word is not known."""
    if layout.has("note"):
        said = kind_of(layout.cell(row, "note"))
        if said in (NOTE, EXCLUDED, "narrower"):
            return said
    if layout.has("headword"):
        return "preferred" if layout.cell(row, "headword") else "narrower"
    return kind_of(layout.cell(row, "kind"))


def _texts(layout: Layout, row: list[str], kind: str) -> Iterator[tuple[str, str | None, str]]:
    """Give (text, language, kind) of every name in a row."""
    for role in ("ko", "en"):
        for text in layout.cells(row, role):
            if text:
                yield text, role, kind
    declared = language_code(layout.cell(row, "language"))
    for text in layout.cells(row, "name"):
        if text:
            yield text, declared, kind
    for role, said in (("synonyms", "synonym"), ("abbreviations", "abbreviation"), ("lay", "lay")):
        for cell in layout.cells(row, role):
            for text in filter(None, _SEVERAL.split(cell)):
                yield text, None, said
