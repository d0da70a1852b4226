"""Near-duplicate and paraphrase pairs in a pile of texts, and the pile without them."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..encoder import TextEncoder
from ..errors import OptionError
from ..pooling import Floats
from .close import all_close
from .texts import Line, Lines, vectors_of

TOP = 1000


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two lines and how alike they are."""

    a: Line
    b: Line
    score: float


def mine_pairs(
    encoder: TextEncoder,
    lines: Lines,
    *,
    least: float = 0.8,
    top: int | None = TOP,
    progress: bool = False,
) -> Iterator[TextPair]:
    """Yield pairs of texts whose cosine is `least` or more.

    With `top` the best so many come, best first; without it all come, as they are found. A line
    that repeats another one word for word is paired with its first occurrence, with score 1.
    """
    _check(least, top)
    vectors = vectors_of(encoder, lines.texts, progress=progress)
    if top is None:
        yield from _repeats(lines)
        for a, b, score in _found(vectors, least):
            yield TextPair(lines.lines[a], lines.lines[b], score)
        return
    repeats = list(_repeats(lines))[:top]
    yield from repeats
    for score, a, b in _best(vectors, least, top - len(repeats)):
        yield TextPair(lines.lines[a], lines.lines[b], score)


def deduplicate(
    encoder: TextEncoder, lines: Lines, *, least: float = 0.9, progress: bool = False
) -> list[Line]:
    """Keep the lines that are not near one kept before, in their order."""
    _check(least, None)
    vectors = vectors_of(encoder, lines.texts, progress=progress)
    kept = keep_first(len(lines.lines), [(a, b) for a, b, _ in _found(vectors, least)])
    return [line for line, own in zip(lines.lines, kept, strict=True) if own]


def keep_first(count: int, pairs: Sequence[tuple[int, int]]) -> list[bool]:
    """Say of each row whether it stays when no two of a pair may; the earlier row goes first.

    A row near a dropped one stays, so that a chain of small steps does not swallow a topic.

    >>> keep_first(4, [(0, 1), (1, 2)])
    [True, False, True, True]
    """
    kept = [True] * count
    for a, b in sorted(pairs, key=lambda pair: pair[1]):
        if kept[a]:
            kept[b] = False
    return kept


def _found(vectors: Floats, least: float) -> Iterator[tuple[int, int, float]]:
    for block in all_close(vectors, least=least):
        yield from zip(
            block.left.tolist(), block.right.tolist(), block.scores.tolist(), strict=True
        )


def _best(vectors: Floats, least: float, top: int) -> list[tuple[float, int, int]]:
    """The best pairs as (score, a, b); of equal scores the earlier rows win."""
    heap: list[tuple[float, int, int]] = []
    if top < 1:
        return heap
    for block in all_close(vectors, least=least):
        scores = block.scores
        # Most blocks have nothing better than what is kept.
        better = scores > (heap[0][0] if len(heap) == top else -np.inf)
        for a, b, score in zip(
            block.left[better].tolist(),
            block.right[better].tolist(),
            scores[better].tolist(),
            strict=True,
        ):
            item = (score, -a, -b)
            if len(heap) < top:
                heapq.heappush(heap, item)
            elif item > heap[0]:
                heapq.heapreplace(heap, item)
    return [(score, -a, -b) for score, a, b in sorted(heap, reverse=True)]


def _repeats(lines: Lines) -> Iterator[TextPair]:
    for row, number in lines.again:
        first = lines.lines[row]
        yield TextPair(first, Line(first.text, number), 1.0)


def _check(least: float, top: int | None) -> None:
    if not -1 <= least <= 1:
        raise OptionError(f"least is {least}; a cosine is expected, from -1 to 1. Try 0.8.")
    if top is not None and top < 1:
        raise OptionError(f"top is {top}; expected 1 or more. Ask for at least one pair.")
