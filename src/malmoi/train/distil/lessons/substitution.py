"""New sentence pairs out of old ones: a word is swapped in both languages at once.

Translated sentences are few, and soon known by heart. Where a word of one side is linked to its
translation on the other, both can be replaced by another such pair of like meaning ("고양이", "cat"
→ "개", "dog"); what the new sentence means is meant by the student as the stage found it, which
reads the language that it knows best. A sentence may also have some words in the other language,
or lack a few pieces, and still means the same (`Alter`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ....errors import DataError, counted
from ....types import Floats, Ints
from ...batching import pad, pool
from ..distillation import DistillationTexts, bag_ids
from ..student import Student
from .base import Matryoshka, encode_ids, normalize, pick_by
from .relations import toward
from .words import Dictionary, link

# Shorter pieces are mostly endings, particles and the like, which no other can replace.
_SHORTEST = (2, 3)
_FEWEST_PIECES = 8


@dataclass(frozen=True)
class WordPairs:
    """Words and their translations, as pieces, each with the pairs of nearest meaning.

    `pieces` (n, 2) holds target and source, `near` (n, k) the row numbers of the neighbours.
    """

    pieces: Ints
    near: Ints
    number: Mapping[tuple[int, int], int]


def word_pairs(
    words: Dictionary, names: Sequence[str], table: Floats, *, least: float = 0.3, near: int = 24
) -> WordPairs:
    """Keep words that surely mean one another, and find those of like meaning by their rows.

    `names` and `table` are those of all pieces; `least` is how sure a translation has to be.
    """
    found = []
    for target, means in words.items():
        source, weight = max(means.items(), key=lambda item: item[1])
        if weight > least and _is_word(names[target], 0) and _is_word(names[source], 1):
            found.append((target, source))
    pieces = np.array(found, dtype=np.int64).reshape(-1, 2)
    if len(pieces) <= near:
        raise DataError(
            f"{counted(len(pieces), 'word has', 'words have')} a sure translation; expected more "
            f"than the {near} neighbours of each. Give more parallel text, or lower near."
        )
    number = {pair: at for at, pair in enumerate(found)}
    return WordPairs(pieces, _nearest_words(pieces, table - table.mean(0), near), number)


def _is_word(piece: str, side: int) -> bool:
    """Whether a piece starts a word and is long enough, in WordPiece's or Unigram's writing."""
    return piece.removeprefix("▁").isalpha() and len(piece.strip("▁")) >= _SHORTEST[side]


def _nearest_words(pieces: Ints, table: Floats, count: int, *, block: int = 512) -> Ints:
    """Give each pair's nearest by both languages' rows, none with the same source word."""
    both = [torch.from_numpy(table[pieces[:, side]]) for side in (0, 1)]
    unit = torch.cat([normalize(rows, dim=1) for rows in both], dim=1)
    source = torch.from_numpy(pieces[:, 1])
    found = []
    for begin in range(0, len(pieces), block):
        scores = unit[begin : begin + block] @ unit.T
        scores[source[begin : begin + block, None] == source] = -torch.inf
        found.append(scores.topk(count, dim=1).indices.numpy())
    return np.concatenate(found)


def swap(
    target: Sequence[int],
    source: Sequence[int],
    words: Dictionary,
    pairs: WordPairs,
    rng: np.random.Generator,
    *,
    most: int = 3,
) -> tuple[list[int], list[int]] | None:
    """Replace up to `most` words on both sides by neighbours; None where no word can be."""
    linked = [
        (one, two, number)
        for one, two in link(target, source, words)
        if (number := pairs.number.get((target[one], source[two]))) is not None
    ]
    if not linked:
        return None
    new, meant = list(target), list(source)
    count = 1 + int(rng.integers(min(most, len(linked))))
    for chosen in rng.choice(len(linked), count, replace=False):
        one, two, number = linked[int(chosen)]
        other = pairs.near[number, int(rng.integers(pairs.near.shape[1]))]
        new[one], meant[two] = (int(piece) for piece in pairs.pieces[other])
    return new, meant


@dataclass(frozen=True)
class Alter:
    """What may happen to a translation before it is read: its meaning stays.

    A share `mixed` of the sentences gets some of its words in the source's language; every piece
    is left out with the chance `dropped`, the first and the last excepted.
    """

    words: Dictionary = field(repr=False)
    mixed: float = 0.0
    dropped: float = 0.0
    each: float = 0.4
    least: float = 0.2

    def __call__(
        self, target: Sequence[int], source: Sequence[int], rng: np.random.Generator
    ) -> list[int]:
        """Give the altered ids."""
        ids = list(target)
        if self.mixed and rng.random() < self.mixed:
            for one, two in link(target, source, self.words, least=self.least):
                if rng.random() < self.each:
                    ids[one] = source[two]
        if not self.dropped or len(ids) < _FEWEST_PIECES:
            return ids
        kept = rng.random(len(ids)) >= self.dropped
        kept[[0, -1]] = True
        return [piece for piece, stays in zip(ids, kept, strict=True) if stays]


@dataclass
class Swaps:
    """Sentences with two variants of each: at the goals of their sources, and in their order.

    `rows` are those of `data` that take part, drawn by weight; texts above `longest` pieces are
    left out. `model` is the student as it was, which reads the sources.
    """

    name: str
    data: DistillationTexts
    rows: Ints
    words: Dictionary
    pairs: WordPairs
    model: torch.nn.Module
    alter: Alter
    weight: float = 1.0
    size: int = 48
    contrast: float = 0.15
    relations: float = 1.0
    variants: int = 2
    longest: int = 48

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Take the distance to the goals, and the order of near and of random pairs."""
        made = self._batch(rng)
        if len(made) < 2:  # nothing to distinguish
            return torch.zeros((), requires_grad=True)
        goal = encode_ids(_Reader(self.model), [source for _, source in made])
        ids = [self.alter(target, source, rng) for target, source in made]
        keys = np.arange(len(made), dtype=np.int64)
        return toward(
            encode_ids(student, ids), goal, keys, nested, rng,
            contrasted=self.contrast, relations=self.relations,
        )  # fmt: skip

    def _batch(self, rng: np.random.Generator) -> list[tuple[list[int], list[int]]]:
        rows = self.rows[pick_by(self.data.weight[self.rows], self.size, rng)]
        made: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
        sides = (bag_ids(side, rows) for side in (self.data.target, self.data.source))
        for target, source in zip(*sides, strict=True):
            if max(len(target), len(source)) > self.longest:
                continue
            made[tuple(source)] = target, source
            for _ in range(self.variants):
                if new := swap(target, source, self.words, self.pairs, rng):
                    made[tuple(new[1])] = new
        return list(made.values())


@dataclass(frozen=True)
class _Reader:
    """The frozen student: ids → unit vectors."""

    model: torch.nn.Module

    def vectors(self, ids: Sequence[Sequence[int]]) -> Tensor:
        batch, mask = pad(ids)
        with torch.no_grad():
            hidden = self.model(input_ids=batch, attention_mask=mask).last_hidden_state
            return normalize(pool(hidden, mask), dim=1)
