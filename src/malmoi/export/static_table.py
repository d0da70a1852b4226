"""A static table has a row for each piece: how it starts, is weighted, and learns from texts.

Texts are bags of pieces with the encoder's vector of each as the goal.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..encoders import TextEncoder
from ..encoders.static import EmbeddingBags, WordPieces, sum_rows
from ..errors import DataError, counted
from ..runtime.pooling import normalize
from ..types import Floats

logger = logging.getLogger(__name__)

_CHUNK = 8192
_LOG_EVERY = 4 * _CHUNK  # how many texts between two notices


@dataclass(frozen=True)
class Lessons:
    """Texts to learn from. Ids and goals are files, mapped, so that memory stays small."""

    bags: EmbeddingBags
    goals: NDArray[np.float16]  # (n, encoder's dimension), unit vectors

    def __len__(self) -> int:
        """Count the texts."""
        return len(self.bags.counts)

    def batches(
        self, size: int, random: np.random.Generator
    ) -> Iterator[tuple[EmbeddingBags, Floats]]:
        """Yield all texts once, in random order, as bags with their goals (n, dimension)."""
        ends = np.cumsum(self.bags.counts)
        order = random.permutation(len(self))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            counts = self.bags.counts[rows]
            first = np.repeat(ends[rows] - np.cumsum(counts), counts)  # less what came before
            ids = self.bags.ids[first + np.arange(counts.sum())]
            yield EmbeddingBags(ids, counts), self.goals[rows].astype(np.float32)

    def moments(self) -> NDArray[np.float64]:
        """Sum the products of the goals' dimensions; (dimension, dimension)."""
        width = self.goals.shape[1]
        total = np.zeros((width, width))
        for start in range(0, len(self), _CHUNK):
            block = self.goals[start : start + _CHUNK].astype(np.float32)
            total += block.T @ block
        return total


def collect(encoder: TextEncoder, words: WordPieces, texts: Iterable[str], folder: Path) -> Lessons:
    """Encode distinct texts and keep them in `folder`.

    Texts without a piece, and those longer than the encoder reads, are passed over.
    """
    counts: list[NDArray[np.int64]] = []
    total = 0
    with (folder / "ids").open("wb") as ids, (folder / "goals").open("wb") as goals:
        distinct = _distinct(texts)
        while chunk := list(itertools.islice(distinct, _CHUNK)):
            bags = words.bags(chunk)
            kept = (bags.counts > 0) & (bags.counts <= encoder.max_tokens)
            counts.append(bags.counts[kept])
            ids.write(bags.ids[np.repeat(kept, bags.counts)].astype(np.int32).tobytes())
            chosen = list(itertools.compress(chunk, kept))
            # Windows, for special tokens may make a text one or two longer than it may be.
            goals.write(encoder.encode(chosen, on_long="windows").astype(np.float16).tobytes())
            total += len(chosen)
            if total % _LOG_EVERY < len(chosen):
                logger.info(f"{counted(total, 'text')} encoded")
    if not total:
        raise DataError(
            "the texts have no line with a known piece; expected one text a line. Check the files."
        )
    shape = (total, encoder.dimension)
    return Lessons(
        EmbeddingBags(np.memmap(folder / "ids", dtype=np.int32, mode="r"), np.concatenate(counts)),
        np.memmap(folder / "goals", dtype=np.float16, mode="r", shape=shape),
    )


def _distinct(texts: Iterable[str]) -> Iterator[str]:
    seen: set[int] = set()  # hashes: eight bytes a text, and a rare clash loses one of millions
    for text in texts:
        key = hash(text)
        if key not in seen:
            seen.add(key)
            yield text


# Weights are a / (a + p) by a piece's share of all text, as in smooth inverse frequency
# (Arora and others, 2017): a piece that is a thousandth of all text weighs half.
_A = 1e-3
_BATCH = 1024


@dataclass(frozen=True)
class StaticTable:
    """int8 rows (pieces, dim) with a scale each, and the vector of a text without pieces."""

    pieces: NDArray[np.int8]
    scales: Floats
    empty: Floats

    def arrays(self) -> dict[str, NDArray[np.int8] | Floats]:
        """Give the arrays under the names they have on disk."""
        return {"pieces": self.pieces, "scales": self.scales, "empty": self.empty}


def quantise(rows: Floats, empty: Floats) -> StaticTable:
    """Store rows as int8, each with a scale of its own."""
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    return StaticTable(np.rint(rows / divisors).astype(np.int8), scales.astype(np.float32), empty)


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
    """Weigh pieces by how often they occur in the texts; (pieces,)."""
    shares = counts / max(int(counts.sum()), 1)
    weights: Floats = (_A / (_A + shares)).astype(np.float32)
    return weights


def weights_by_rank(count: int) -> Floats:
    """Weigh pieces by their rank in the vocabulary, which has frequent ones first; (pieces,)."""
    shares = 1 / (np.arange(count) + 2)  # Zipf's law
    weights: Floats = (_A / (_A + shares / shares.sum())).astype(np.float32)
    return weights


@dataclass
class _Adagrad:
    """Steps that grow smaller the more a row has moved, one size a row.

    Rare pieces so keep large steps for the few texts they occur in, and frequent ones settle.
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

    `rate` is the size of a step relative to the rows. Gives the last epoch's mean cosine.
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


def _slopes(rows: Floats, bags: EmbeddingBags, goals: Floats) -> tuple[float, Floats]:
    """Give the sum of cosines between sums and goals, and minus its slope by the sums (n, dim)."""
    sums = sum_rows(rows, bags)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-6))
    units = sums / lengths
    cosines = np.einsum("nd,nd->n", units, goals)[:, None]
    return float(cosines.sum()), (cosines * units - goals) / lengths


def _by_piece(bags: EmbeddingBags, slopes: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Sum the slopes (n, dim) of the texts each piece occurs in; gives pieces and sums."""
    owners = np.repeat(np.arange(len(bags.counts)), bags.counts)
    order = np.argsort(bags.ids, kind="stable")
    pieces, counts = np.unique(bags.ids, return_counts=True)
    return pieces.astype(np.int64), sum_rows(slopes, EmbeddingBags(owners[order], counts))
