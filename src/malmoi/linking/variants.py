"""Words for one thing, replaced by one of them: 콩팥 and 신장, renal and kidney."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from ..files import read_lines

_TABLES = resources.files("malmoi.linking") / "tables"


class Variants:
    """A table of variants, applied to a normalised text longest first."""

    def __init__(self, table: dict[str, str]) -> None:
        """Take variant → what stands for it, both normalised; a word on both sides is kept."""
        self._table = table
        korean = sorted((w for w in table if not w.isascii()), key=len, reverse=True)
        english = sorted((w for w in table if w.isascii()), key=len, reverse=True)
        self._pattern = re.compile(
            "|".join(
                [re.escape(word) for word in korean]
                + [rf"\b{re.escape(word)}\b" for word in english]
            )
            or r"(?!)"
        )
        text = "\n".join(f"{a}\t{b}" for a, b in sorted(table.items()))
        self.identity = hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def of(cls, groups: Iterable[Sequence[str]]) -> "Variants":
        """Make a table of groups, the first of each standing for the rest."""
        table: dict[str, str] = {}
        for group in groups:
            words = [_flat(word) for word in group]
            for word in words:
                table.setdefault(word, words[0])
        # "인슐린비의존당뇨병" → "2형당뇨병" holds "당뇨병", which may stand for more itself.
        return cls({word: first for word, first in table.items() if word})

    @classmethod
    def open(cls, path: str | Path | None = None) -> "Variants":
        """Read a table: one group a line, tabs between; the shipped one if none is named."""
        return cls.of(
            [word for word in line.split("\t") if word.strip()]
            for line in table_lines("variants.tsv", path)
            if line.strip() and not line.startswith("#")
        )

    def apply(self, text: str) -> str:
        """Replace every variant in a text by what stands for it.

        >>> Variants.of([("신장", "콩팥"), ("kidney", "renal")]).apply("콩팥결석 renal adrenal")
        '신장결석 kidney adrenal'
        """
        return self._pattern.sub(lambda found: self._table[found.group()], text)


def table_lines(name: str, path: str | Path | None = None) -> list[str]:
    """Give the lines of a table of the user's, or of the shipped one of that name."""
    if path is not None:
        return list(read_lines(path))
    return (_TABLES / name).read_text("utf-8").splitlines()


def _flat(word: str) -> str:
    """A variant as it stands in a core: small letters, Korean without spaces."""
    word = word.strip().casefold()
    return word if word.isascii() else word.replace(" ", "")
