"""A text → its words and the model's pieces, all with places in the text as it was given.

Words are cleaned one by one and laid into a string that the tokenizer reads as always; so a
clean-up that changes a word's length moves no other word's place.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..text.cleanup import clean
from ..text.symbols import spell_symbols
from ..types import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer


UNITS = ("word", "piece")
# Hangul by itself, other letters and digits by themselves, each sign alone: "DM으로" is two words.
_WORD = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]+|[^\W가-힣ㄱ-ㅎㅏ-ㅣ]+|[^\w\s]")
# So many words are tokenised at once: a document of any length costs the memory of its ids.
_AT_ONCE = 4000
# A word of more letters says nothing more to a model, and a tokenizer takes long over it.
_LONGEST_WORD = 200


@dataclass(frozen=True)
class Pieces:
    """The ids of a text, and the units that are given labels.

    `ids` (n,) are the model's pieces, `borders` (b,) those that begin a word. A unit (a word, or
    a piece) stands at text[starts[i]:ends[i]], and its label is read at piece `heads[i]`.
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

    The tokenizer must neither cut nor pad. A word without a piece (a control sign, say) has no
    unit.
    """
    words = find_words(text)
    parts, count = [_nothing()], 0
    for stretch in _stretches(words):
        part = _cut(tokenizer, text, stretch, steps, unit)
        parts.append(_moved(part, count))
        count += len(part.ids)
    names = ("ids", "borders", "heads", "starts", "ends")
    return Pieces(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})


def _stretches(words: Ints) -> Iterator[Ints]:
    for start in range(0, len(words), _AT_ONCE):
        yield words[start : start + _AT_ONCE]


def _nothing() -> Pieces:
    none = np.empty(0, dtype=np.int64)
    return Pieces(none, none, none, none, none)


def _moved(part: Pieces, count: int) -> Pieces:
    return Pieces(part.ids, part.borders + count, part.heads + count, part.starts, part.ends)


@dataclass(frozen=True)
class _Laid:
    """Cleaned words in one string, with their places in it and in the text as given."""

    text: str
    begins: Ints
    ends: Ints
    words: Ints


def _lay(text: str, words: Ints, steps: Sequence[str]) -> _Laid:
    parts: list[str] = []
    begins, ends = [], []
    at, before = 0, int(words[0, 0])
    spelt = "symbols" in steps
    for start, end in words.tolist():
        if start > before or (parts and spelt and _parted(text, start)):
            parts.append(" ")
            at += 1
        word = clean(text[start : min(end, start + _LONGEST_WORD)], steps).strip()
        parts.append(word)
        begins.append(at)
        at += len(word)
        ends.append(at)
        before = end
    return _Laid("".join(parts), np.array(begins), np.array(ends), words)


def _parted(text: str, place: int) -> bool:
    """Whether a sign before or after a place has a space there once it is spelt: ▲간암, 간암Ⅱ."""
    return " " in spell_symbols(text[place - 1 : place + 1])


def _cut(tokenizer: "Tokenizer", text: str, words: Ints, steps: Sequence[str], unit: str) -> Pieces:
    laid = _lay(text, words, steps)
    encoding = tokenizer.encode(laid.text, add_special_tokens=False)
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    ids = np.array(encoding.ids, dtype=np.int64)
    # The piece that holds a word's first letter; a piece may begin with the space before it.
    heads = np.searchsorted(offsets[:, 1], laid.begins, side="right")
    held = (laid.ends > laid.begins) & (heads < len(ids))
    held[held] &= offsets[heads[held], 0] < laid.ends[held]
    borders = np.unique(heads[held])
    if unit == "word":
        return Pieces(ids, borders, heads[held], words[held, 0], words[held, 1])
    starts, ends = _places(offsets, laid)
    real = ends > starts
    return Pieces(ids, borders, np.flatnonzero(real), starts[real], ends[real])


def _places(offsets: Ints, laid: _Laid) -> tuple[Ints, Ints]:
    """Find where each piece stands in the text as given; both (n,).

    In a word that the clean-up has made longer or shorter, a piece stands for the whole word.
    """
    word = np.searchsorted(laid.begins, offsets[:, 1] - 1, side="right") - 1
    word = np.clip(word, 0, len(laid.words) - 1)
    origin, limit = laid.words[word, 0], laid.words[word, 1]
    begins = laid.begins[word]
    same = (limit - origin) == (laid.ends[word] - begins)
    inside = np.maximum(offsets[:, 0], begins) - begins
    starts = np.where(same, origin + inside, origin)
    ends = np.where(same, origin + offsets[:, 1] - begins, limit)
    return starts, np.minimum(ends, limit)


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces begin…end are read together; those from `first` to `last` are judged by it."""

    begin: int
    end: int
    first: int
    last: int


def cut_windows(pieces: Pieces, size: int) -> list[Window]:
    """Cut a text's pieces into windows of at most `size` that overlap by a quarter.

    Windows begin and end between words where they can. Each piece is judged once, by the window
    in which it stands farther from an edge, so that windows never disagree.
    """
    count, spans = len(pieces.ids), []
    if not count:
        return []
    begin = 0
    while begin < count:
        end = begin + size
        end = count if end >= count else _border(pieces, begin, end)
        spans.append((begin, end))
        if end == count:
            break
        begin = _border(pieces, begin, max(end - size // 4, begin + 1))
    cuts = [(one[1] + two[0]) // 2 for one, two in pairwise(spans)]
    return [
        Window(begin, end, first, last)
        for (begin, end), (first, last) in zip(spans, pairwise([0, *cuts, count]), strict=True)
    ]


def _border(pieces: Pieces, begin: int, end: int) -> int:
    """The last word border after `begin` and not after `end`; `end` where there is none."""
    place = int(np.searchsorted(pieces.borders, end, side="right")) - 1
    border = int(pieces.borders[place]) if place >= 0 else 0
    return border if border > begin else end
