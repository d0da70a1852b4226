"""Windows over long texts: of tokens (taggers, answerers) or of whole sentences (classifiers).

A text's words are cleaned one by one and joined into a string for the tokenizer, so that a
clean-up that changes a word's length does not move the offsets of other words. All offsets are
into the text as given.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..text.cleanup import clean, spell_symbols
from ..types import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNITS = ("word", "piece")
# Hangul by itself, other letters and digits by themselves, each sign alone: "DM으로" is two words.
_WORD = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]+|[^\W가-힣ㄱ-ㅎㅏ-ㅣ]+|[^\w\s]")
# Words that are tokenised at once, so that a document of any length costs little more memory
# than its ids.
_AT_ONCE = 4000
# Longer words are cut: they say nothing more to a model, and a tokenizer takes long over them.
_LONGEST_WORD = 200


@dataclass(frozen=True)
class Pieces:
    """The token ids of a text (n,), and the units that are given labels.

    `borders` (b,) are the tokens that begin a word. A unit (a word or a token) is
    text[starts[i]:ends[i]], and its label is read at token `heads[i]`.
    """

    ids: Ints
    borders: Ints
    heads: Ints
    starts: Ints
    ends: Ints


def find_words(text: str) -> Ints:
    """Find the words of a text: (n, 2) starts and ends.

    >>> [[int(i) for i in word] for word in find_words("DM으로 f/u")]
    [[0, 2], [2, 4], [5, 6], [6, 7], [7, 8]]
    """
    found = [(word.start(), word.end()) for word in _WORD.finditer(text)]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def cut_pieces(tokenizer: "Tokenizer", text: str, steps: Sequence[str], *, unit: str) -> Pieces:
    """Tokenise a text of any length, without special tokens.

    The tokenizer must neither cut nor pad. A word without a token (a control character, say) has
    no unit.
    """
    words = find_words(text)
    none = np.empty(0, dtype=np.int64)
    parts, count = [Pieces(none, none, none, none, none)], 0
    for start in range(0, len(words), _AT_ONCE):
        part = _cut(tokenizer, text, words[start : start + _AT_ONCE], steps, unit)
        parts.append(replace(part, borders=part.borders + count, heads=part.heads + count))
        count += len(part.ids)
    names = ("ids", "borders", "heads", "starts", "ends")
    return Pieces(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})


def _join(text: str, words: Ints, steps: Sequence[str]) -> tuple[str, Ints, Ints]:
    """Join cleaned words into one string, and give their starts and ends in it."""
    parts: list[str] = []
    begins, ends = [], []
    at, before = 0, int(words[0, 0])
    spelt = "symbols" in steps
    for start, end in words.tolist():
        # A sign next to a word has a space there once it is spelt: ▲간암, 간암Ⅱ.
        parted = parts and spelt and " " in spell_symbols(text[start - 1 : start + 1])
        if start > before or parted:
            parts.append(" ")
            at += 1
        word = clean(text[start : min(end, start + _LONGEST_WORD)], steps).strip()
        parts.append(word)
        begins.append(at)
        at += len(word)
        ends.append(at)
        before = end
    return "".join(parts), np.array(begins), np.array(ends)


def _cut(tokenizer: "Tokenizer", text: str, words: Ints, steps: Sequence[str], unit: str) -> Pieces:
    joined, word_starts, word_ends = _join(text, words, steps)
    encoding = tokenizer.encode(joined, add_special_tokens=False)
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    ids = np.array(encoding.ids, dtype=np.int64)
    # The token with a word's first letter; a token may begin with the space before it.
    heads = np.searchsorted(offsets[:, 1], word_starts, side="right")
    held = (word_ends > word_starts) & (heads < len(ids))
    held[held] &= offsets[heads[held], 0] < word_ends[held]
    borders = np.unique(heads[held])
    if unit == "word":
        return Pieces(ids, borders, heads[held], words[held, 0], words[held, 1])
    # In a word that the clean-up has made longer or shorter, a token stands for the whole word.
    word = np.searchsorted(word_starts, offsets[:, 1] - 1, side="right") - 1
    word = np.clip(word, 0, len(words) - 1)
    origin, limit, begins = words[word, 0], words[word, 1], word_starts[word]
    same = (limit - origin) == (word_ends[word] - begins)
    starts = np.where(same, origin + np.maximum(offsets[:, 0], begins) - begins, origin)
    ends = np.minimum(np.where(same, origin + offsets[:, 1] - begins, limit), limit)
    real = ends > starts
    return Pieces(ids, borders, np.flatnonzero(real), starts[real], ends[real])


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens begin…end are read together; it gives the labels of those from `first` to `last`."""

    begin: int
    end: int
    first: int
    last: int


def token_windows(pieces: Pieces, size: int, *, shared: int | None = None) -> list[Window]:
    """Cut a text's tokens into windows of at most `size` that overlap by a quarter.

    `shared` is another number of tokens that neighbours have in common. Windows begin and end
    between words where they can. A token gets its label from the one window in which it is
    farther from an edge.
    """
    count, spans = len(pieces.ids), []
    overlap = size // 4 if shared is None else shared
    begin = end = 0
    while end < count:
        end = count if begin + size >= count else _word_border(pieces, begin, begin + size)
        spans.append((begin, end))
        begin = _word_border(pieces, begin, max(end - overlap, begin + 1))
    if not spans:
        return []
    cuts = [(one[1] + two[0]) // 2 for one, two in pairwise(spans)]
    return [
        Window(begin, end, first, last)
        for (begin, end), (first, last) in zip(spans, pairwise([0, *cuts, count]), strict=True)
    ]


def _word_border(pieces: Pieces, begin: int, end: int) -> int:
    """The last word border after `begin` and not after `end`; `end` where there is none."""
    before = int(np.searchsorted(pieces.borders, end, side="right")) - 1
    border = int(pieces.borders[before]) if before >= 0 else 0
    return border if border > begin else end


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


def sentence_windows(
    text: str, count: Callable[[Sequence[str]], Sequence[int]], *, size: int
) -> list[TextSpan]:
    """Gather whole sentences into windows of at most `size` tokens.

    `count` gives the number of tokens of each text. A sentence that is longer alone is cut at
    white space, or anywhere when it has none. An empty text has no windows.

    >>> words = lambda texts: [len(text.split()) for text in texts]
    >>> sentence_windows("a b c. d e. f g h i j k.", words, size=5)
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
