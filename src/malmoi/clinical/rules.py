"""The tables of context, ready to be used: cues, headings, words for persons, chronic diseases.

They are files (`clinical/tables/*.tsv`), which a folder with tables of the same names extends.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import DataError
from ..io.files import read_text
from ..text.cleanup import read_hanja

NEGATED, FAMILY = "negated", "family"
PRESENT, POSSIBLE, HYPOTHETICAL, HISTORICAL = "present", "possible", "hypothetical", "historical"
PATIENT, OTHER = "patient", "other"
# Attributes of cues that are no status of their own; see cues.tsv.
INSTRUCTED, RESOLVED = "instructed", "resolved"
MOTHER, BABY, PAST = "mother", "baby", "past"

TABLES = Path(__file__).parent / "tables"
_CUE_ATTRIBUTES = (
    NEGATED, POSSIBLE, HYPOTHETICAL, INSTRUCTED, HISTORICAL, RESOLVED, FAMILY, OTHER,
)  # fmt: skip
_DIRECTIONS = ("before", "after", "before-item", "after-item")
_EFFECTS = ("", FAMILY, PAST, HYPOTHETICAL, INSTRUCTED, POSSIBLE, MOTHER, BABY)
_PERSONS = (FAMILY, OTHER, PATIENT, MOTHER, BABY)


@dataclass(frozen=True)
class Reason:
    """Why a note says something of a mention: the note's words, the table's row, the rule."""

    says: str  # the status, the experiencer or the certainty
    cue: str  # note[start:end]
    start: int
    end: int
    source: str  # "cues.tsv row 214", the line of the file; "" for signs, which are no words
    rule: str

    def __str__(self) -> str:
        row = f" ({self.source})" if self.source else ""
        return f"{self.says}: '{self.cue}'{row}, {self.rule}"


def table_rows(name: str, columns: Sequence[str], folders: Iterable[Path]) -> Iterator[list[str]]:
    """Give the rows of a shipped table and of those of the same name in other folders."""
    for _, cells in sourced_rows(name, columns, folders):
        yield cells


def sourced_rows(
    name: str, columns: Sequence[str], folders: Iterable[Path]
) -> Iterator[tuple[str, list[str]]]:
    """Give the rows of such tables, each with its table and its line there."""
    for path in (TABLES / name, *(folder / name for folder in folders)):
        if path.parent != TABLES and not path.exists():
            continue
        lines = enumerate(read_text(path).splitlines(), start=1)
        rows = [(i, x.split("\t")) for i, x in lines if x.strip() and not x.startswith("#")]
        if not rows or rows[0][1][: len(columns)] != list(columns):
            raise DataError(
                f"{path} has the columns {', '.join(rows[0][1]) if rows else 'none'}; expected "
                f"{', '.join(columns)}. Name them so in its first line."
            )
        table = name if path.parent == TABLES else f"{path.parent.name}/{name}"
        for line, row in rows[1:]:
            if len(row) < len(columns):
                raise DataError(
                    f"a line of {path} has {len(row)} columns; expected {len(columns)}: "
                    f"{', '.join(columns)}, with tabs between. Complete or remove the line."
                )
            yield f"{table} row {line}", [cell.strip() for cell in row[: len(columns)]]


def _check(value: str, known: Sequence[str], name: str, table: str) -> str:
    if value not in known:
        raise DataError(
            f"{table} has the unknown {name} {value!r}; expected one of "
            f"{', '.join(one for one in known if one)}. Correct that row."
        )
    return value


# Korean is spaced as one likes: "진단받은 적 없음" is "진단받은적없음".
_KOREAN_SPACE = re.compile(r"(?<=[가-힣)]) (?=[가-힣(])")


def _pattern(words: Sequence[str], direction: str) -> "re.Pattern[str]":
    """Make one expression of cues; the longer ones are tried first."""
    plain = sorted((w for w in words if not w.startswith("/")), key=len, reverse=True)
    parts = [_KOREAN_SPACE.sub(" ?", word[1:-1]) for word in words if word.startswith("/")]
    parts.sort(key=len, reverse=True)
    parts += [
        re.escape(_KOREAN_SPACE.sub("\0", word)).replace(r"\ ", r"\s+").replace("\0", r"\s?")
        for word in plain
    ]
    try:
        if direction.startswith("before"):
            # "뇌경색 r/o, HTN": a cue before a comma is about what precedes it.
            tail = r"(?![a-z])(?:상|에|으로|의)?(?![가-힣])(?!\s*[,;.)])"
            return re.compile(rf"(?<![a-z가-힣])(?:{'|'.join(parts)}){tail}", re.I | re.M)
        # A word in Latin letters stands alone; Korean ones have endings.
        whole = [
            rf"(?<![a-z]){part}(?![a-z])" if re.match(r"(?:\(\?:|\()*[a-z]", part, re.I) else part
            for part in parts
        ]
        return re.compile("|".join(whole), re.I | re.M)
    except re.error as error:
        raise DataError(
            f"cues.tsv has an expression that cannot be read ({error}); expected a regular "
            "expression between slashes. Correct the table."
        ) from error


def _spaced(word: str) -> str:
    return re.escape(word).replace(r"\ ", r"\s?")


def _person_pattern(words: Sequence[str]) -> "re.Pattern[str]":
    short = [word for word in words if len(word) == 1]
    korean = sorted((w for w in words if len(w) > 1 and not w.isascii()), key=len, reverse=True)
    latin = sorted((w for w in words if w.isascii()), key=len, reverse=True)
    # 친언니, 사촌형, 큰이모
    which = r"(?:친|외|큰|작은|막내|이종|고종|사촌|이복|첫째|둘째|셋째|쌍둥이)"
    particle = r"(?:님|분|들)?(?:께서는|께서|이|가|은|는|도|의|에게|와|과|랑|만|에서|에는|에)?"
    parts = [
        # 부 and 모 alone: "부: 췌장암", "모 DM", but neither "A 형 간염" nor "모 병원".
        rf"(?<![가-힣\w])(?<![A-Za-z0-9][ \t])(?:{which}{{1,2}})?(?:{'|'.join(short)})"
        r"(?:는|도|가|이|은)?(?=\s*[:\-–(),/]|\s|$)"
        r"(?!\s*(?:병원|의원|대학|기관|회사|씨|년|월|위\s|형\s))" if short else "",
        rf"(?<![가-힣])(?:{which}\s?){{0,2}}(?:{'|'.join(map(_spaced, korean))})"
        rf"{particle}(?![가-힣])"
        if korean else "",
        rf"(?<![a-z])(?:{'|'.join(map(re.escape, latin))})(?![a-z])" if latin else "",
    ]  # fmt: skip
    return re.compile("|".join(part for part in parts if part) or "(?!)", re.I)


@dataclass(frozen=True, eq=False)
class ContextRules:
    """The tables of context, ready to be used."""

    cues: tuple[tuple[str, str, "re.Pattern[str]"], ...]  # attribute, direction, expression
    persons: tuple[tuple[str, "re.Pattern[str]"], ...]
    headings: "re.Pattern[str]"
    inline: "re.Pattern[str]"
    sections: dict[str, tuple[str, str]]  # heading → section, effect
    chronic: tuple[str, ...]
    # Where each cue, each word for a person and each heading stands in its table.
    sources: Mapping[str, Mapping[str, str]]
    words: Mapping[str, Mapping[str, str]]  # the lists of grammar.tsv: each word with its row

    @classmethod
    def open(cls, *folders: Path) -> "ContextRules":
        """Read the shipped tables, extended by those in other folders."""
        return _open_rules(folders) if folders else _shipped_rules()

    def is_chronic(self, code: str) -> bool:
        """Tell whether a disease lasts."""
        return code.startswith(self.chronic)

    def row_of_cue(self, attribute: str, direction: str, note: str, start: int, end: int) -> str:
        """Give the row of the cue that a note has at a place."""
        for cue, source in self.sources[f"{attribute} {direction}"].items():
            found = _one_cue(cue, direction).match(note, start)
            if found is not None and found.end() == end:
                return source
        return "cues.tsv"

    def row_of_word(self, table: str, words: str) -> str:
        """Give the row of the longest word of a table that some words of a note have in them."""
        key = heading_key(words)
        known = [word for word in self.sources[table] if word in key]
        return self.sources[table][max(known, key=len)] if known else table


@lru_cache(maxsize=1000)
def _one_cue(cue: str, direction: str) -> "re.Pattern[str]":
    return _pattern([cue], direction)


@lru_cache(maxsize=1)
def _shipped_rules() -> ContextRules:
    return _open_rules(())


def _open_rules(folders: tuple[Path, ...]) -> ContextRules:
    words: dict[tuple[str, str], list[str]] = {}
    sources: dict[str, dict[str, str]] = {"persons.tsv": {}, "sections.tsv": {}}
    for source, (attribute, direction, cue) in sourced_rows(
        "cues.tsv", ("attribute", "direction", "cue"), folders
    ):
        _check(attribute, _CUE_ATTRIBUTES, "attribute", "cues.tsv")
        _check(direction, _DIRECTIONS, "direction", "cues.tsv")
        words.setdefault((attribute, direction), []).append(cue)
        sources.setdefault(f"{attribute} {direction}", {})[cue] = source
    persons: dict[str, list[str]] = {}
    for source, (who, names) in sourced_rows("persons.tsv", ("experiencer", "words"), folders):
        _check(who, _PERSONS, "experiencer", "persons.tsv")
        persons.setdefault(who, []).extend(names.split("|"))
        sources["persons.tsv"] |= {heading_key(name): source for name in names.split("|")}
    sections: dict[str, tuple[str, str]] = {}
    headings: set[str] = set()
    for source, (section, effect, names) in sourced_rows(
        "sections.tsv", ("section", "effect", "headings"), folders
    ):
        _check(effect, _EFFECTS, "effect", "sections.tsv")
        for name in names.split("|"):
            sections[heading_key(name)] = (section, effect)
            sources["sections.tsv"][heading_key(name)] = source
            headings.add(name.strip().casefold())
    known = sorted(headings, key=lambda name: (-len(name), name))
    family = "|".join(re.escape(name) for name in known if sections[heading_key(name)][1] == FAMILY)
    any_heading = "|".join(re.escape(name).replace(r"\ ", r"\s*") for name in known)
    # In running text only headings of some length count, and those with a point or a capital Hx.
    long = "|".join(
        re.escape(name).replace(r"\ ", r"\s*")
        for name in known
        if sections[heading_key(name)][1] in (FAMILY, PAST, HYPOTHETICAL)
        or (len(name) > 2 and not name.isascii())
    )
    return ContextRules(
        tuple((*key, _pattern(cues, key[1])) for key, cues in words.items()),
        tuple((who, _person_pattern(names)) for who, names in persons.items()),
        re.compile(
            r"^[ \t]*[-*•#<\[(【■◆▶○●□◇※]*[ \t]*(?:\d{1,2}[.)][ \t]*)?"
            rf"(?P<name>{any_heading})[ \t]*(?P<mark>[\])>】]+[ \t]*[:：]?"
            rf"|[ \t]*\(\+\)[ \t]*[:：]?|[:：=\t]|\.(?=\s)"
            rf"|[-–](?=\s)|[ \t]{{2,}}|(?=\r?$))",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(
            rf"(?<![a-z가-힣])(?P<name>{long})(?P<mark>\s*(?:[:：)>\]]|상\s|으로\s|에\s))"
            # "가족력 위암 있음", "FHx of DM": of families also without a mark.
            rf"|(?:^|(?<=\n)|(?<=[,.;]\s))(?P<family>{family})(?=[ \t]+\S)",
            re.IGNORECASE,
        ),
        sections,
        tuple(code for code, _ in table_rows("chronic.tsv", ("code", "what"), folders)),
        sources,
        _read_grammar(folders),
    )


def _read_grammar(folders: tuple[Path, ...]) -> dict[str, dict[str, str]]:
    lists: dict[str, dict[str, str]] = {}
    for source, (name, cell) in sourced_rows("grammar.tsv", ("name", "words"), folders):
        if source.startswith("grammar.tsv"):
            lists.setdefault(name, {})
        else:
            _check(name, tuple(lists), "name", "grammar.tsv")
        words = [cell] if cell.startswith("/") else cell.split("|")
        lists[name] |= dict.fromkeys((word.strip() for word in words), source)
    return lists


# 豫防 is 예방. One letter alone is a sign or a person: 無, 父. One in a word may be both: 結核無.
_HANJA_WORD = re.compile(
    "(?![無无有疑父母兄弟])[\u4e00-\u9fff\uf900-\ufaff](?:(?![無无有疑])[\u4e00-\u9fff\uf900-\ufaff])+"
)


def read_hanja_words(text: str) -> str:
    """Write words of hanja by their Korean reading, letter for letter.

    >>> read_hanja_words("父 胃癌, 結核無")
    '父 위암, 결핵無'
    """
    return _HANJA_WORD.sub(lambda word: read_hanja(word.group()), text)


def heading_key(name: str) -> str:
    """Give a heading's key; spaces are left out, for 이학적소견 is 이학적 소견."""
    return re.sub(r"\s+", "", name.casefold())


def status_of(found: Mapping[str, Reason], *, chronic: bool) -> tuple[str, Reason | None]:
    """Choose the status of all that cues say, and why; what would do harm is decided first."""
    order = {
        RESOLVED: HISTORICAL,
        NEGATED: NEGATED,
        HYPOTHETICAL: HYPOTHETICAL,
        INSTRUCTED: "" if chronic else HYPOTHETICAL,
        POSSIBLE: POSSIBLE,
        HISTORICAL: "" if chronic else HISTORICAL,
    }
    for attribute, status in order.items():
        if status and attribute in found:
            return status, found[attribute]
    return PRESENT, None
