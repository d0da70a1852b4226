"""Tables with a header: a code, and names in columns or rows.

Readers for the forms that code tables come in; each yields entries, one a name.

table     a header with named columns (.tsv, .csv, .xlsx); KCD and ICD masters are of this form
kostom    tab-separated without a header: id, id, English, Korean, UMLS CUI
mrconso   UMLS's MRCONSO.RRF and files like it
biosyn    code||name a line
lexicon   a lexicon that was built before
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from ..errors import DataError, OptionError
from .builder import Entry, Passed
from .cells import Cells, read_cells, table_lines
from .lexicon import Lexicon, find_lexicon
from .manifest import MANIFEST
from .roles import NOTE, UNSAID, Layout, kind_of, language_code, layout_by_name, layout_of
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


_CUI = re.compile(r"C\d{7}")
_MRCONSO = (
    *("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI", "SCUI", "SDUI"),
    *("SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF"),
)
_SHORT_TYPES = {"AB", "ACR", "AA"}  # term types that UMLS gives abbreviations


@dataclass
class TableSource:
    """A table to be read: where it is, how, and what was passed over."""

    path: Path
    form: str = "auto"
    columns: Mapping[str, str] | None = None
    name: str = ""
    keep_uncoded: bool = False
    passed: Passed = field(default_factory=Passed)

    def __post_init__(self) -> None:
        """Name the source after its file, and recognise its form."""
        if str(self.path) == "sample" and not self.path.exists():
            self.path = find_lexicon("sample")
        self.name = self.name or self.path.name.split(".")[0]
        if str(self.path) == "-":
            raise DataError(
                "a table cannot come from stdin, for it is read twice; expected a file. "
                "Save it, and name the file."
            )
        if self.form not in ("auto", *FORMS):
            raise OptionError(f"form {self.form!r} is not known; known are {', '.join(FORMS)}.")
        if self.form == "auto":
            self.form = form_of(self.path, named=self.columns is not None)

    def entries(self) -> Iterator[Entry]:
        """Yield the names of the table."""
        return FORMS[self.form](self)


def form_of(path: Path, *, named: bool = False) -> str:
    """Recognise a table's form by its beginning."""
    if (path / MANIFEST).is_file():
        return "lexicon"
    if named or path.suffix.lower() in (".xlsx", ".xlsm", ".xls"):
        return "table"
    lines = [line for line in islice(table_lines(path), 100) if line]
    if not lines:
        raise DataError(f"{path} is empty; expected a table of codes and names. Check the file.")
    first = lines[0]
    if "\t" not in first and first.count("|") >= 14:
        return "mrconso"
    if "\t" not in first and "||" in first:
        return "biosyn"
    if layout_of(first.split("\t")) is None and any(_looks_kostom(line) for line in lines):
        return "kostom"
    return "table"


def _looks_kostom(line: str) -> bool:
    cells = line.split("\t")
    return len(cells) >= 5 and bool(_CUI.fullmatch(cells[4].strip()))


def _table(source: TableSource) -> Iterator[Entry]:
    return read_headed(
        read_cells(source.path),
        where=str(source.path),
        columns=source.columns,
        name=source.name,
        keep_uncoded=source.keep_uncoded,
        passed=source.passed,
    )


def _kostom(source: TableSource) -> Iterator[Entry]:
    for line, cells in read_cells(source.path):
        if len(cells) < 4:
            source.passed.add("too few columns", line)
            continue
        cells = [*(cell.strip() for cell in cells), ""]
        cui = cells[4]
        if line == 1 and cui and not _CUI.fullmatch(cui):
            continue  # a header
        # A term without a concept of its own in UMLS is still a pair of two names.
        code = cui or f"KOSTOM:{'/'.join(dict.fromkeys(filter(None, cells[:2]))) or line}"
        if not cells[2] and not cells[3]:
            source.passed.add("empty names", line)
        for text, language in ((cells[3], "ko"), (cells[2], "en")):
            if text:
                yield Entry(code, text, language, UNSAID, source.name, line)


def _mrconso(source: TableSource) -> Iterator[Entry]:
    place = {name: i for i, name in enumerate(_MRCONSO)}
    code_column = (source.columns or {}).get("code", "CUI")
    if code_column not in place:
        raise OptionError(
            f"--columns names the code {code_column!r}; MRCONSO has {', '.join(_MRCONSO)}."
        )
    for line, text in enumerate(table_lines(source.path), start=1):
        cells = text.split("|")
        if len(cells) < len(_MRCONSO):
            source.passed.add("too few fields", line)
            continue
        language = {"ENG": "en", "KOR": "ko"}.get(cells[place["LAT"]])
        if language is None:
            source.passed.add("another language", line)
        elif cells[place["SUPPRESS"]] in ("O", "E", "Y"):
            source.passed.add("suppressed", line)
        else:
            code, name = cells[place[code_column]], cells[place["STR"]]
            yield Entry(
                code, name, language, _mrconso_kind(cells, place), cells[place["SAB"]], line
            )


def _mrconso_kind(cells: list[str], place: Mapping[str, int]) -> str:
    if cells[place["TTY"]] in _SHORT_TYPES:
        return "abbreviation"
    marks = (cells[place["TS"]], cells[place["STT"]], cells[place["ISPREF"]])
    return UNSAID if marks == ("P", "PF", "Y") else "synonym"


def _biosyn(source: TableSource) -> Iterator[Entry]:
    for line, text in enumerate(table_lines(source.path), start=1):
        code, bars, name = text.partition("||")
        if bars and code.strip() and name.strip():
            yield Entry(code.strip(), name.strip(), None, UNSAID, source.name, line)
        elif text.strip():
            source.passed.add("no code||name", line)


def _lexicon(source: TableSource) -> Iterator[Entry]:
    lexicon = Lexicon.open(source.path)
    for i in range(len(lexicon)):
        name = lexicon.name(i)
        yield Entry(name.concept, name.original, name.language, name.kind, name.source, i + 1)
    for row in lexicon.exclusions():
        text = f"{row.text}({row.belongs_to})" if row.belongs_to else row.text
        yield Entry(row.concept, text, row.language, EXCLUDED, source.name, 0)


FORMS: dict[str, Callable[[TableSource], Iterator[Entry]]] = {
    "table": _table,
    "kostom": _kostom,
    "mrconso": _mrconso,
    "biosyn": _biosyn,
    "lexicon": _lexicon,
}

__all__ = ["FORMS", "Cells", "TableSource", "form_of"]
