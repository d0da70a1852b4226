"""Near-duplicates and paraphrases in a list of texts, and the list without them."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..encoders import TextEncoder
from ..errors import OptionError
from ..index import nearest
from ..index.base import Rows
from ..index.join import pairs_above
from ..types import Floats
from .texts import Lines, NumberedLine, vectors_of

TOP = 1000


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two lines and their cosine."""

    a: NumberedLine
    b: NumberedLine
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

    With `top` only the best ones, best first; without it all, as they are found. A line that
    repeats another one exactly is paired with its first occurrence, with score 1.
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
) -> list[NumberedLine]:
    """Keep the lines that are not near an earlier kept one, in their order."""
    _check(least, None)
    vectors = vectors_of(encoder, lines.texts, progress=progress)
    kept = keep_first(len(lines.lines), ((a, b) for a, b, _ in _found(vectors, least)))
    return [line for line, own in zip(lines.lines, kept, strict=True) if own]


def keep_first(count: int, pairs: Iterable[tuple[int, int]]) -> list[bool]:
    """Whether to keep each row, so that no pair is kept whole; the earlier row is preferred.

    A row near a dropped one stays, so that a chain of small steps does not remove a topic. Pairs
    that end in a row must come before those that begin with it, as `pairs_above` gives them.

    >>> keep_first(4, [(0, 1), (1, 2)])
    [True, False, True, True]
    """
    kept = [True] * count
    for a, b in pairs:
        if kept[a]:
            kept[b] = False
    return kept


def _found(vectors: Floats, least: float) -> Iterator[tuple[int, int, float]]:
    for block in pairs_above(vectors, least=least):
        yield from zip(
            block.left.tolist(), block.right.tolist(), block.scores.tolist(), strict=True
        )


def _best(vectors: Floats, least: float, top: int) -> list[tuple[float, int, int]]:
    """The best pairs as (score, a, b); of equal scores the earlier rows win."""
    ordered = ((-score, a, b) for a, b, score in _found(vectors, least))
    return [(-score, a, b) for score, a, b in heapq.nsmallest(top, ordered)]


def _repeats(lines: Lines) -> Iterator[TextPair]:
    for row, number in lines.again:
        first = lines.lines[row]
        yield TextPair(first, NumberedLine(first.text, number), 1.0)


def _check(least: float, top: int | None) -> None:
    if not -1 <= least <= 1:
        raise OptionError(f"least is {least}; a cosine is expected, from -1 to 1. Try 0.8.")
    if top is not None and top < 1:
        raise OptionError(f"top is {top}; expected 1 or more. Ask for at least one pair.")


NEIGHBOURS = 4
LEAST = 1.05


@dataclass(frozen=True, slots=True)
class Translation(TextPair):
    """A line of each list; the score is their margin."""

    cosine: float


def mine_translations(
    encoder: TextEncoder,
    left: Lines,
    right: Lines,
    *,
    least: float = LEAST,
    neighbours: int = NEIGHBOURS,
    progress: bool = False,
) -> list[Translation]:
    """Find pairs across two lists whose margin is `least` or more, best first, each line once."""
    if neighbours < 1:
        raise OptionError(f"neighbours is {neighbours}; expected 1 or more. Try {NEIGHBOURS}.")
    a = vectors_of(encoder, left.texts, progress=progress)
    b = vectors_of(encoder, right.texts, progress=progress)
    pairs = margins(a, b, neighbours=neighbours)
    found: list[Translation] = []
    used_left, used_right = set[int](), set[int]()
    for i in np.lexsort((pairs.right, pairs.left, -pairs.scores)):  # the best first
        row, column, score = int(pairs.left[i]), int(pairs.right[i]), float(pairs.scores[i])
        if score < least:
            break
        if row not in used_left and column not in used_right:
            used_left.add(row)
            used_right.add(column)
            cosine = float(pairs.cosines[i])
            found.append(Translation(left.lines[row], right.lines[column], score, cosine))
    return found


@dataclass(frozen=True)
class Margins:
    """Pairs of rows with their margins and cosines, as four columns."""

    left: Rows
    right: Rows
    scores: Floats
    cosines: Floats


def margins(a: Floats, b: Floats, *, neighbours: int = NEIGHBOURS) -> Margins:
    """Score the nearest neighbours of each side on the other."""
    forward_rows, forward = _neighbours(a, b, neighbours)  # both (len(a), k)
    backward_rows, backward = _neighbours(b, a, neighbours)  # both (len(b), k)
    left = np.repeat(np.arange(len(a)), forward.shape[1])
    right = np.repeat(np.arange(len(b)), backward.shape[1])
    rows = np.concatenate([left, backward_rows.ravel()])
    columns = np.concatenate([forward_rows.ravel(), right])
    cosines = np.concatenate([forward.ravel(), backward.ravel()])
    around = (forward.mean(axis=1)[rows] + backward.mean(axis=1)[columns]) / 2
    # Far from everything, the mean may be near zero or negative, and a ratio without meaning.
    scores = (cosines / np.maximum(around, np.float32(0.05))).astype(np.float32)
    return Margins(rows, columns, scores, cosines)


def _neighbours(queries: Floats, documents: Floats, k: int) -> tuple[Rows, Floats]:
    blocks = list(nearest(queries, documents, k))
    rows = np.concatenate([block.rows for block in blocks])
    return rows, np.concatenate([block.scores for block in blocks])
