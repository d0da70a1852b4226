"""Readers for the forms that code tables come in; each yields entries, one a name.

table     a header with named columns (.tsv, .csv, .xlsx); KCD and ICD masters are of this form
kostom    tab-separated without a header: id, id, English, Korean, UMLS CUI
mrconso   UMLS's MRCONSO.RRF and files like it
biosyn    code||name a line
lexicon   a lexicon that was built before

The roles of a table's columns are recognised by the words of its header, in Korean or English.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from pathlib import Path

from ..errors import DataError, OptionError
from ..io.files import read_lines
from ..io.tables import Cells, read_cells
from .names import EXCLUDED, KINDS, LANGUAGES
from .normalize import TABLES
from .segment import MANIFEST, LexiconManifest, find_lexicon, open_segments, read_exclusions

# The kind of a name whose table does not say; the first one of a concept becomes preferred.
UNSTATED = ""
NOTE = "note"


def _words(what: str) -> dict[str, tuple[str, ...]]:
    """Read the words of columns.tsv for a "role", a "kind" or a "language", by their meaning."""
    rows = (line.split("\t") for line in read_lines(TABLES / "columns.tsv"))
    return {row[1]: tuple(row[2:]) for row in rows if row[0] == what}


ROLES = _words("role")
_KIND_OF = {word: kind for kind, words in _words("kind").items() for word in words}
_KIND_OF |= {word: UNSTATED for word, kind in _KIND_OF.items() if kind == "unstated"}
_KIND_OF[""] = UNSTATED
_LANGUAGES = {word: code for code, words in _words("language").items() for word in words}
_NOISE = re.compile(r"[\s_().·/†*-]+")
_SHOWN = 5  # how many lines of a kind are named
_TITLE_ROWS = 20  # a table's header may stand under a title and a date
_SEVERAL = re.compile(r"\s*[|;]\s*")
_ICD = re.compile(r"[A-Z]\d{3,5}")
_MARK = re.compile(r"[†‡*+]+$")


@dataclass(frozen=True)
class Layout:
    """The columns of a table by their role, as positions in a row."""

    positions: dict[str, tuple[int, ...]]

    def cells(self, row: Sequence[str], role: str) -> list[str]:
        """Give what a row has in the columns of a role; a short row has empty cells."""
        return [row[i].strip() if i < len(row) else "" for i in self.positions.get(role, ())]

    def cell(self, row: Sequence[str], role: str) -> str:
        """Give the first of them, "" where there is no such column."""
        return next(iter(self.cells(row, role)), "")

    def has(self, role: str) -> bool:
        """Tell whether any column has the role."""
        return role in self.positions


def layout_of(header: Sequence[str]) -> Layout | None:
    """Recognise a header by its words; None when it names no codes or no names."""
    words = [_NOISE.sub("", cell).casefold() for cell in header]
    positions: dict[str, tuple[int, ...]] = {}
    for role, known in ROLES.items():
        found = [i for word in known for i, cell in enumerate(words) if cell == word]
        if found:
            positions[role] = (found[0],)
    if "code" in positions and positions.keys() & {"ko", "en", "name"}:
        return Layout(positions)
    return None


def layout_by_name(header: Sequence[str], columns: Mapping[str, str], *, where: str) -> Layout:
    """Find the columns that the user named; several of one role are joined by "+"."""
    check_roles(columns)
    positions: dict[str, tuple[int, ...]] = {}
    names = [cell.strip() for cell in header]
    for role, wanted in columns.items():
        for name in [wanted] if wanted in names else wanted.split("+"):
            if name not in names:
                raise DataError(
                    f"{where} has no column {name!r}; it has {', '.join(filter(None, names))}. "
                    "Name one of these in --columns."
                )
            positions[role] = (*positions.get(role, ()), names.index(name))
    return Layout(positions)


def check_roles(columns: Mapping[str, str]) -> None:
    """Refuse roles that are not known, and columns without codes or without names."""
    for role in columns:
        if role not in ROLES:
            raise OptionError(
                f"--columns names the part {role!r}; known are {', '.join(ROLES)}. "
                "Use one of these."
            )
    if "code" not in columns or not columns.keys() & {"ko", "en", "name"}:
        raise OptionError(
            f"--columns names {', '.join(columns) or 'nothing'}; expected code and at least one of "
            "ko, en and name. Give them, as code=상병코드,ko=한글명."
        )


def kind_of(word: str) -> str | None:
    """Give the kind that a table's word stands for, None when it is not known.

    >>> kind_of("inclusion"), kind_of("제외"), kind_of("약어"), kind_of("blue")
    ('narrower', 'excluded', 'abbreviation', None)
    """
    return _KIND_OF.get(_NOISE.sub("", word).casefold())


def language_code(word: str) -> str | None:
    """Give "ko" or "en" for the words that tables use for them, None for others."""
    return _LANGUAGES.get(word.strip().casefold())


@dataclass(frozen=True, slots=True)
class Entry:
    """One name as a table gives it; `language` is None where the table does not say."""

    code: str
    text: str
    language: str | None
    kind: str
    source: str
    line: int


@dataclass
class TableSource:
    """A table to be read: where it is, how, and which rows were skipped, by reason."""

    path: Path
    form: str = "auto"
    columns: Mapping[str, str] | None = None
    name: str = ""
    keep_uncoded: bool = False
    skipped: Counter[str] = field(default_factory=Counter)
    skipped_lines: dict[str, list[int]] = field(default_factory=dict)  # the first of each

    def __post_init__(self) -> None:
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

    def skip(self, reason: str, line: int) -> None:
        """Count a row that has no name."""
        self.skipped[reason] += 1
        if self.skipped[reason] <= _SHOWN:
            self.skipped_lines.setdefault(reason, []).append(line)

    def entries(self) -> Iterator[Entry]:
        """Yield the names of the table."""
        return FORMS[self.form](self)


def form_of(path: Path, *, named: bool = False) -> str:
    """Recognise a table's form by its beginning."""
    if (path / MANIFEST).is_file():
        return "lexicon"
    if named or path.suffix.lower() in (".xlsx", ".xlsm", ".xls"):
        return "table"
    lines = [line for line in islice(read_lines(path, mixed=True), 100) if line]
    if not lines:
        raise DataError(f"{path} is empty; expected a table of codes and names. Check the file.")
    first = lines[0]
    if "\t" not in first and first.count("|") >= 14:
        return "mrconso"
    if "\t" not in first and "||" in first:
        return "biosyn"
    fifth = [line.split("\t")[4].strip() for line in lines if line.count("\t") >= 4]
    if layout_of(first.split("\t")) is None and any(map(_CUI.fullmatch, fifth)):
        return "kostom"
    return "table"


def _table(source: TableSource) -> Iterator[Entry]:
    """Read a table with a header: a code, and names in columns or rows."""
    rows = read_cells(source.path)
    head = list(islice(rows, _TITLE_ROWS))
    at, layout = _find_header(head, source.columns, str(source.path))
    width = len(head[at][1])
    master = layout.has("headword")
    above = ""
    for line, row in chain(head[at + 1 :], rows):
        if len(row) > width and any(row[width:]):
            source.skip("more cells than the header", line)
            continue
        code = _MARK.sub("", layout.cell(row, "code"))
        if master and _ICD.fullmatch(code):  # a KCD master may leave out the point
            code = f"{code[:3]}.{code[3:]}"
        if not code and master:
            code = above  # a master leaves the cell empty under the code it belongs to
        elif not code and source.keep_uncoded:
            code = f"{source.name}:{line}"
        if not code:
            source.skip("no code", line)
            continue
        above = code
        yield from _names(layout, row, code, line, source)


def _find_header(
    head: list[Cells], columns: Mapping[str, str] | None, where: str
) -> tuple[int, Layout]:
    if not head:
        raise DataError(f"{where} is empty; expected a header and rows. Check the file.")
    if columns is not None:
        named = ([cell.strip() for cell in row] for _, row in head)
        at = next((i for i, row in enumerate(named) if columns.get("code", "") in row), 0)
        return at, layout_by_name(head[at][1], columns, where=where)
    for i, (_, row) in enumerate(head):
        layout = layout_of(row)
        if layout is not None:
            return i, layout
    shown = [cell.strip()[:30] for cell in head[0][1] if cell.strip()][:8]
    raise DataError(
        f"{where} has the columns {', '.join(shown) or 'nothing'}; expected one of codes (code, "
        "코드 …) and one of names (ko, en, name, 한글명 …). Name them: --columns code=…,ko=…,en=…"
    )


def _names(
    layout: Layout, row: list[str], code: str, line: int, source: TableSource
) -> Iterator[Entry]:
    kind = _kind(layout, row)
    if kind in (None, NOTE):
        source.skip("a note" if kind else "a kind that is not known", line)
        return
    label = layout.cell(row, "source") or source.name
    found = list(_texts(layout, row, kind or UNSTATED))
    if not found:
        source.skip("empty names", line)
    yield from (Entry(code, text, language, own, label, line) for text, language, own in found)


def _kind(layout: Layout, row: list[str]) -> str | None:
    """Tell what a row is; None when its word is not known."""
    if layout.has("note"):
        noted = kind_of(layout.cell(row, "note"))
        if noted in (NOTE, EXCLUDED, "narrower"):
            return noted
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
    for role, own in (("synonyms", "synonym"), ("abbreviations", "abbreviation"), ("lay", "lay")):
        for cell in layout.cells(row, role):
            for text in filter(None, _SEVERAL.split(cell)):
                yield text, None, own


_CUI = re.compile(r"C\d{7}")
_MRCONSO = (
    *("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI", "SCUI", "SDUI"),
    *("SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF"),
)
_SHORT_TYPES = {"AB", "ACR", "AA"}  # term types that UMLS gives abbreviations


def _kostom(source: TableSource) -> Iterator[Entry]:
    for line, cells in read_cells(source.path):
        if len(cells) < 4:
            source.skip("too few columns", line)
            continue
        cells = [*(cell.strip() for cell in cells), ""]
        cui = cells[4]
        if line == 1 and cui and not _CUI.fullmatch(cui):
            continue  # a header
        # A term without a concept of its own in UMLS is still a pair of two names.
        code = cui or f"KOSTOM:{'/'.join(dict.fromkeys(filter(None, cells[:2]))) or line}"
        if not cells[2] and not cells[3]:
            source.skip("empty names", line)
        for text, language in ((cells[3], "ko"), (cells[2], "en")):
            if text:
                yield Entry(code, text, language, UNSTATED, source.name, line)


def _mrconso(source: TableSource) -> Iterator[Entry]:
    at = {name: i for i, name in enumerate(_MRCONSO)}
    code_column = (source.columns or {}).get("code", "CUI")
    if code_column not in at:
        raise OptionError(
            f"--columns names the code {code_column!r}; MRCONSO has {', '.join(_MRCONSO)}."
        )
    for line, text in enumerate(read_lines(source.path, mixed=True), start=1):
        cells = text.split("|")
        if len(cells) < len(_MRCONSO):
            source.skip("too few fields", line)
            continue
        language = {"ENG": "en", "KOR": "ko"}.get(cells[at["LAT"]])
        if language is None:
            source.skip("another language", line)
        elif cells[at["SUPPRESS"]] in ("O", "E", "Y"):
            source.skip("suppressed", line)
        else:
            code, name = cells[at[code_column]], cells[at["STR"]]
            yield Entry(code, name, language, _mrconso_kind(cells, at), cells[at["SAB"]], line)


def _mrconso_kind(cells: list[str], at: Mapping[str, int]) -> str:
    if cells[at["TTY"]] in _SHORT_TYPES:
        return "abbreviation"
    marks = (cells[at["TS"]], cells[at["STT"]], cells[at["ISPREF"]])
    return UNSTATED if marks == ("P", "PF", "Y") else "synonym"


def _biosyn(source: TableSource) -> Iterator[Entry]:
    for line, text in enumerate(read_lines(source.path, mixed=True), start=1):
        code, bars, name = text.partition("||")
        if bars and code.strip() and name.strip():
            yield Entry(code.strip(), name.strip(), None, UNSTATED, source.name, line)
        elif text.strip():
            source.skip("no code||name", line)


def _lexicon(source: TableSource) -> Iterator[Entry]:
    folder = find_lexicon(source.path)
    segments = open_segments(folder, LexiconManifest.read(folder))
    codes = [code for segment in segments for code in segment.codes]
    lines = count(1)
    for segment in segments:
        for row, concept in enumerate(segment.concepts.tolist()):
            language, kind = LANGUAGES[segment.languages[row]], KINDS[segment.kinds[row]]
            label = segment.source_names[segment.sources[row]]
            text = segment.original(row)
            yield Entry(codes[concept], text, language, kind, label, next(lines))
    for name in read_exclusions(segments):
        text = f"{name.text}({name.belongs_to})" if name.belongs_to else name.text
        yield Entry(name.concept, text, name.language, EXCLUDED, source.name, 0)


FORMS: dict[str, Callable[[TableSource], Iterator[Entry]]] = {
    "table": _table,
    "kostom": _kostom,
    "mrconso": _mrconso,
    "biosyn": _biosyn,
    "lexicon": _lexicon,
}
