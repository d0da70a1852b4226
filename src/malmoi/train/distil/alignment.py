"""Start new pieces where their translations are: fit their rows on parallel text.

Before any transformer step, the IDF-weighted mean of a sentence's piece rows is to equal that of
its translation's (`align_rows`: old rows fixed and centred, Adam on an embedding bag, new rows
rescaled to the old norm). IBM model 1 says which pieces are translations of each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ...errors import DataError
from ...types import Floats
from .recipe import Align

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_BLOCK = 8192  # texts that are tokenized together


@dataclass(frozen=True)
class SentenceBags:
    """Sentences as bags of ids, laid end to end: bag i is ids[ends[i-1]:ends[i]]."""

    ids: Ints
    ends: Longs

    @classmethod
    def write(cls, path: Path, lists: Iterable[Sequence[int]]) -> "SentenceBags":
        """Write lists of ids into a file, one at a time, and map it."""
        sizes = []
        with path.open("wb") as file:
            for ids in lists:
                sizes.append(len(ids))
                file.write(np.asarray(ids, dtype=np.int32).tobytes())
        if not sum(sizes):
            raise DataError(
                f"{path} holds no sentence pairs; expected at least one. "
                "Check the parallel files and their columns."
            )
        ends = np.cumsum(sizes, dtype=np.int64)
        return cls(np.memmap(path, dtype=np.int32, mode="r"), ends)

    def __len__(self) -> int:
        """Count the bags."""
        return len(self.ends)

    def take(self, rows: Longs) -> tuple[Longs, Longs]:
        """Give the ids of the chosen bags end to end, and where each starts."""
        sizes = self.sizes_at(rows)
        starts = self.ends[rows] - sizes
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        at = np.arange(int(sizes.sum())) + np.repeat(starts - offsets, sizes)
        return self.ids[at].astype(np.int64), offsets.astype(np.int64)

    def sizes(self) -> Longs:
        """Say how many ids each bag holds."""
        return np.diff(self.ends, prepend=0)

    def sizes_at(self, rows: Longs) -> Longs:
        """Say how many ids each of the chosen bags holds."""
        return self.ends[rows] - np.where(rows > 0, self.ends[rows - 1], 0)


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


def idf(bags: SentenceBags, size: int) -> Floats:
    """Weigh each id by log(N / sentences that hold it), shape (size,); unseen ids get the most."""
    owner = np.repeat(np.arange(len(bags)), bags.sizes())
    ids = np.asarray(bags.ids, dtype=np.int64)
    seen = np.unique(owner * size + ids) % size
    frequency = np.bincount(seen, minlength=size)
    return np.log((len(bags) + 1) / (frequency + 1)).astype(np.float32)


def align_rows(
    table: Floats,
    rows: Sequence[int],
    pairs: ParallelBags,
    config: Align | None = None,
    *,
    seed: int = 0,
) -> Floats:
    """Fit the new rows on the pairs and give the whole table back, old rows untouched.

    `table` is (size, dim) with `rows` to be fitted, from the centre on. A row whose piece the
    target side never shows keeps its old value.
    """
    config = config or Align()
    fit = _Fit.prepare(table, rows, pairs)
    weight = torch.zeros(len(rows), table.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=config.learning_rate, betas=(0.9, 0.99))
    steps = max(1, round(config.epochs * len(pairs.source) / config.batch))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch = rng.integers(0, len(pairs.source), config.batch)
        loss = fit.loss(weight, pairs, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return fit.write(table, weight.detach().numpy(), pairs.target)


@dataclass(frozen=True)
class _Fit:
    """What stays fixed while rows are fitted: the old rows in units of their own mean norm."""

    old: torch.Tensor  # (size, dim), new rows zero
    new: torch.Tensor  # (n,) row numbers
    position: torch.Tensor  # (size,) row number → position in `new`, or n for old rows
    source_idf: torch.Tensor
    target_idf: torch.Tensor
    centre: Floats
    norm: float

    @classmethod
    def prepare(cls, table: Floats, rows: Sequence[int], pairs: ParallelBags) -> "_Fit":
        new = np.asarray(rows, dtype=np.int64)
        is_old = np.ones(len(table), dtype=bool)
        is_old[new] = False
        centre = table[is_old].mean(0)
        norm = float(np.linalg.norm(table[is_old] - centre, axis=1).mean())
        old = np.where(is_old[:, None], (table - centre) / norm, 0).astype(np.float32)
        position = np.full(len(table), len(new), dtype=np.int64)
        position[new] = np.arange(len(new))
        return cls(
            torch.from_numpy(old), torch.from_numpy(new), torch.from_numpy(position),
            torch.from_numpy(idf(pairs.source, len(table))),
            torch.from_numpy(idf(pairs.target, len(table))), centre, norm,
        )  # fmt: skip

    def loss(self, weight: torch.Tensor, pairs: ParallelBags, batch: Longs) -> torch.Tensor:
        with torch.no_grad():
            goal = _mean(self.old, *_weighted(pairs.source, batch, self.source_idf))
            ids, offsets, share = _weighted(pairs.target, batch, self.target_idf)
            known = _mean(self.old, ids, offsets, share)
        padded = torch.cat([weight, torch.zeros(1, weight.shape[1])])
        fitted = _mean(padded, self.position[ids], offsets, share)
        return (known + fitted - goal).square().sum(1).mean()

    def write(self, table: Floats, weight: Floats, target: SentenceBags) -> Floats:
        seen = np.zeros(len(table), dtype=bool)
        seen[np.unique(np.asarray(target.ids))] = True
        new = self.new.numpy()
        length = np.linalg.norm(weight, axis=1, keepdims=True)
        scaled = self.centre + weight / np.maximum(length, 1e-6) * self.norm
        out = table.copy()
        use = seen[new] & (length[:, 0] > 1e-6)
        out[new[use]] = scaled[use]
        return out


def _weighted(
    bags: SentenceBags, batch: Longs, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give ids, offsets and each id's share of its sentence (shares of a sentence sum to 1)."""
    flat, starts = bags.take(batch)
    ids, offsets = torch.from_numpy(flat), torch.from_numpy(starts)
    sizes = np.diff(starts, append=len(flat))
    owner = torch.from_numpy(np.repeat(np.arange(len(batch)), sizes))
    heavy = weights[ids]
    total = torch.zeros(len(batch)).index_add_(0, owner, heavy)
    return ids, offsets, heavy / total.clamp_min(1e-6)[owner]


def _mean(
    table: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(
        ids, table, offsets, mode="sum", per_sample_weights=share
    )  # (batch, dim)


@dataclass(frozen=True)
class Lexical:
    """IBM model 1's t(source | target) as a sparse list: pair k is (target, source) with weight."""

    target: Longs
    source: Longs
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


def _links(pairs: ParallelBags, chosen: Longs, size: int) -> tuple[Longs, Longs]:
    """List every (target or none, source) co-occurrence, and the source slot it competes for."""
    keys: list[Longs] = []
    slots: list[Longs] = []
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
