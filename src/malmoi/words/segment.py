"""Text → ids, and which of them make each word: by spaces, by morphemes, or by given spans.

A tokenizer may hold 배를 as one piece, which has one frozen meaning for noun and particle
together. Where words are to come apart inside what stands between spaces, each part is therefore
tokenised on its own, the later ones as a word's continuation.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import OptionError, counted
from ..runtime.tokenizer import TextTokenizer
from ..text.aligned import Aligned, align
from ..text.morphemes import Morpheme, morphemes

Span = tuple[int, int]
By = Literal["spaces", "morphemes"] | Sequence[Span]

_CHUNK = re.compile(r"\S+")
_NOMINAL = ("NNG", "NNP", "NNB", "NR", "NP", "SL", "SH", "SN", "XPN", "XSN", "XR")
# A letter that stands before a continuation while it is tokenised; which one does not melt with
# what follows depends on the vocabulary.
_ANCHORS = "힣쀼가이a0"
_KEPT = 50_000  # particles and endings are few; this is for texts that have none


@dataclass(frozen=True, slots=True)
class Unit:
    """One token: its id, and where it stands in the text as given."""

    id: int
    start: int
    end: int
    special: bool

    def touches(self, start: int, end: int) -> bool:
        """Whether any of it stands in a span; special tokens stand nowhere."""
        return not self.special and self.start < end and self.end > start


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as ids, the spans of its words, and whether it was cut to fit the model."""

    units: tuple[Unit, ...]
    words: tuple[Span, ...]
    shortened: bool


class Segmenter:
    """Cuts texts for one tokenizer and one way of cleaning."""

    def __init__(self, tokens: TextTokenizer, steps: Sequence[str]) -> None:
        self._tokens, self._steps = tokens, steps
        self._tails: dict[str, list[tuple[int, int, int]] | None] = {}

    def cut(self, text: str, by: By) -> Cut:
        """Give the ids of a text and its words' spans, both by offsets into the text as given."""
        spans = _spans(text, by)
        aligned = align(text, self._steps)
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
        placed = [unit if unit.special else _placed(aligned, unit) for unit in units]
        return Cut(tuple(placed), tuple(spans), shortened or bool(encoding.overflowing))

    def _parted(self, aligned: Aligned, units: list[Unit], spans: Sequence[Span]) -> list[Unit]:
        """Tokenise again what stands between spaces and has a word's border inside."""
        borders = _borders(aligned, spans)
        reach = max((unit.end for unit in units), default=0)  # a long text was cut there
        for chunk in _CHUNK.finditer(aligned.text):
            start, end = chunk.span()
            inner = [border for border in borders if start < border < end]
            if not inner or end > reach:
                continue
            parts = self._parts(aligned.text, [start, *inner, end])
            own = [i for i, unit in enumerate(units) if unit.touches(start, end)]
            if parts is not None and own:
                units[own[0] : own[-1] + 1] = parts
        return units

    def _parts(self, text: str, borders: Sequence[int]) -> list[Unit] | None:
        """Tokens of each part of a chunk; None where a part cannot stand as a continuation."""
        units: list[Unit] = []
        for start, end in itertools.pairwise(borders):
            part = text[start:end]
            found = self._head(part, spaced=start > 0) if not units else self._tail(part)
            if found is None:
                return None
            units += [Unit(token, start + a, start + b, False) for token, a, b in found]
        return units

    def _head(self, part: str, *, spaced: bool) -> list[tuple[int, int, int]]:
        space = int(spaced)  # some tokenizers mark a word's start by the space before it
        encoding = self._tokens.tokenizer.encode(" " * space + part, add_special_tokens=False)
        return [
            (token, max(a - space, 0), b - space)
            for token, (a, b) in zip(encoding.ids, encoding.offsets, strict=True)
        ]

    def _tail(self, part: str) -> list[tuple[int, int, int]] | None:
        if part not in self._tails:
            if len(self._tails) > _KEPT:
                self._tails = {}
            self._tails[part] = next(filter(None, (self._after(a, part) for a in _ANCHORS)), None)
        return self._tails[part]

    def _after(self, anchor: str, part: str) -> list[tuple[int, int, int]] | None:
        encoding = self._tokens.tokenizer.encode(anchor + part, add_special_tokens=False)
        found = [
            (token, a - 1, b - 1)
            for token, (a, b) in zip(encoding.ids, encoding.offsets, strict=True)
            if a >= 1
        ]
        # All of the part must be there, and none of it melted with the anchor.
        whole = found and found[0][1] == 0 and len(found) < len(encoding.ids)
        return found if whole and encoding.offsets[0][1] == 1 else None

    def _fitted(self, units: list[Unit]) -> tuple[list[Unit], bool]:
        """Parted words have more tokens; take from the end what is too much."""
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
    """Whether a word ends between two morphemes: a noun before a particle, a sign, a number."""
    if one.end != following.start:
        return False
    return (one.tag in _NOMINAL) != (following.tag in _NOMINAL) or "S" in (
        one.tag[0],
        following.tag[0],
    )


def _borders(aligned: Aligned, spans: Sequence[Span]) -> list[int]:
    """Where words begin and end, as places in the cleaned text."""
    wanted = {place for span in spans for place in span}
    starts = {i for i, start in enumerate(aligned.starts) if start in wanted}
    ends = {i + 1 for i, end in enumerate(aligned.ends) if end in wanted}
    sources = list(zip(aligned.starts, aligned.ends, strict=True))
    # Letters that stand for one sign, as mg does for ㎎, are not parted.
    inside = {i for i in range(1, len(sources)) if sources[i - 1] == sources[i]}
    return sorted((starts | ends) - inside)


def _placed(aligned: Aligned, unit: Unit) -> Unit:
    start, end = aligned.span(unit.start, unit.end)
    return Unit(unit.id, start, end, special=False)
