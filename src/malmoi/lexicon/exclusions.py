"""Rows that say what a code is not, kept beside a segment's names in a table of their own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..tables import read_rows
from .terms import Exclusion

FILE = "exclusions.tsv"
_COLUMNS = ("concept", "belongs_to", "language", "text")


def write_exclusions(folder: Path, exclusions: Sequence[Exclusion]) -> None:
    """Write the excluded names of a segment; none, and there is no file."""
    if not exclusions:
        return
    lines = ["\t".join(_COLUMNS)]
    lines += ["\t".join(getattr(row, column) for column in _COLUMNS) for row in exclusions]
    (folder / FILE).write_text("\n".join(lines) + "\n", "utf-8")


def read_exclusions(folder: Path) -> Iterator[Exclusion]:
    """Read them back."""
    if (folder / FILE).is_file():
        for row in read_rows(folder / FILE):
            yield Exclusion(row["text"], row["concept"], row["belongs_to"], row["language"])
