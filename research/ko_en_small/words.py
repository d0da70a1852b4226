"""Words in their sentence and in both languages: senses, translations, sentences with others.

A sentence objective alone leaves a word's state much the same in every sentence. To change that,
occurrences of a word are ranked by whether their sense is the same (`WordSenses`).

Translated sentences are few, and soon known by heart. Where a word of one side is linked to its
translation on the other, both can be replaced by another such pair of similar meaning ("고양이",
"cat" → "개", "dog"); the new sentence means what the student, as the stage found it, reads in the
language that it knows best (`Swaps`). A sentence may also have some words in the other language,
or lack a few tokens, and still means the same (`Alter`). IBM model 1 says which pieces are
translations of each other (`ibm1`).
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from malmoi.errors import DataError, counted
from malmoi.training.batching import pad, pool
from malmoi.training.distil.goals import DistillationTexts, SentenceBags
from malmoi.training.distil.student import Student, embed_ids
from malmoi.types import Floats, Ints

from .lessons import Lesson, Matryoshka, cosent, dropout, nearest, normalize, pick, pick_by, toward

_BLOCK = 8192  # texts that are tokenized together
# Shorter tokens are mostly endings, particles and the like, which no other can replace.
_SHORTEST = (2, 3)
_FEWEST_PIECES = 8
_LONGEST, _VARIANTS = 48, 2  # pieces of a sentence that is swapped, and its variants


@dataclass(frozen=True)
class SenseOccurrence:
    """A word in a sentence, by the characters it spans, and the name of its sense there."""

    text: str
    span: tuple[int, int]
    sense: str


@dataclass
class WordSenses(Lesson):
    """Occurrences of a word are nearer to those of their own sense, in chosen hidden layers.

    `words` holds the occurrences of each word, two or more; only occurrences of one word are
    compared. All pairs of a batch are ranked together, so that one threshold serves every word.
    """

    words: Sequence[Sequence[SenseOccurrence]]

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Rank pairs of occurrences: the same sense above another one."""
        drawn = [
            (word, self.words[word][i])
            for word in pick(len(self.words), self.size, rng)
            for i in pick(len(self.words[word]), self.task.sentences_per_word, rng)
        ]
        owner = np.array([word for word, _ in drawn])
        one, two = np.triu_indices(len(owner), 1)
        within = owner[one] == owner[two]  # only occurrences of one word are compared
        one, two = one[within], two[within]
        senses = np.array([found.sense for _, found in drawn])
        same = torch.from_numpy((senses[one] == senses[two]).astype(np.float32))
        # Sentences with marked senses are few, hence the dropout.
        with dropout(student, self.task.drop, seed=int(rng.integers(1 << 31))):
            states = word_states(student, [found for _, found in drawn], self.task.layers)
        losses = [cosent((state[one] * state[two]).sum(1), same) for state in states]
        return torch.stack(losses).mean() / math.log(len(same) + 1)


def word_states(
    student: Student, found: Sequence[SenseOccurrence], layers: Sequence[int]
) -> list[Tensor]:
    """Give the words' unit vectors in each layer: the mean over their pieces, (n, dim)."""
    encodings = student.tokenizer.encode_batch([each.text for each in found])
    _, mask, states = student.states([e.ids[: student.longest] for e in encodings], layers=True)
    share = torch.zeros(mask.shape)
    for row, (encoding, each) in enumerate(zip(encodings, found, strict=True)):
        inside = covered(encoding.offsets[: student.longest], *each.span) or [0]
        share[row, inside] = 1 / len(inside)
    return [
        normalize(torch.einsum("nld,nl->nd", states[layer].float(), share), dim=1)
        for layer in layers
    ]


def covered(offsets: Sequence[tuple[int, int]], begin: int, end: int) -> list[int]:
    """Say which tokens overlap the characters from `begin` to `end`.

    >>> covered([(0, 0), (0, 1), (1, 2), (3, 5)], 1, 4)
    [2, 3]
    """
    return [i for i, (a, b) in enumerate(offsets) if b > a and a < end and b > begin]


@dataclass(frozen=True)
class ParallelBags:
    """The same sentences twice: bag i of `source` is the translation of bag i of `target`."""

    source: SentenceBags
    target: SentenceBags


def write_bags(
    pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer, folder: Path, *, longest: int = 64
) -> ParallelBags:
    """Tokenize (source, target) sentences once, a block at a time, into memory-mapped bags.

    Source is the side that is known already (English), target the side with the new pieces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = list(pairs)

    def ids(side: int) -> Iterator[list[int]]:
        for begin in range(0, len(listed), _BLOCK):
            texts = [pair[side] for pair in listed[begin : begin + _BLOCK]]
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
                yield encoding.ids[:longest]

    sides = (SentenceBags.write(folder / f"{side}.i32", ids(side)) for side in (0, 1))
    return ParallelBags(*sides)


@dataclass(frozen=True)
class Lexical:
    """IBM model 1's t(source | target) as a sparse list: pair k is (target, source) with weight."""

    target: Ints
    source: Ints
    weight: Floats


def ibm1(
    pairs: ParallelBags, size: int, *, rounds: int = 4, longest: int = 24, most: int = 300_000
) -> Lexical:
    """Learn which source pieces explain which target pieces, by EM over co-occurrences.

    Here every source piece is generated by one target piece of its sentence (or by none).
    Only pairs with both sides within `longest` pieces are read, at most `most` of them.
    """
    one, two = pairs.source.sizes(), pairs.target.sizes()
    short = np.flatnonzero((one > 0) & (two > 0) & (one <= longest) & (two <= longest))[:most]
    if not len(short):
        raise DataError(
            f"no sentence pair has both sides within {longest} pieces; expected some. "
            "Raise `longest`."
        )
    key, slot = _links(pairs, short, size)
    kinds, link = np.unique(key, return_inverse=True)
    target, source = kinds // size, kinds % size
    weight = np.full(len(kinds), 1.0)
    slots = int(slot.max()) + 1
    for _ in range(rounds):
        share = weight[link]
        share /= np.bincount(slot, share, slots)[slot]
        count = np.bincount(link, share, len(kinds))
        weight = count / np.bincount(target, count, size + 1)[target]
    keep = target < size  # the last "target" is no word, and explains what nothing else does
    return Lexical(target[keep], source[keep], weight[keep].astype(np.float32))


def _links(pairs: ParallelBags, chosen: Ints, size: int) -> tuple[Ints, Ints]:
    """List every (target or none, source) co-occurrence, and the source slot it competes for."""
    keys: list[Ints] = []
    slots: list[Ints] = []
    total = 0
    for begin in range(0, len(chosen), 20_000):
        batch = chosen[begin : begin + 20_000]
        s, s_at = pairs.source.take(batch)
        t, t_at = pairs.target.take(batch)
        m, n = np.diff(s_at, append=len(s)), np.diff(t_at, append=len(t)) + 1
        each = np.repeat(n, m)  # links of every source slot: its sentence's targets and none
        first = np.repeat(np.repeat(t_at, m), each)
        within = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
        last = within == np.repeat(each, each) - 1
        goal = np.where(last, size, t[np.minimum(first + within, len(t) - 1)])
        keys.append(goal * size + np.repeat(s, each))
        slots.append(np.repeat(np.arange(len(s)) + total, each))
        total += len(s)
    return np.concatenate(keys), np.concatenate(slots)


Dictionary = Mapping[int, Mapping[int, float]]


def as_dictionary(lexical: Lexical, rows: Sequence[int], *, least: float = 0.03) -> Dictionary:
    """Look words up by piece: each of the target's `rows` with the source pieces it may mean."""
    found: dict[int, dict[int, float]] = {row: {} for row in rows}
    kept = lexical.weight > least
    columns = (lexical.target[kept], lexical.source[kept], lexical.weight[kept])
    for target, source, weight in zip(*(column.tolist() for column in columns), strict=True):
        if target in found:
            found[target][source] = weight
    return {row: means for row, means in found.items() if means}


def link(
    target: Sequence[int], source: Sequence[int], words: Dictionary, *, least: float = 0.12
) -> list[tuple[int, int]]:
    """Say which piece of the target means which of the source: (position, position), one to one.

    >>> link([7, 9], [1, 2, 3], {7: {2: 0.8}, 9: {2: 0.3, 3: 0.2}})
    [(0, 1)]
    """
    found = []
    for position, piece in enumerate(target):
        means = words.get(piece)
        if means:
            weight, at = max((means.get(other, 0.0), at) for at, other in enumerate(source))
            if weight > least:
                found.append((weight, position, at))
    linked: dict[int, int] = {}
    for _, position, at in sorted(found, reverse=True):
        linked.setdefault(at, position)
    return [(position, at) for at, position in linked.items()]


def frozen_copy(student: Student) -> torch.nn.Module:
    """Keep the student as it is now, its embedding table included."""
    model = copy.deepcopy(student.model).eval().requires_grad_(False)
    return model.to(torch.bfloat16) if student.bf16 else model


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
    # Near by the rows of both languages, none with the same source word.
    rows = torch.from_numpy(table - table.mean(0))
    unit = torch.cat([normalize(rows[side], dim=1) for side in torch.from_numpy(pieces.T)], dim=1)
    return WordPairs(pieces, nearest(unit, torch.from_numpy(pieces[:, 1]), near), number)


def _is_word(piece: str, side: int) -> bool:
    """Whether a piece starts a word and is long enough, in WordPiece's or Unigram's writing."""
    return piece.removeprefix("▁").isalpha() and len(piece.strip("▁")) >= _SHORTEST[side]


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
class Swaps(Lesson):
    """Sentences with two variants of each: at the goals of their sources, and in their order.

    `rows` are those of `data` that take part, drawn by weight; long texts are left out.
    `model` is the student as it was, which reads the sources.
    """

    data: DistillationTexts
    rows: Ints
    words: Dictionary
    pairs: WordPairs
    model: torch.nn.Module
    alter: Alter

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Take the distance to the goals, and the order of near and of random pairs."""
        made = self._batch(rng)
        if len(made) < 2:  # nothing to distinguish
            return torch.zeros((), requires_grad=True)
        goal = embed_ids(_Reader(self.model), [source for _, source in made])
        ids = [self.alter(target, source, rng) for target, source in made]
        keys = np.arange(len(made), dtype=np.int64)
        return toward(embed_ids(student, ids), goal, keys, self.task, nested, rng)

    def _batch(self, rng: np.random.Generator) -> list[tuple[list[int], list[int]]]:
        rows = self.rows[pick_by(self.data.weight[self.rows], self.size, rng)]
        made: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
        sides = (side.lists(rows) for side in (self.data.target, self.data.source))
        for target, source in zip(*sides, strict=True):
            if max(len(target), len(source)) > _LONGEST:
                continue
            made[tuple(source)] = target, source
            for _ in range(_VARIANTS):
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
