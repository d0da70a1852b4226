"""What a mention may stand for: itself, an abbreviation written out, another keyboard's word."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from ..lexicon.abbreviations import Abbreviations
from .jamo import mistyped
from .normal import plain, read_pairs
from .results import said_positive
from .variants import table_lines

_SAMPLE = resources.files("malmoi") / "data" / "sample.tsv"
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9/&+.-]*")
# A mention is read in at most this many ways; more cost time and bring nothing.
_MOST = 6
_CONDITIONS = ("disease", "sign")


@dataclass(frozen=True)
class Reading:
    """A text to look for instead of the mention; `why` is how it came about."""

    text: str
    why: str  # "mention", "abbreviation", "keyboard", "synonym", "sample"


class ShortForms:
    """The table of abbreviations as the linker asks it: conditions and signs, both languages."""

    def __init__(self, table: Abbreviations) -> None:
        """Take a table."""
        self._table = table

    def meanings(self, short: str) -> tuple[str, ...]:
        """Give what a short form stands for; nothing for a word that only looks like one."""
        if not _looks_short(short):
            return ()
        found = self._table.expand(short, kinds=_CONDITIONS)
        return tuple(text for one in found for text in (one.en, one.ko) if text)

    def spelled_out(self, text: str) -> list[str]:
        """Give the text with its abbreviations written out, in both languages where known."""
        whole = self.meanings(text.strip())
        if whole:
            return list(dict.fromkeys(whole))
        found = [word for word in _WORD.findall(text) if self.meanings(word)]
        out: list[str] = []
        for i in range(2):  # English first, then Korean
            spelled = text
            for word in found:
                meanings = self.meanings(word)
                spelled = spelled.replace(word, meanings[min(i, len(meanings) - 1)])
            out.append(spelled)
        return list(dict.fromkeys(out)) if found else []


def _sample_synonyms() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give what the shipped sample calls a thing otherwise, and how it shows it."""
    lines = _SAMPLE.read_text("utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        shown = tuple(row[side].strip() for side in ("ko", "en") if row.get(side))
        for column in ("lay", "synonyms"):
            for name in (row.get(column) or "").split(";"):
                if name.strip():
                    yield _short(name), shown


def _short(text: str) -> str:
    return plain(text).replace(" ", "")


def _looks_short(text: str) -> bool:
    """Tell "DM", "dm" and "f/u" from words that happen to be spelled like one ("as", "ms")."""
    return len(text) <= 12 and (len(text) > 2 or not text.islower() or text not in _LITTLE_WORDS)


_LITTLE_WORDS = frozenset(
    "as am an at be by do go he if in is it me my no of on or so to up us we".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Reader:
    """Makes readings of mentions from the tables."""

    abbreviations: ShortForms
    synonyms: Mapping[str, tuple[str, ...]]
    sample: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        *,
        abbreviations: str | Path | None = None,
        synonyms: str | Path | None = None,
        sample: bool = True,
    ) -> "Reader":
        """Read both tables; `abbreviations` extends the shipped one, `synonyms` replaces it.

        `sample` reads the other names of the shipped sample too, for lexicons without its codes.
        """
        said = dict(read_pairs(table_lines("synonyms.tsv", synonyms)))
        also: dict[str, tuple[str, ...]] = {}
        for key, meant in _sample_synonyms() if synonyms is None and sample else ():
            also[key] = tuple(dict.fromkeys((*also.get(key, ()), *meant)))
        table = Abbreviations.open(*([] if abbreviations is None else [abbreviations]))
        return cls(ShortForms(table), said, also)

    def knows(self, key: str) -> bool:
        """Tell whether a plain form without spaces is a lay name of the tables."""
        return key in self.synonyms or key in self.sample

    def _synonyms(self, text: str) -> tuple[str, ...]:
        named = said_positive(text)  # "HBsAg(+)" stands in the table as "HBsAg 양성"
        return self.synonyms.get(_short(named or text), ())

    def readings(self, mention: str, defined: Mapping[str, str] | None = None) -> list[Reading]:
        """Give the ways to read a mention, the mention itself first.

        `defined` are abbreviations that the note itself explains, which win over the table.
        """
        found = [Reading(mention, "mention")]
        own = (defined or {}).get(mention.strip())
        if own is not None:
            return [*found, Reading(own, "abbreviation")]
        other = mistyped(mention)
        for text in (mention, other) if other else (mention,):
            if text is not mention:
                found.append(Reading(text, "keyboard"))
            found += [Reading(meant, "synonym") for meant in self._synonyms(text)]
            found += [Reading(meant, "sample") for meant in self.sample.get(_short(text), ())]
            found += [
                Reading(spelled, "abbreviation") for spelled in self.abbreviations.spelled_out(text)
            ]
        meant = [
            Reading(text, reading.why)
            for reading in found[1:]
            for text in self.synonyms.get(_short(reading.text), ())
        ]
        return list(dict.fromkeys([*found, *meant]))[:_MOST]
