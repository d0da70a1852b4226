"""Roles of a table's columns, recognised by the words of its header in Korean or English."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import DataError, OptionError
from .terms import EXCLUDED

# The kind of a name whose table does not say; the first one of a concept becomes preferred.
UNSTATED = ""
NOTE = "note"

ROLES: dict[str, tuple[str, ...]] = {
    "code": (
        *("code", "ids", "id", "concept", "conceptid", "cui", "kcd", "kcdcode", "icd", "icd10"),
        *("코드", "질병분류코드", "분류코드", "상병코드", "상병기호", "질병코드", "진단코드"),
        *("kcd코드", "질병분류기호", "icd10코드", "atc"),
    ),
    "ko": (
        *("ko", "korean", "kor", "한글명", "한글", "한글명칭", "국문", "국문명", "한글상병명"),
        *("한글진단명", "한글용어", "질병명", "상병명"),
    ),
    "en": (
        *("en", "english", "eng", "영문명", "영문", "영문명칭", "영문상병명", "영문진단명"),
        *("영문용어", "영어"),
    ),
    "name": ("name", "term", "text", "str", "synonym", "명칭", "용어", "이름", "진단명"),
    "language": ("language", "lang", "lat", "언어"),
    "kind": ("kind", "type", "구분", "종류", "유형"),
    "source": ("source", "sab", "출처"),
    "note": ("note", "주석", "비고", "포함제외", "주"),
    "headword": ("headword", "표제어", "표제어구분"),
    "abbreviations": ("abbreviation", "abbreviations", "abbr", "약어"),
    "lay": ("lay", "layname", "laynames", "속칭", "속명", "통칭", "일반명"),
    "synonyms": ("synonyms", "동의어", "이명", "유의어"),
}
_KINDS = {
    "preferred": ("preferred", "headword", "title", "pt", "pf", "표제어", "대표어", "대표", "우선"),
    "synonym": ("synonym", "sy", "exactsynonym", "동의어", "유의어", "이명"),
    "narrower": (
        *("narrower", "inclusion", "inclusionterm", "includes", "includesnote", "included"),
        *("narrowsynonym", "포함", "하위어", "협의어"),
    ),
    "abbreviation": ("abbreviation", "abbr", "ab", "acr", "acronym", "약어", "축약어"),
    "lay": ("lay", "layname", "colloquial", "속칭", "통칭", "속명", "일반명", "구어"),
    EXCLUDED: ("excluded", "exclusion", "excludes", "exclude", "제외"),
    NOTE: ("note", "주", "주석", "지침", "definition"),
    UNSTATED: ("", "name", "term", "용어"),
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words}
_LANGUAGES = dict.fromkeys(("ko", "kor", "korean", "한글", "한국어", "국문"), "ko")
_LANGUAGES |= dict.fromkeys(("en", "eng", "english", "영문", "영어"), "en")
_NOISE = re.compile(r"[\s_().·/†*-]+")


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
