"""Translations: sentences of two lists that mean the same, by the margin score.

The cosine alone prefers sentences that are near everything. The margin divides it by the mean
cosine of both sentences with their nearest neighbours (Artetxe and Schwenk, 2019): above 1, two
sentences are nearer to each other than to their other neighbours.
"""

from dataclasses import dataclass

import numpy as np

from ..encoders import TextEncoder
from ..errors import OptionError
from ..index import nearest
from ..index.base import Rows
from ..types import Floats
from .pairs import TextPair
from .texts import Lines, vectors_of

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
