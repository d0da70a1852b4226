"""Readers for the forms that code tables come in; each yields entries, one a name.

table     a header with named columns (.tsv, .csv, .xlsx); KCD and ICD masters are of this form
kostom    tab-separated without a header: id, id, English, Korean, UMLS CUI
mrconso   UMLS's MRCONSO.RRF and files like it
biosyn    code||name a line
lexicon   a lexicon that was built before
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ..errors import DataError, OptionError
from .cells import Cells, read_cells
from .encodings import table_lines
from .entries import Entry, Passed
from .headed import read_headed
from .layouts import UNSAID, layout_of
from .manifest import MANIFEST
from .store import Lexicon, find_lexicon
from .terms import EXCLUDED

_CUI = re.compile(r"C\d{7}")
_MRCONSO = (
    *("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI", "SCUI", "SDUI"),
    *("SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF"),
)
_SHORT_TYPES = {"AB", "ACR", "AA"}  # term types that UMLS gives abbreviations


@dataclass
class Source:
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


def _table(source: Source) -> Iterator[Entry]:
    return read_headed(
        read_cells(source.path),
        where=str(source.path),
        columns=source.columns,
        name=source.name,
        keep_uncoded=source.keep_uncoded,
        passed=source.passed,
    )


def _kostom(source: Source) -> Iterator[Entry]:
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


def _mrconso(source: Source) -> Iterator[Entry]:
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


def _biosyn(source: Source) -> Iterator[Entry]:
    for line, text in enumerate(table_lines(source.path), start=1):
        code, bars, name = text.partition("||")
        if bars and code.strip() and name.strip():
            yield Entry(code.strip(), name.strip(), None, UNSAID, source.name, line)
        elif text.strip():
            source.passed.add("no code||name", line)


def _lexicon(source: Source) -> Iterator[Entry]:
    lexicon = Lexicon.open(source.path)
    for i in range(len(lexicon)):
        name = lexicon.name(i)
        yield Entry(name.concept, name.original, name.language, name.kind, name.source, i + 1)
    for row in lexicon.exclusions():
        text = f"{row.text}({row.belongs_to})" if row.belongs_to else row.text
        yield Entry(row.concept, text, row.language, EXCLUDED, source.name, 0)


FORMS: dict[str, Callable[[Source], Iterator[Entry]]] = {
    "table": _table,
    "kostom": _kostom,
    "mrconso": _mrconso,
    "biosyn": _biosyn,
    "lexicon": _lexicon,
}

__all__ = ["FORMS", "Cells", "Source", "form_of"]
