"""Words for one thing, replaced by one of them: 콩팥 and 신장, renal and kidney."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from ..files import read_lines

_TABLES = resources.files("malmoi.linking") / "tables"


class Variants:
    """A table of variants, applied to a normalised text longest first."""

    def __init__(self, table: dict[str, str]) -> None:
        """Take variant → what stands for it, both normalised; a word on both sides is kept."""
        self._table = table
        english = sorted((word for word in table if word.isascii()), key=len, reverse=True)
        self._english = re.compile("|".join(rf"\b{re.escape(w)}\b" for w in english) or "(?!)")
        # Korean words have no borders; those that may begin at a syllable, the longest first.
        self._korean: dict[str, list[str]] = {}
        for word in sorted((w for w in table if not w.isascii()), key=len, reverse=True):
            self._korean.setdefault(word[0], []).append(word)
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
            for word in words:  # as the end of a word, where 증 is taken off before
                if len(word) > 3 and word.endswith("증"):
                    table.setdefault(word[:-1], words[0].removesuffix("증"))
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
        replaced = "".join(self._pieces(text)) if not text.isascii() else text
        return self._english.sub(lambda found: self._table[found.group()], replaced)

    def _pieces(self, text: str) -> Iterator[str]:
        i = 0
        while i < len(text):
            for word in self._korean.get(text[i], ()):
                if text.startswith(word, i) and not _cuts_syndrome(text, i + len(word)):
                    yield self._table[word]
                    i += len(word)
                    break
            else:
                yield text[i]
                i += 1


def _cuts_syndrome(text: str, end: int) -> bool:
    """Tell whether a word would end within 증후군: 호흡곤란증 is no part of 호흡곤란증후군."""
    return text[end - 1] == "증" and text.startswith("후군", end)


def table_lines(name: str, path: str | Path | None = None) -> list[str]:
    """Give the lines of a table of the user's, or of the shipped one of that name."""
    if path is not None:
        return list(read_lines(path))
    return (_TABLES / name).read_text("utf-8").splitlines()


def _flat(word: str) -> str:
    """A variant as it stands in a core: small letters, Korean without spaces."""
    word = word.strip().casefold()
    return word if word.isascii() else word.replace(" ", "")
