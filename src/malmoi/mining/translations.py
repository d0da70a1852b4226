"""Sentences of two piles that mean the same, by the margin score.

A cosine alone prefers sentences that are near everything. The margin divides it by the mean
cosine of both sentences with their nearest neighbours (Artetxe and Schwenk, 2019), so that a
score above 1 says: nearer to each other than to what else is near.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..encoder import TextEncoder
from ..errors import OptionError
from ..index import nearest
from ..index.knn import Rows
from ..types import Floats
from .texts import Line, Lines, vectors_of

NEIGHBOURS = 4
LEAST = 1.05


@dataclass(frozen=True, slots=True)
class Translation:
    """A line of either pile, their margin and their cosine."""

    a: Line
    b: Line
    score: float
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
    """Find pairs across two piles whose margin is `least` or more, best first, each line once."""
    if neighbours < 1:
        raise OptionError(f"neighbours is {neighbours}; expected 1 or more. Try {NEIGHBOURS}.")
    a = vectors_of(encoder, left.texts, progress=progress)
    b = vectors_of(encoder, right.texts, progress=progress)
    pairs = margins(a, b, neighbours=neighbours)
    found = []
    for row, column, margin, cosine in _once(pairs, least):
        found.append(Translation(left.lines[row], right.lines[column], margin, cosine))
    return found


@dataclass(frozen=True)
class Margins:
    """Pairs of rows with their margins and cosines, as four columns."""

    left: Rows
    right: Rows
    scores: Floats
    cosines: Floats


def margins(a: Floats, b: Floats, *, neighbours: int = NEIGHBOURS) -> Margins:
    """Score the nearest neighbours of either side, both ways."""
    forward, backward = _neighbours(a, b, neighbours), _neighbours(b, a, neighbours)
    left = np.repeat(np.arange(len(a)), forward.rows.shape[1])
    right = np.repeat(np.arange(len(b)), backward.rows.shape[1])
    rows = np.concatenate([left, backward.rows.ravel()])
    columns = np.concatenate([forward.rows.ravel(), right])
    cosines = np.concatenate([forward.cosines.ravel(), backward.cosines.ravel()])
    around = (forward.cosines.mean(axis=1)[rows] + backward.cosines.mean(axis=1)[columns]) / 2
    # Far from everything, the mean may be near zero or below, and a ratio would mean nothing.
    scores = (cosines / np.maximum(around, np.float32(0.05))).astype(np.float32)
    return Margins(rows, columns, scores, cosines)


@dataclass(frozen=True)
class _Around:
    rows: Rows  # (n, k)
    cosines: Floats  # (n, k)


def _neighbours(queries: Floats, documents: Floats, k: int) -> _Around:
    blocks = list(nearest(queries, documents, k))
    return _Around(
        np.concatenate([block.rows for block in blocks]),
        np.concatenate([block.scores for block in blocks]),
    )


def _once(pairs: Margins, least: float) -> Iterator[tuple[int, int, float, float]]:
    """Take the best pairs first, and each row of either side once."""
    order = np.lexsort((pairs.right, pairs.left, -pairs.scores))
    used_left: set[int] = set()
    used_right: set[int] = set()
    for i in order:
        row, column, score = int(pairs.left[i]), int(pairs.right[i]), float(pairs.scores[i])
        if score < least:
            return
        if row not in used_left and column not in used_right:
            used_left.add(row)
            used_right.add(column)
            yield row, column, score, float(pairs.cosines[i])
