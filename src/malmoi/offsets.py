"""Clean text that remembers where each of its characters came from.

Tokenizers and morphology read cleaned text; people want to be shown their own. Whoever cuts
cleaned text into parts finds the same parts in the original here.
"""

import difflib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .symbols import spellings
from .text import STANDARD, clean

# Steps that look at more than a letter and its marks; the rest can be done cluster by cluster.
_WIDE = ("symbols", "spaces", "jamo", "scripts")


@dataclass(frozen=True, slots=True)
class Aligned:
    """Cleaned text, and for each of its characters the span of the original it stands for."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Give the span of the original that cleaned[start:end] stands for.

        >>> align("ＤＭ\\u200b  있음").span(0, 2)
        (0, 2)
        """
        if start >= end:  # an empty span lies before the character that follows it
            at = self.starts[start] if start < len(self.starts) else (self.ends or [0])[-1]
            return at, at
        return self.starts[start], self.ends[end - 1]


def align(text: str, steps: Sequence[str] = STANDARD) -> Aligned:
    """Clean text by the named steps and keep the way back.

    >>> found = align("\\u1107\\u1162\\u1100\\u1161  왔다")
    >>> found.text, found.span(0, 1), found.span(3, 5)
    ('배가 왔다', (0, 2), (6, 8))
    """
    cleaned = clean(text, steps)
    if cleaned == text:
        return Aligned(text, range(len(text)), range(1, len(text) + 1))
    close = [step for step in steps if step not in _WIDE]
    spans = [
        (letter, start, end)
        for start, end in _clusters(text)
        for letter in clean(text[start:end], close)
    ]
    if "symbols" in steps:
        spans = list(_spelt(spans))
    if "spaces" in steps:
        spans = list(_squeezed(spans))
    if "".join(letter for letter, _, _ in spans) == cleaned:
        return Aligned(cleaned, [start for _, start, _ in spans], [end for _, _, end in spans])
    return _compared(text, cleaned)


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Cut text where neither a mark, a vowel or tail jamo, nor half a surrogate pair is cut off."""
    start = 0
    for i in range(1, len(text)):
        if not _joins(text[i - 1], text[i]):
            yield start, i
            start = i
    if text:
        yield start, len(text)


def _joins(before: str, letter: str) -> bool:
    if "\ud800" <= before <= "\udbff":
        return "\udc00" <= letter <= "\udfff"
    if "\u1160" <= letter <= "\u11a7":  # a vowel alone may be a dot, see symbols
        return "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return "\u11a8" <= letter <= "\u11ff" or unicodedata.combining(letter) != 0


def _spelt(spans: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Spell signs as text.spell_symbols does; spaces that come with them stand for nothing."""
    at = 0
    for first, last, spelling in spellings("".join(letter for letter, _, _ in spans)):
        yield from spans[at:first]
        start, end = spans[first][1], spans[last - 1][2]
        word = spelling.strip()
        if spelling[0] == " ":
            yield " ", start, start
        if len(word) == last - first:  # letter for letter
            yield from ((word[i], *spans[first + i][1:]) for i in range(len(word)))
        else:
            yield from ((letter, start, end) for letter in word)
        if spelling[-1] == " ":
            following = spans[last][1]
            yield " ", following, following
        at = last
    yield from spans[at:]


def _squeezed(spans: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Make every run of white space one space, as text.squeeze does, and trim both ends."""
    gap: tuple[int, int] | None = None
    begun = False
    for letter, start, end in spans:
        if letter.isspace():
            gap = (gap[0] if gap else start, end)
            continue
        if gap and begun:
            yield " ", *gap
        gap, begun = None, True
        yield letter, start, end


def _compared(text: str, cleaned: str) -> Aligned:
    """Align by what both texts share: right at what stayed, coarse at what was rewritten."""
    starts, ends = [0] * len(cleaned), [0] * len(cleaned)
    matcher = difflib.SequenceMatcher(None, text, cleaned, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        for i in range(c, d):
            starts[i], ends[i] = (a + i - c, a + i - c + 1) if tag == "equal" else (a, b)
    return Aligned(cleaned, starts, ends)
