"""Abbreviations of clinical notes and what they stand for, in both languages.

The shipped table is `data/abbreviations.tsv`. A file of your own with the same columns
(abbreviation, en, ko, kind) extends it: its rows replace those of the shipped table for the same
short form, and a short form without an expansion is removed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from ..io.tables import read_numbered_rows
from ..text.cleanup import clean

SHIPPED = Path(__file__).parents[1] / "data/abbreviations.tsv"
KINDS = ("disease", "sign", "procedure", "other")
_COLUMNS = ("abbreviation", "en", "ko", "kind")


@dataclass(frozen=True)
class AbbreviationExpansion:
    """One thing that a short form may stand for; `en` or `ko` is "" where the table has none."""

    short: str
    en: str
    ko: str
    kind: str


class Abbreviations:
    """Short forms and their expansions; a form may stand for several things (MS, AS, LC)."""

    def __init__(self, expansions: Iterable[AbbreviationExpansion]) -> None:
        """Take expansions; those of one form stay in their order."""
        self._exact: dict[str, list[AbbreviationExpansion]] = {}
        self._folded: dict[str, list[AbbreviationExpansion]] = {}
        for expansion in expansions:
            self._exact.setdefault(expansion.short, []).append(expansion)
            self._folded.setdefault(_folded(expansion.short), []).append(expansion)

    @classmethod
    def open(cls, *paths: str | Path) -> "Abbreviations":
        """Open the shipped table, extended by files of your own, later ones over earlier."""
        table: dict[str, list[AbbreviationExpansion]] = {}
        for path in (SHIPPED, *paths):
            own: dict[str, list[AbbreviationExpansion]] = {}
            for one in _read(Path(path)):
                own.setdefault(one.short, []).append(one)
            table |= own
        return cls(one for found in table.values() for one in found if one.en or one.ko)

    def __len__(self) -> int:
        return len(self._exact)

    def __iter__(self) -> Iterator[AbbreviationExpansion]:
        for expansions in self._exact.values():
            yield from expansions

    def expand(
        self, short: str, *, kinds: Sequence[str] = KINDS
    ) -> tuple[AbbreviationExpansion, ...]:
        """Give what a short form stands for; written in the table's own case first, then in any.

        >>> [expansion.en for expansion in Abbreviations.open().expand("LC")][:2]
        ['liver cirrhosis', 'lung cancer']
        >>> Abbreviations.open().expand("copd")[0].ko
        '만성 폐쇄성 폐질환'
        """
        short = clean(short)
        found = self._exact.get(short) or self._folded.get(_folded(short), [])
        return tuple(expansion for expansion in found if expansion.kind in kinds)


def _folded(short: str) -> str:
    """Make forms equal that differ in case or in a final point."""
    return short.casefold().rstrip(".")


def _read(path: Path) -> Iterator[AbbreviationExpansion]:
    for line, row in read_numbered_rows(path, strict=True):
        if line <= 2 and ("abbreviation" not in row or not {"en", "ko"} & row.keys()):
            raise DataError(
                f"{path} has the columns {', '.join(row)}; expected {', '.join(_COLUMNS)} (en or "
                "ko, and kind, may be left out). Name them so in its first line."
            )
        short = clean(row["abbreviation"])
        if not short:
            raise DataError(
                f"line {line} of {path} has no abbreviation; expected one. "
                "Complete or remove the line."
            )
        kind = clean(row.get("kind", "")) or "disease"
        if kind not in KINDS:
            raise DataError(
                f"line {line} of {path} has a kind that is not known; expected one of "
                f"{', '.join(KINDS)}. Use one of these, or leave the cell empty for disease."
            )
        yield AbbreviationExpansion(short, clean(row.get("en", "")), clean(row.get("ko", "")), kind)
