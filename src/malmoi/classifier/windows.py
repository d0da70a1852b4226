"""A long text → windows that end where sentences end, with offsets into the text itself."""

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
    """Find the sentences of a text, white space around them left out.

    >>> [text[s.start:s.end] for text in ["Dr. Kim 진료함. 열은 없다."] for s in sentences(text)]
    ['Dr. Kim 진료함.', '열은 없다.']
    """
    found, start = [], 0
    for mark in _END.finditer(text):
        if mark.group().startswith(".") and _goes_on(text, start, mark.start()):
            continue
        found.append(TextSpan(start, mark.end()))
        start = mark.end()
    found.append(TextSpan(start, len(text)))
    return [span for span in (_trimmed(text, span) for span in found) if span.end > span.start]


def cut_windows(
    text: str, count: Callable[[Sequence[str]], Sequence[int]], *, size: int
) -> list[TextSpan]:
    """Gather whole sentences into windows of at most `size` tokens.

    `count` gives the number of tokens of each text. A sentence that is longer alone is cut at
    white space, or anywhere when it has none. An empty text has no windows.

    >>> words = lambda texts: [len(text.split()) for text in texts]
    >>> cut_windows("a b c. d e. f g h i j k.", words, size=5)
    [Span(start=0, end=11), Span(start=12, end=17), Span(start=18, end=24)]
    """
    parts = [part for span in sentences(text) for part in _shortened(text, span)]
    return list(_gathered(list(_fitting(text, parts, count, size)), size))


def _goes_on(text: str, start: int, dot: int) -> bool:
    """Tell whether a dot belongs to the word before it."""
    before = _LAST_WORD.search(text, max(start, dot - 40), dot)
    if before is None:
        return False
    word = before.group(1).lstrip("([\"'")
    alone = before.start() <= start or text[start : before.start()].strip() == ""
    initial = len(word) == 1 and "A" <= word <= "Z"
    return word.lower() in _ABBREVIATIONS or initial or (word.isdigit() and alone)


def _trimmed(text: str, span: TextSpan) -> TextSpan:
    start, end = span.start, span.end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return TextSpan(start, end)


def _shortened(text: str, span: TextSpan) -> Iterator[TextSpan]:
    """Cut what no tokenizer should have to read at once."""
    while span.end - span.start > _LONGEST:
        middle = _border(text, span.start, span.start + _LONGEST)
        yield _trimmed(text, TextSpan(span.start, middle))
        span = _trimmed(text, TextSpan(middle, span.end))
    if span.end > span.start:
        yield span


def _border(text: str, start: int, end: int) -> int:
    """The last white space before `end`, or `end` where there is none."""
    for at in range(end, start, -1):
        if text[at - 1].isspace():
            return at
    return end


def _fitting(
    text: str, spans: list[TextSpan], count: Callable[[Sequence[str]], Sequence[int]], size: int
) -> Iterator[tuple[TextSpan, int]]:
    """Give spans with their tokens, each halved until it fits."""
    counts = count([text[span.start : span.end] for span in spans]) if spans else []
    for span, tokens in zip(spans, counts, strict=True):
        if tokens <= size or span.end - span.start < 2:
            yield span, min(tokens, size)
            continue
        middle = _border(text, span.start, (span.start + span.end) // 2)
        halves = [
            _trimmed(text, TextSpan(span.start, middle)),
            _trimmed(text, TextSpan(middle, span.end)),
        ]
        yield from _fitting(text, [half for half in halves if half.end > half.start], count, size)


def _gathered(spans: list[tuple[TextSpan, int]], size: int) -> Iterator[TextSpan]:
    window: TextSpan | None = None
    used = 0
    for span, tokens in spans:
        if window is not None and used + tokens <= size:
            window, used = TextSpan(window.start, span.end), used + tokens
            continue
        if window is not None:
            yield window
        window, used = span, tokens
    if window is not None:
        yield window
