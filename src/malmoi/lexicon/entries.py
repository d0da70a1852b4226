"""A row of a table on its way into a lexicon, and the rows that did not make it."""

from collections import Counter
from dataclasses import dataclass, field

SHOWN = 5  # how many lines of a kind are named


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
class Passed:
    """Rows passed over, by reason, with the first lines of each."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        """Count a row that brings no name."""
        self.counts[reason] += 1
        if self.counts[reason] <= SHOWN:
            self.lines.setdefault(reason, []).append(line)
