"""What a static table learns from: texts as bags of pieces, and the encoder's vector of each."""

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..encoder import TextEncoder
from ..encoder.bags import Bags
from ..encoder.pieces import WordPieces
from ..errors import DataError, counted
from ..pooling import Floats

logger = logging.getLogger(__name__)

_CHUNK = 8192
_TOLD = 4 * _CHUNK  # how many texts between two notices


@dataclass(frozen=True)
class Lessons:
    """Texts to learn from. Ids and goals are files, mapped, so that memory stays small."""

    bags: Bags
    goals: NDArray[np.float16]  # (n, encoder's dimension), unit vectors

    def __len__(self) -> int:
        """Count the texts."""
        return len(self.bags.counts)

    def batches(self, size: int, random: np.random.Generator) -> Iterator[tuple[Bags, Floats]]:
        """Yield all texts once, in random order, as bags with their goals (n, dimension)."""
        ends = np.cumsum(self.bags.counts)
        order = random.permutation(len(self))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            counts = self.bags.counts[rows]
            first = np.repeat(ends[rows] - np.cumsum(counts), counts)  # less what came before
            ids = self.bags.ids[first + np.arange(counts.sum())]
            yield Bags(ids, counts), self.goals[rows].astype(np.float32)

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
        for chunk in _chunks(_distinct(texts)):
            bags = words.bags(chunk)
            kept = (bags.counts > 0) & (bags.counts <= encoder.max_tokens)
            counts.append(bags.counts[kept])
            ids.write(bags.ids[np.repeat(kept, bags.counts)].astype(np.int32).tobytes())
            chosen = list(itertools.compress(chunk, kept))
            # Windows, for special tokens may make a text one or two longer than it may be.
            goals.write(encoder.encode(chosen, on_long="windows").astype(np.float16).tobytes())
            total += len(chosen)
            if total % _TOLD < len(chosen):
                logger.info(f"{counted(total, 'text')} encoded")
    if not total:
        raise DataError(
            "the texts have no line with a known piece; expected one text a line. Check the files."
        )
    shape = (total, encoder.dimension)
    return Lessons(
        Bags(np.memmap(folder / "ids", dtype=np.int32, mode="r"), np.concatenate(counts)),
        np.memmap(folder / "goals", dtype=np.float16, mode="r", shape=shape),
    )


def _distinct(texts: Iterable[str]) -> Iterator[str]:
    seen: set[int] = set()  # hashes: eight bytes a text, and a rare clash loses one of millions
    for text in texts:
        key = hash(text)
        if key not in seen:
            seen.add(key)
            yield text


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(itertools.islice(texts, _CHUNK)):
        yield chunk
