"""A long text → sentences, and windows of whole sentences, with offsets into the text."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# What ends a sentence: a line's end, or a mark with white space after it. A full-width mark needs
# no space.
_END = re.compile(r"\n+|[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[\"'”’」』)\]]*")
# A dot after one of these ends no sentence; neither does one after an initial or a number that
# begins a line ("1. Chest pain").
# fmt: off
_ABBREVIATIONS = frozenset({
    "dr", "mr", "mrs", "ms", "prof", "st", "vs", "fig", "e.g", "i.e", "etc", "approx", "dept",
    "hx", "dx", "tx", "rx", "sx", "q.d", "b.i.d", "t.i.d", "q.i.d", "p.o", "p.r.n", "a.m",
    "p.m",
})
# fmt: on
_LAST_WORD = re.compile(r"(\S+)$")
# No model reads sentences this long; text without any mark is cut here before it is tokenised.
_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text: text[start:end]."""

    start: int
    end: int


def sentences(text: str) -> list[TextSpan]:
    """Find the sentences of a text, without the white space around them.

    >>> [text[s.start:s.end] for text in ["Dr. Kim 진료함. 열은 없다."] for s in sentences(text)]
    ['Dr. Kim 진료함.', '열은 없다.']
    """
    found: list[TextSpan] = []
    start = 0
    for mark in _END.finditer(text):
        if mark.group().startswith(".") and _is_abbreviation(text, start, mark.start()):
            continue
        found += _trimmed(text, start, mark.end())
        start = mark.end()
    return found + _trimmed(text, start, len(text))


def cut_windows(
    text: str, count: Callable[[Sequence[str]], Sequence[int]], *, size: int
) -> list[TextSpan]:
    """Gather whole sentences into windows of at most `size` tokens.

    `count` gives the number of tokens of each text. A sentence that is longer alone is cut at
    white space, or anywhere when it has none. An empty text has no windows.

    >>> words = lambda texts: [len(text.split()) for text in texts]
    >>> cut_windows("a b c. d e. f g h i j k.", words, size=5)
    [TextSpan(start=0, end=11), TextSpan(start=12, end=17), TextSpan(start=18, end=24)]
    """
    parts = [part for span in sentences(text) for part in _shortened(text, span)]
    windows: list[TextSpan] = []
    used = 0
    for span, tokens in _fitting(text, parts, count, size):
        if windows and used + tokens <= size:
            windows[-1], used = TextSpan(windows[-1].start, span.end), used + tokens
        else:
            windows.append(span)
            used = tokens
    return windows


def _is_abbreviation(text: str, start: int, dot: int) -> bool:
    """Tell whether a dot belongs to the word before it."""
    before = _LAST_WORD.search(text, max(start, dot - 40), dot)
    if before is None:
        return False
    word = before.group(1).lstrip("([\"'")
    alone = before.start() <= start or text[start : before.start()].strip() == ""
    initial = len(word) == 1 and "A" <= word <= "Z"
    return word.lower() in _ABBREVIATIONS or initial or (word.isdigit() and alone)


def _trimmed(text: str, start: int, end: int) -> list[TextSpan]:
    """Leave off white space at both ends; none if nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [TextSpan(start, end)] if end > start else []


def _shortened(text: str, span: TextSpan) -> Iterator[TextSpan]:
    """Cut what is too long to be tokenised at once."""
    rest = [span]
    while rest and rest[0].end - rest[0].start > _LONGEST:
        middle = _border(text, rest[0].start, rest[0].start + _LONGEST)
        yield from _trimmed(text, rest[0].start, middle)
        rest = _trimmed(text, middle, rest[0].end)
    yield from rest


def _border(text: str, start: int, end: int) -> int:
    """The last white space before `end`, or `end` where there is none."""
    for at in range(end, start, -1):
        if text[at - 1].isspace():
            return at
    return end


def _fitting(
    text: str, spans: list[TextSpan], count: Callable[[Sequence[str]], Sequence[int]], size: int
) -> Iterator[tuple[TextSpan, int]]:
    """Give spans with their counts of tokens, each halved until it fits."""
    counts = count([text[span.start : span.end] for span in spans]) if spans else []
    for span, tokens in zip(spans, counts, strict=True):
        if tokens <= size or span.end - span.start < 2:
            yield span, min(tokens, size)
            continue
        middle = _border(text, span.start, (span.start + span.end) // 2)
        halves = _trimmed(text, span.start, middle) + _trimmed(text, middle, span.end)
        yield from _fitting(text, halves, count, size)
