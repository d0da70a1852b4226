"""Meanings of short forms by what stands around them: "ESRD on HD" is no Huntington disease.

Every meaning of a form has points: a prior, five for a pattern around the form, one for each word
of evidence that the note has, and some for diagnoses of the same chapter. The points become shares
of probability; what stays unclear is kept as an alternative.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import DataError
from ..io.files import read_text
from ..terms.abbreviations import Abbreviations
from .rules import table_rows

NO_DIAGNOSIS = "-"
_PATTERN, _MOST_EVIDENCE = 5.0, 3
_NEAR = 40  # characters on either side in which a pattern is looked for
_FAR = 2_000  # and evidence
_CONDITIONS = ("disease", "sign")
# Whatever a short form means elsewhere: a department, a doctor, a day, a dose or a frequency.
_ELSE = re.compile(
    r"@ ?(?:consult|slot|staff|fellow|Dr(?![a-z])|prof(?![a-z])|R[1-4](?!\d)|교수|선생|당직|협진"
    r"|(?:외래|병동)(?![가-힣])"
    r"|#\d|\d+(?:\.\d+)? ?(?:mg|mcg|ml|cc|회|times|tab|cap|amp|vial|/wk)(?![a-z]))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sense:
    """One meaning of a short form, with what speaks for it."""

    meaning: str
    prior: float
    pattern: "re.Pattern[str] | None" = None
    evidence: tuple["re.Pattern[str]", ...] = ()


@dataclass(frozen=True)
class WeighedSense:
    """A meaning and its share of probability."""

    meaning: str
    share: float


class SenseTable:
    """The meanings of `tables/senses.tsv`, and those of abbreviations with several."""

    def __init__(self, senses: Mapping[str, Sequence[Sense]], abbreviations: Abbreviations) -> None:
        """Take the meanings by form, and the abbreviations for forms that it does not have."""
        self._senses, self._abbreviations = senses, abbreviations
        self._of = lru_cache(maxsize=4096)(self._meanings)

    @classmethod
    def open(cls, abbreviations: Abbreviations, *folders: Path) -> "SenseTable":
        """Read the shipped table; a form of another folder's table replaces it."""
        found: dict[str, list[Sense]] = {}
        columns = ("short", "meaning", "prior", "pattern", "evidence")
        for place in ((), *((folder,) for folder in folders)):
            own: dict[str, list[Sense]] = {}
            rows = list(table_rows("senses.tsv", columns[:3], place))
            for row in _full_rows(place, columns) if rows else ():
                own.setdefault(row[0], []).append(_sense(row))
            found |= own
        return cls(found, abbreviations)

    def senses(self, form: str) -> Sequence[Sense]:
        """Give the meanings of a form; none or one needs no weighing."""
        return self._of(form)

    def _meanings(self, form: str) -> Sequence[Sense]:
        form = form.rstrip(".")
        listed = self._senses.get(form) or (
            self._senses.get(form.upper()) if form.isascii() and len(form) > 2 else None
        )
        if listed:
            return listed
        if not form.isascii() or len(form) > 8:
            return ()
        found = self._abbreviations.expand(form)
        meanings = dict.fromkeys(
            (one.en or one.ko) if one.kind in _CONDITIONS else NO_DIAGNOSIS for one in found
        )
        if len(meanings) < 2:
            return ()
        return [Sense(meaning, 0.5 - 0.3 * min(i, 2)) for i, meaning in enumerate(meanings)]

    def weigh(
        self, form: str, note: str, start: int, end: int, affinity: Callable[[str], float]
    ) -> list[WeighedSense]:
        """Give the meanings of a form where it stands, the likeliest first; [] for one meaning."""
        senses = self.senses(form)
        if not senses:
            return []
        left, right = note[max(0, start - _NEAR) : start], note[end : end + _NEAR]
        around = f"{left.rpartition(chr(10))[2]}@{right.partition(chr(10))[0]}"
        rest = f"{note[max(0, start - _FAR) : start]} {note[end : end + _FAR]}"
        if _ELSE.search(around):
            return [WeighedSense(NO_DIAGNOSIS, 1.0)]
        points = [_points(sense, around, rest) for sense in senses]
        top = sorted(points, reverse=True)
        # Diagnoses of the same chapter decide only where the words do not.
        if len(top) > 1 and top[0] - top[1] < 2:
            points = [
                value + (affinity(sense.meaning) if sense.meaning != NO_DIAGNOSIS else 0.0)
                for value, sense in zip(points, senses, strict=True)
            ]
        weights = [math.exp(value - max(points)) for value in points]
        shares = [
            WeighedSense(sense.meaning, weight / sum(weights))
            for sense, weight in zip(senses, weights, strict=True)
        ]
        return sorted(shares, key=lambda one: -one.share)


def _points(sense: Sense, around: str, rest: str) -> float:
    points = sense.prior
    if sense.pattern is not None and sense.pattern.search(around):
        points += _PATTERN
    hits = sum(1 for word in sense.evidence if word.search(rest))
    return points + min(hits, _MOST_EVIDENCE)


def _full_rows(place: Sequence[Path], columns: Sequence[str]) -> list[list[str]]:
    path = (place[0] if place else Path(__file__).parent / "tables") / "senses.tsv"
    if not path.exists():
        return []
    rows = [
        line.split("\t")
        for line in read_text(path).splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [[cell.strip() for cell in row] + [""] * (len(columns) - len(row)) for row in rows[1:]]


def _sense(row: Sequence[str]) -> Sense:
    short, meaning, prior, pattern, evidence = row[:5]
    try:
        # A bare @ would match anywhere, and says no more than the prior.
        around = re.compile(pattern, re.IGNORECASE) if pattern and pattern != "@" else None
        words = tuple(_evidence(word) for word in evidence.split("|") if word)
        return Sense(meaning, float(prior), around, words)
    except (ValueError, re.error) as error:
        raise DataError(
            f"senses.tsv has a row for {short} that cannot be read ({error}); expected a number of "
            "points and regular expressions. Correct the table."
        ) from error


def _evidence(word: str) -> "re.Pattern[str]":
    """Make an expression of a word; short ones in capitals match as they are written."""
    whole = rf"(?<![A-Za-z]){word}" if word[0].isascii() else word
    if word.isascii() and len(word) <= 4 and word.isupper():
        return re.compile(rf"{whole}(?![A-Za-z])")
    return re.compile(whole, re.IGNORECASE)


class OrganTable:
    """Organs and modifiers around a mention, by which one name has several codes (organs.tsv)."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Take rows of kind, words and names."""
        self._names: dict[str, dict[str, tuple[str, ...]]] = {
            kind: {} for kind in ("near", "next", "kept", "general")
        }
        for kind, words, names in rows:
            known = self._names[kind]
            known |= {word.casefold(): tuple(names.split("|")) for word in words.split("|")}
        self.kept = tuple(code.upper() for code in self._names["kept"])
        self._general = re.compile(_any_of(self._names["general"]), re.IGNORECASE)
        near, adjacent = (_any_of(self._names[kind]) for kind in ("near", "next"))
        self._near = re.compile(near, re.IGNORECASE)
        self._after = re.compile(
            rf"\s(?:of|in|at|on)\s(?:the\s|both\s|left\s|right\s|lt\.?\s|rt\.?\s)*({near})",
            re.IGNORECASE,
        )
        self._next = re.compile(rf"({adjacent})[\s-]?$", re.IGNORECASE)

    @classmethod
    def open(cls, *folders: Path) -> "OrganTable":
        """Read the shipped table, extended by those in other folders."""
        rows = table_rows("organs.tsv", ("kind", "words", "names"), folders)
        return cls((kind, words, names) for kind, words, names in rows)

    def names(self, note: str, start: int, end: int) -> tuple[tuple[str, ...], bool]:
        """Give the names of what is next to a mention or, if it names no organ itself, near it.

        The second value tells whether it is next to it.
        """
        line = note[max(0, start - _NEAR) : start].rpartition("\n")[2]
        adjacent = self._next.search(line)
        if adjacent:
            return self._names["next"][_plain(adjacent[1])], True
        if self._near.search(note, start, end):
            return (), False
        after = self._after.match(note, end)
        before = [one.group() for one in self._near.finditer(line)]
        word = after[1] if after else before[-1] if before else ""
        return self._names["near"].get(_plain(word), ()), False

    def contradicts(self, note: str, start: int, end: int, title: str) -> bool:
        """Tell whether a code's title names another organ than a general name has near it."""
        named = self._near.search(title)
        if named is None or not self._general.search(note, start, end):
            return False
        own, _ = self.names(note, start, end)
        return self._names["near"][_plain(named.group())] != own


@dataclass(frozen=True)
class Patient:
    """Whose note it is, as its first lines say: age in years, sex F or M; None and "" if not."""

    age: float | None = None
    sex: str = ""

    @classmethod
    def of(cls, note: str) -> "Patient":
        """Read "72/M", "여/52", "54세 남자", "30개월 여아", "a 34-year-old woman"."""
        for found in _PATIENT.finditer(note, 0, _FIRST):
            if _RELATIVE.search(note, max(0, found.start() - 8), found.start()):
                continue
            age, unit, sex = (
                next((found[f"{part}{i}"] for i in "123" if found[f"{part}{i}"]), "")
                for part in ("age", "unit", "sex")
            )
            years = float(age) / (12 if unit[:1] in "개mM" and unit else 1)
            return cls(years, "F" if sex[:1] in "FfWwGg여" else "M")
        return cls()


_FIRST = 300  # characters in which a note says whose it is
_UNIT = r"세|살|개월|y/?o\.?|yrs?\.?|[-\s]?years?[-\s]old|[-\s]?months?[-\s]old|mo"
_PATIENT = re.compile(
    rf"(?<![\d/.])(?:(?P<age1>\d{{1,3}})\s?(?P<unit1>{_UNIT})?\s?/\s?(?P<sex1>[MF남여])(?![a-z가-힣/])"
    rf"|(?<![a-z가-힣])(?P<sex2>[MF남여])\s?/\s?(?P<age2>\d{{1,3}})(?P<unit2>{_UNIT})?(?![\d/.])"
    rf"|(?P<age3>\d{{1,3}})\s?(?P<unit3>{_UNIT})?(?:된|의)?\s?[,(]?\s?(?P<sex3>남자|남성|남환|남아"
    r"|여자|여성|여환|여아|(?:wo)?man(?![a-z])|(?:fe)?male(?![a-z])|boy|girl|(?-i:[MF])(?![a-z\d/])))",
    re.IGNORECASE,
)
_RELATIVE = re.compile("산모|모친|부친|보호자|mother|father|공여자|donor|foley|Fr", re.IGNORECASE)


class CodeBounds:
    """Which codes a patient can have (bounds.tsv)."""

    def __init__(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Take rows of codes, sex, from and to."""
        self._rows = [
            (tuple(codes.split("|")), sex, float(least or 0), float(most or 200))
            for codes, sex, least, most in rows
        ]

    @classmethod
    def open(cls, *folders: Path) -> "CodeBounds":
        """Read the shipped table, extended by those in other folders."""
        rows = table_rows("bounds.tsv", ("codes", "sex", "from", "to"), folders)
        return cls((codes, sex, least, most) for codes, sex, least, most in rows)

    def allow(self, code: str, patient: Patient, *, past: bool = False) -> bool:
        """Tell whether a patient can have a code; what is past may be of another age."""
        for codes, sex, least, most in self._rows:
            if code.startswith(codes):
                if sex and patient.sex and sex != patient.sex:
                    return False
                if patient.age is not None and not past and not least <= patient.age <= most:
                    return False
        return True


_NEAR = 60  # characters that an organ reaches in its line


def _plain(word: str) -> str:
    return " ".join(word.casefold().split())


def _any_of(words: Iterable[str]) -> str:
    parts = []
    for word in sorted(words, key=len, reverse=True):
        part = re.escape(word).replace(r"\ ", r"\s+")
        if word.isascii():
            part = rf"(?<![a-z\d]){part}(?![a-z\d])"
        elif len(word) == 1:  # 코 in 코막힘 is no organ
            part = rf"(?<![가-힣]){part}(?=의|에|\s|[:,)]|$)"
        parts.append(part)
    return "|".join(parts)
