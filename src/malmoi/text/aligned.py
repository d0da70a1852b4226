"""Cleaned text aligned to its original: where each of its characters came from.

Tokenizers and morphology read cleaned text; users want to see their own. `Aligned.span` finds a
part of the cleaned text in the original.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .cleanup import INVISIBLE, STANDARD, clean, read_hanja, spellings

# Steps that look at more than a letter and its marks; the rest can be done cluster by cluster.
_WIDE = ("symbols", "hanja", "spaces", "jamo", "scripts")
# Longer words are not compared letter by letter: the time grows with the third power.
_COMPARED = 200
_WORDS = re.compile(r"\s+|\S+")


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
    """Clean text by the named steps and remember where each character came from.

    >>> found = align("\\u1107\\u1162\\u1100\\u1161  왔다")
    >>> found.text, found.span(0, 1), found.span(3, 5)
    ('배가 왔다', (0, 2), (6, 8))
    """
    cleaned = clean(text, steps)
    if cleaned == text:
        return Aligned(text, range(len(text)), range(1, len(text) + 1))
    for spans in (_by_clusters, _by_words):
        found = spans(text, steps)
        if "spaces" in steps:
            found = list(_squeezed(found))
        if "".join(letter for letter, _, _ in found) == cleaned:
            return Aligned(cleaned, [start for _, start, _ in found], [end for _, _, end in found])
    return Aligned(cleaned, [0] * len(cleaned), [len(text)] * len(cleaned))


_Spans = list[tuple[str, int, int]]  # letters of cleaned text, each with its span of the original


_clean_letter = lru_cache(maxsize=1 << 16)(clean)  # a text has the same letters again and again


def _by_clusters(text: str, steps: Sequence[str]) -> _Spans:
    """Clean every letter with its marks by itself: correct where no step looks at more."""
    close = tuple(step for step in steps if step not in _WIDE)
    dropped = INVISIBLE if "invisible" in steps else frozenset[str]()
    spans = [
        (letter, start, end)
        for start, end in _clusters(text, dropped)
        for letter in _clean_letter(text[start:end], close)
    ]
    if "symbols" in steps:
        spans = list(_spelt(spans))
    if "hanja" in steps:  # letter for letter
        read = read_hanja("".join(letter for letter, _, _ in spans))
        spans = [(new, *old[1:]) for new, old in zip(read, spans, strict=True)]
    return spans


def _clusters(text: str, dropped: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Cut text into letters with their marks, jamo syllables and surrogate pairs.

    A mark joins its letter across characters that will be dropped; these are clusters otherwise.
    """
    start, end = 0, 1
    for i in range(1, len(text)):
        letter = text[i]
        if letter in dropped:
            continue
        before = text[end - 1]
        if end == i and "\ud800" <= before <= "\udbff":
            joins = "\udc00" <= letter <= "\udfff"
        else:
            joins = _marks(before, letter)
        if joins:
            end = i + 1
            continue
        yield start, end
        if end < i:
            yield end, i
        start, end = i, i + 1
    yield start, end
    if end < len(text):
        yield end, len(text)


def _marks(before: str, letter: str) -> bool:
    if "\u1160" <= letter <= "\u11a7":  # a vowel alone may be a dot, see symbols
        return "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return "\u11a8" <= letter <= "\u11ff" or unicodedata.combining(letter) != 0


def _spelt(spans: _Spans) -> Iterator[tuple[str, int, int]]:
    """Spell signs as `spell_symbols` does; the spaces around them have empty spans."""
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


def _by_words(text: str, steps: Sequence[str]) -> _Spans:
    """Clean each word between spaces by itself, and compare both forms of it."""
    found = []
    for word in _WORDS.finditer(text):
        at, own = word.start(), word.group()
        if own.isspace():
            found += [(letter, at + i, at + i + 1) for i, letter in enumerate(own)]
        else:
            found += [(c, at + a, at + b) for c, a, b in _compared(own, clean(own, steps))]
    return found


def _squeezed(spans: _Spans) -> Iterator[tuple[str, int, int]]:
    """Make every run of white space one space, as `squeeze` does, and trim both ends."""
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


def _compared(text: str, cleaned: str) -> _Spans:
    """Align by what both texts share: exact where nothing changed, coarse elsewhere."""
    if len(text) > _COMPARED:
        return [(letter, 0, len(text)) for letter in cleaned]
    spans = []
    matcher = difflib.SequenceMatcher(None, text, cleaned, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        for i in range(c, d):
            start, end = (a + i - c, a + i - c + 1) if tag == "equal" else (a, b)
            spans.append((cleaned[i], start, end))
    return spans
