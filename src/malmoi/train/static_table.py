"""A row for each piece: where it starts, how it is weighted, and how it learns from texts."""

import logging
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..encoder.bags import Bags, sum_rows
from ..pooling import Floats, normalize
from .static_lessons import Lessons

logger = logging.getLogger(__name__)

# Weights are a / (a + p) by a piece's share of all text, as in smooth inverse frequency
# (Arora and others, 2017): a piece that is a thousandth of all text weighs half.
_A = 1e-3
_BATCH = 1024


@dataclass(frozen=True)
class Table:
    """int8 rows (pieces, dim) with a scale each, and the vector of a text without pieces."""

    pieces: NDArray[np.int8]
    scales: Floats
    empty: Floats

    def arrays(self) -> dict[str, NDArray[np.int8] | Floats]:
        """Give the arrays under the names they have on disk."""
        return {"pieces": self.pieces, "scales": self.scales, "empty": self.empty}


def quantise(rows: Floats, empty: Floats) -> Table:
    """Store rows as int8, each with a scale of its own."""
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    return Table(np.rint(rows / divisors).astype(np.int8), scales.astype(np.float32), empty)


def principal_axes(moments: NDArray[np.float64], dim: int) -> Floats:
    """Find the `dim` directions that hold most of what the moments sum up; (width, dim).

    The first axes hold the most, so that vectors may be cut to fewer dimensions later.
    """
    _, axes = np.linalg.eigh(moments)
    axes = axes[:, ::-1][:, :dim]
    # A direction's sign is arbitrary; this one does not depend on the machine.
    strongest = axes[np.abs(axes).argmax(axis=0), np.arange(dim)]
    chosen: Floats = (axes * np.sign(strongest)).astype(np.float32)
    return chosen


def weights_by_count(counts: NDArray[np.int64]) -> Floats:
    """Weigh pieces by how often they stand in the texts; (pieces,)."""
    shares = counts / max(int(counts.sum()), 1)
    weights: Floats = (_A / (_A + shares)).astype(np.float32)
    return weights


def weights_by_rank(count: int) -> Floats:
    """Weigh pieces by their place in the vocabulary, where frequent ones stand first; (pieces,)."""
    shares = 1 / (np.arange(count) + 2)  # Zipf's law
    weights: Floats = (_A / (_A + shares / shares.sum())).astype(np.float32)
    return weights


@dataclass
class _Adagrad:
    """Steps that grow smaller the more a row has moved, one size a row.

    Rare pieces so keep large steps for the few texts they stand in, and frequent ones settle.
    """

    rows: Floats
    rate: float
    squares: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.squares = np.zeros((len(self.rows), 1), dtype=np.float32)

    def move(self, touched: NDArray[np.int64], slopes: Floats, share: float) -> None:
        """Move the touched rows against their slopes, by `share` of the full rate."""
        self.squares[touched] += np.square(slopes).mean(axis=1, keepdims=True)
        size = np.sqrt(self.squares[touched]) + np.float32(1e-8)
        self.rows[touched] -= np.float32(share * self.rate) * slopes / size


def learn(
    rows: Floats, lessons: Lessons, axes: Floats, *, epochs: int, rate: float, seed: int
) -> float:
    """Move rows, in place, until the sums of texts point where the encoder's vectors do.

    `rate` is the step's size beside the rows' own. Gives the last epoch's mean cosine.
    """
    # Rows that no text has are left out: they weigh most, and do not move.
    typical = float(np.sqrt(np.mean(rows[np.unique(lessons.bags.ids)] ** 2)))
    adagrad = _Adagrad(rows, rate * typical)
    random = np.random.default_rng(seed)
    total, done, cosine = epochs * len(lessons), 0, 0.0
    for epoch in range(epochs):
        cosine = 0.0
        for bags, goals in lessons.batches(_BATCH, random):
            found, slopes = _slopes(rows, bags, normalize(goals @ axes))
            adagrad.move(*_by_piece(bags, slopes), share=1 - done / total)
            done += len(goals)
            cosine += found
        cosine /= len(lessons)
        logger.info(f"epoch {epoch + 1} of {epochs}: mean cosine to the encoder {cosine:.4f}")
    return cosine


def _slopes(rows: Floats, bags: Bags, goals: Floats) -> tuple[float, Floats]:
    """Give the sum of cosines between sums and goals, and minus its slope by the sums (n, dim)."""
    sums = sum_rows(rows, bags)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-6))
    units = sums / lengths
    cosines = np.einsum("nd,nd->n", units, goals)[:, None]
    return float(cosines.sum()), (cosines * units - goals) / lengths


def _by_piece(bags: Bags, slopes: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Sum the slopes (n, dim) of the texts each piece stands in; gives pieces and sums."""
    owners = np.repeat(np.arange(len(bags.counts)), bags.counts)
    order = np.argsort(bags.ids, kind="stable")
    pieces, counts = np.unique(bags.ids, return_counts=True)
    return pieces.astype(np.int64), sum_rows(slopes, Bags(owners[order], counts))
