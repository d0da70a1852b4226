"""Why a passage was found: each word of the query with the word of the passage that it met."""

import re
from dataclasses import replace

from ..documents import Passage
from ..encoders.token_vectors import Span, TokenEncoder, TokenVectors, matches
from ..types import Floats
from .keywords import COMMON
from .ranking import Hit, Match, make_snippet
from .store import context_of, searched_text

# Words that are less alike have hardly anything to do with each other.
_ALIKE = 0.6
# A word counts if a token of it has this share of the mean weight.
_COUNTED = 0.4
_WORD = re.compile(r"\w+")


class MatchReader:
    """Reads the matches of one query."""

    def __init__(
        self,
        encoder: TokenEncoder,
        query: str,
        asked: TokenVectors,
        weights: Floats | None,
        prompt: str | None,
    ) -> None:
        """Take a query with its token vectors.

        Args:
            encoder: makes token vectors.
            query: what was asked.
            asked: its token vectors.
            weights: of the tokens in the search; words that hardly counted are left out.
            prompt: that passages were read with.
        """
        self._encoder, self._query, self._asked, self._prompt = encoder, query, asked, prompt
        aligned, words = encoder.align(query), _words(query)
        own = [_word_of(words, aligned.span(*span)) for span in asked.spans]
        mean = 1 / max(len(own), 1)
        counted = [mean] * len(own) if weights is None else weights.tolist()
        self._words = [
            word
            if weight >= _COUNTED * mean and query[slice(*word)].lower() not in COMMON
            else None
            for word, weight in zip(own, counted, strict=True)
        ]

    def explained(self, hit: Hit, passage: Passage, packed: bytes) -> Hit:
        """The hit with its matches, and the snippet that has most of them."""
        found = self._matches(hit, passage, packed)
        return replace(hit, matches=found, snippet=make_snippet(self._query, passage, 0, found))

    def _matches(self, hit: Hit, passage: Passage, packed: bytes) -> tuple[Match, ...]:
        whole = searched_text(hit.title, passage)
        [spans] = self._encoder.spans([whole], prompt=self._prompt)
        size = self._encoder.size
        if len(spans) != len(packed) // (size // 2):  # read by another tokenizer
            return ()
        above = len(context_of(hit.title, passage))
        start = above + 1 if above else 0
        aligned, words = self._encoder.align(whole), _words(passage.text)
        best: dict[Span, Match] = {}
        nearest, cosines = matches(self._asked.vectors, packed, size=size)
        for own, j, cosine in zip(self._words, nearest.tolist(), cosines.tolist(), strict=True):
            first, last = aligned.span(*spans[j])
            # What is above the passage is not part of its text.
            if own is None or cosine < _ALIKE or first < start:
                continue
            if own in best and best[own].cosine >= cosine:
                continue
            met = _word_of(words, (first - start, last - start))
            best[own] = Match(own, met, round(cosine, 4))
        return tuple(sorted(best.values(), key=lambda one: -one.cosine))


def _words(text: str) -> list[Span]:
    return [one.span() for one in _WORD.finditer(text)]


def _word_of(words: list[Span], span: Span) -> Span:
    """The word that a token is part of; a token that is part of none is its own."""
    start, end = span
    return next((one for one in words if one[0] <= start < one[1]), (start, end))
