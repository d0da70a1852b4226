"""Two texts in one input: joined as the tokenizer's own template joins them, cut to fit.

The tokenizers library could join and cut pairs by itself, but it also makes every overlapping
window of one text beside every window of the other (hundreds of megabytes for two long texts),
and it reads the query again for each text it is paired with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import BundleError
from .tokens import Piece, Tokens

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Part:
    """Special tokens that stand at one place of every pair."""

    ids: list[int]
    types: list[int]


@dataclass(frozen=True, slots=True)
class _Frame:
    """What stands before, between and after two texts, and the segment ids of the texts."""

    before: _Part
    between: _Part
    after: _Part
    first: int
    second: int

    def join(self, a: list[int], b: list[int]) -> tuple[list[int], list[int]]:
        """Give the ids and segment ids of a pair."""
        ids = self.before.ids + a + self.between.ids + b + self.after.ids
        types = [*self.before.types, *[self.first] * len(a), *self.between.types]
        return ids, [*types, *[self.second] * len(b), *self.after.types]


class PairTokens:
    """Pairs of texts → pieces with segment ids, the longer text cut first."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._frame = _find_frame(tokens.tokenizer)
        parts = (self._frame.before, self._frame.between, self._frame.after)
        self._room = tokens.max_tokens - sum(len(part.ids) for part in parts)
        if self._room < 2:
            raise BundleError(
                f"the model reads {tokens.max_tokens} tokens, which leaves {self._room} for two "
                'texts; expected 2 or more. Correct "max_tokens" in malmoi.json.'
            )

    def cut(self, pairs: Sequence[Pair]) -> tuple[list[Piece], int]:
        """Give one piece a pair, and how many pairs were cut to fit."""
        unique = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = dict(zip(unique, self._tokens.sides(unique), strict=True))
        pieces, cut = [], 0
        for owner, (a, b) in enumerate(pairs):
            (left, left_length), (right, right_length) = encoded[a], encoded[b]
            kept_left, kept_right = share(left_length, right_length, self._room)
            cut += kept_left + kept_right < left_length + right_length
            ids, types = self._frame.join(left[:kept_left], right[:kept_right])
            pieces.append(Piece(owner, ids, types))
        return pieces, cut


def share(a: int, b: int, room: int) -> tuple[int, int]:
    """Divide the room between two texts of a and b tokens, taking from the longer one.

    >>> share(3, 100, 20), share(60, 70, 21), share(4, 5, 20)
    ((3, 17), (10, 11), (4, 5))
    """
    if a + b <= room:
        return a, b
    if a > b:
        longer, shorter = share(b, a, room)
        return shorter, longer
    half = room // 2
    return (a, room - a) if a <= half else (half, room - half)


def _find_frame(tokenizer: "Tokenizer") -> _Frame:
    """Read the template from a pair of one-letter texts."""
    truncation = tokenizer.truncation
    tokenizer.no_truncation()
    encoding = tokenizer.encode("a", "a")
    if truncation is not None:
        tokenizer.enable_truncation(**truncation)
    sides = encoding.sequence_ids
    if 0 not in sides or 1 not in sides:
        raise BundleError(
            'the tokenizer has no token for "a"; expected one, an unknown token at least. '
            "Such a tokenizer cannot join pairs: export the model again with: malmoi export"
        )
    first, second = sides.index(0), sides.index(1)
    after_first = len(sides) - sides[::-1].index(0)
    after_second = len(sides) - sides[::-1].index(1)
    return _Frame(
        before=_part(encoding, 0, first),
        between=_part(encoding, after_first, second),
        after=_part(encoding, after_second, len(sides)),
        first=encoding.type_ids[first],
        second=encoding.type_ids[second],
    )


def _part(encoding: "Encoding", start: int, end: int) -> _Part:
    return _Part(encoding.ids[start:end], encoding.type_ids[start:end])
