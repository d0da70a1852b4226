"""Text → tokens, and which of them make each word: by spaces, morphemes or given spans.

A tokenizer may hold 배를 as one token, with one meaning for noun and particle together. Where a
word ends between two spaces, each part is therefore tokenised on its own, the later ones as
continuations of a word.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import OptionError, counted
from ..runtime.tokenizer import TextTokenizer, TokenizedText
from ..text.aligned import Aligned, align
from ..text.morphemes import Morpheme, morphemes

Span = tuple[int, int]
_Token = tuple[int, int, int]  # id, start, end
By = Literal["spaces", "morphemes"] | Sequence[Span]

_CHUNK = re.compile(r"\S+")
_NOMINAL = ("NNG", "NNP", "NNB", "NR", "NP", "SL", "SH", "SN", "XPN", "XSN", "XR")
# A letter before a continuation while it is tokenised; which one does not merge with what
# follows depends on the vocabulary.
_ANCHORS = "힣쀼가이a0"
_KEPT = 50_000  # particles and endings are few; the limit is for texts of other languages


@dataclass(frozen=True, slots=True)
class Unit:
    """One token: its id, and its span in the text as given."""

    id: int
    start: int
    end: int
    special: bool

    def touches(self, start: int, end: int) -> bool:
        """Tell whether it overlaps a span; special tokens never do."""
        return not self.special and self.start < end and self.end > start


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as ids, the spans of its words, and whether it was cut to fit the model."""

    units: tuple[Unit, ...]
    words: tuple[Span, ...]
    shortened: bool

    def as_input(self, owner: int) -> TokenizedText:
        """Give the ids as a model's input."""
        return TokenizedText(owner, [unit.id for unit in self.units])


class Segmenter:
    """Cuts texts for one tokenizer and one way of cleaning."""

    def __init__(self, tokens: TextTokenizer, steps: Sequence[str]) -> None:
        self._tokens, self._steps = tokens, steps
        self._tails: dict[str, list[_Token] | None] = {}

    def cut(self, text: str, by: By) -> Cut:
        """Give a text's tokens and words, with offsets into the text as given."""
        # What lies far beyond the tokens that the model reads is not looked at: analysers take
        # seconds for a long text.
        near = text[: self._tokens.limit]
        spans = _spans(near if isinstance(by, str) else text, by)
        aligned = align(near, self._steps)
        encoding = self._tokens.tokenizer.encode(aligned.text)
        units = [
            Unit(token, start, end, bool(special))
            for token, (start, end), special in zip(
                encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True
            )
        ]
        if by != "spaces":
            units = self._parted(aligned, units, spans)
        units, shortened = self._fitted(units)
        placed = [
            unit if unit.special else Unit(unit.id, *aligned.span(unit.start, unit.end), False)
            for unit in units
        ]
        shortened = shortened or bool(encoding.overflowing) or len(near) < len(text)
        read = max((unit.end for unit in placed if not unit.special), default=0)
        return Cut(tuple(placed), tuple(span for span in spans if span[0] < read), shortened)

    def _parted(self, aligned: Aligned, units: list[Unit], spans: Sequence[Span]) -> list[Unit]:
        """Tokenise again each chunk between spaces that has a word's border inside."""
        borders = _borders(aligned, spans)
        reach = max((unit.end for unit in units), default=0)  # a long text was cut there
        for chunk in _CHUNK.finditer(aligned.text):
            start, end = chunk.span()
            if end > reach:
                break
            inner = borders[bisect_right(borders, start) : bisect_left(borders, end)]
            if not inner:
                continue
            parts = self._parts(aligned.text, [start, *inner, end])
            own = [i for i, unit in enumerate(units) if unit.touches(start, end)]
            if parts is not None and own:
                units[own[0] : own[-1] + 1] = parts
        return units

    def _parts(self, text: str, borders: Sequence[int]) -> list[Unit] | None:
        """Give the tokens of a chunk's parts; None if a part cannot be a continuation."""
        units: list[Unit] = []
        for start, end in itertools.pairwise(borders):
            part = text[start:end]
            # Some tokenizers mark a word's start by the space before it.
            found = self._tail(part) if units else self._after(" " if start else "", part)
            if found is None:
                return None
            units += [Unit(token, start + max(a, 0), start + b, False) for token, a, b in found]
        return units

    def _after(self, prefix: str, part: str) -> list[_Token]:
        """Tokenise a part with a prefix before it; offsets are those in the part."""
        encoding = self._tokens.tokenizer.encode(prefix + part, add_special_tokens=False)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [(token, a - len(prefix), b - len(prefix)) for token, (a, b) in pairs]

    def _tail(self, part: str) -> list[_Token] | None:
        """Tokenise a part as the continuation of a word."""
        if part not in self._tails:
            if len(self._tails) > _KEPT:
                self._tails = {}
            self._tails[part] = None
            for anchor in _ANCHORS:
                tokens = self._after(anchor, part)
                own = [token for token in tokens if token[1] >= 0]
                # All of the part must be there, and none of it merged with the anchor.
                if own and own[0][1] == 0 and len(own) < len(tokens) and tokens[0][2] == 0:
                    self._tails[part] = own
                    break
        return self._tails[part]

    def _fitted(self, units: list[Unit]) -> tuple[list[Unit], bool]:
        """Drop tokens at the end of a text that has more than the model reads."""
        surplus = len(units) - self._tokens.max_tokens
        if surplus <= 0:
            return units, False
        tail = next(i for i, unit in enumerate(reversed(units)) if not unit.special)
        end = len(units) - tail
        return units[: end - surplus] + units[end:], True


def _spans(text: str, by: By) -> list[Span]:
    if by == "spaces":
        return [chunk.span() for chunk in _CHUNK.finditer(text)]
    if by == "morphemes":
        return list(_morpheme_spans(text))
    if isinstance(by, str):
        raise OptionError(
            f'by is {by!r}; known are "spaces", "morphemes" and a list of spans. Choose one.'
        )
    spans = [(int(start), int(end)) for start, end in by]
    if any(not 0 <= start < end <= len(text) for start, end in spans):
        raise OptionError(
            f"by has a span outside the text of {counted(len(text), 'character')}; expected "
            "(start, end) with start before end. Count from 0."
        )
    return spans


def _morpheme_spans(text: str) -> Iterator[Span]:
    """Cut each chunk between spaces where its nouns end; verbs keep their endings."""
    found = morphemes(text)
    at = 0
    for chunk in _CHUNK.finditer(text):
        start, end = chunk.span()
        borders = []
        while at < len(found) and found[at].start < end:
            if at + 1 < len(found) and _apart(found[at], found[at + 1]):
                borders.append(found[at].end)
            at += 1
        cuts = [start, *(border for border in borders if start < border < end), end]
        yield from itertools.pairwise(cuts)


def _apart(one: Morpheme, following: Morpheme) -> bool:
    """Tell whether a word ends between two morphemes: after a noun, at a sign or a number."""
    if one.end != following.start:
        return False
    sign = one.tag.startswith("S") or following.tag.startswith("S")
    return sign or (one.tag in _NOMINAL) != (following.tag in _NOMINAL)


def _borders(aligned: Aligned, spans: Sequence[Span]) -> list[int]:
    """Give the offsets in the cleaned text at which words begin or end."""
    wanted = {offset for span in spans for offset in span}
    starts = {i for i, start in enumerate(aligned.starts) if start in wanted}
    ends = {i + 1 for i, end in enumerate(aligned.ends) if end in wanted}
    sources = list(zip(aligned.starts, aligned.ends, strict=True))
    # Letters that stand for one sign, as mg does for ㎎, are not separated.
    inside = {i for i in range(1, len(sources)) if sources[i - 1] == sources[i]}
    return sorted((starts | ends) - inside)
