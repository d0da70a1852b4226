"""Padding, and batches of texts of similar length, the same ones for the same seed and epoch.

An epoch's batches are a function of (seed, epoch) and nothing else, so a run that was stopped
finds its position again by a number.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..types import Ints
from .sampler import BatchClusters
from .schema import Schedule


def pad(ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Lay lists of ids side by side: ids and mask, both (n, longest), int64."""
    length = max(map(len, ids))
    batch = np.zeros((len(ids), length), dtype=np.int64)
    mask = np.zeros((len(ids), length), dtype=np.int64)
    for row, each in enumerate(ids):
        batch[row, : len(each)] = each
        mask[row, : len(each)] = 1
    return torch.from_numpy(batch), torch.from_numpy(mask)


def in_order(found: Sequence[Tensor], rows: Sequence[Ints]) -> Tensor:
    """Join what batches gave, in the order of the rows that they held; float32."""
    order = np.empty(sum(map(len, rows)), dtype=np.int64)
    order[np.concatenate(rows)] = np.arange(len(order))
    return torch.cat(list(found)).float()[torch.from_numpy(order).to(found[0].device)]


def pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average the states that are not padding: (n, length, dim) → (n, dim), float32."""
    share = mask.float() / mask.sum(1, keepdim=True)
    return torch.einsum("nld,nl->nd", hidden.float(), share)


def token_batches(
    lengths: Ints, budget: int, rng: np.random.Generator, *, window: int = 40
) -> Iterator[Ints]:
    """Cut a shuffled order into batches of at most `budget` padded tokens of similar length.

    Rows are sorted by length only within `window` batches' worth, so that batches stay mixed.
    """
    order = rng.permutation(len(lengths))
    span = max(1, window * budget // max(1, math.ceil(float(lengths.mean()))))
    for begin in range(0, len(order), span):
        part = order[begin : begin + span]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches, first = [], 0
        for end in range(1, len(part) + 1):
            if end == len(part) or (end - first + 1) * lengths[part[end]] > budget:
                batches.append(part[first:end])
                first = end
        yield from (batches[i] for i in rng.permutation(len(batches)))


# Rows are sorted by length within this many batches only: enough that a batch's texts are of like
# length, few enough that which rows meet in a batch stays a matter of chance.
_WINDOW = 50


@dataclass(frozen=True)
class Step:
    """One step's work: the rows of one data set, for all processes together."""

    data: int
    rows: Ints


@dataclass(frozen=True)
class Sizes:
    """How large a batch is: `size` rows, or rows of `tokens` padded tokens when that is not 0.

    A rest of fewer than `least` rows joins the batch before it.
    """

    size: int
    tokens: int = 0
    least: int = 2

    @classmethod
    def of(cls, schedule: Schedule, world: int, *, least: int = 2) -> "Sizes":
        """Give the sizes of a step of `world` processes; each of them needs a row."""
        tokens = schedule.batch_tokens * world
        return cls(schedule.batch_size * world, tokens, max(least, world))


def plan_epoch(
    lengths: Sequence[Ints],
    weights: Sequence[float],
    texts: Sequence[NDArray[np.int32] | None],
    sizes: Sizes,
    *,
    seed: int,
    epoch: int,
    clusters: Sequence[BatchClusters | None] | None = None,
) -> list[Step]:
    """Plan the batches of one epoch over several data sets, mixed at random.

    `lengths` are the tokens of each set's rows; `texts` the numbers of their texts where no text
    may occur twice in a batch, else None; `clusters` say which rows are to meet, where it matters.
    """
    steps = []
    together = clusters or [None] * len(lengths)
    for data, (length, weight, numbers) in enumerate(zip(lengths, weights, texts, strict=True)):
        rng = np.random.default_rng([seed, epoch, data])
        rows = _draw(len(length), weight, rng)
        cluster = together[data]
        if cluster is None:
            batches = _batches(rows, length, sizes)
        else:
            batches = cluster.batches(rows, length, sizes.size, sizes.tokens, rng)
        if numbers is not None:
            batches = _without_twins(batches, numbers)
        steps += [Step(data, batch) for batch in batches]
    order = np.random.default_rng([seed, epoch, len(lengths)]).permutation(len(steps))
    return [steps[i] for i in order]


def _draw(count: int, weight: float, rng: np.random.Generator) -> Ints:
    """Shuffle the rows; a weight of 2.5 gives each of them twice and half of them once more."""
    whole, part = int(weight), weight - int(weight)
    parts = [rng.permutation(count) for _ in range(whole)]
    parts.append(rng.permutation(count)[: round(part * count)])
    return np.concatenate(parts)


def _batches(rows: Ints, lengths: Ints, sizes: Sizes) -> list[Ints]:
    size = sizes.size
    if sizes.tokens:
        mean = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
        size = max(int(sizes.tokens / mean), 1)
    window = size * _WINDOW
    batches: list[Ints] = []
    for start in range(0, len(rows), window):
        part = rows[start : start + window]
        # Stable, and longest first: the largest batch comes first, so memory runs out early.
        part = part[np.argsort(-lengths[part], kind="stable")]
        batches += _cut(part, lengths, sizes)
    if len(batches) > 1 and len(batches[-1]) < sizes.least:
        rest = batches.pop()
        batches[-1] = np.concatenate([batches[-1], rest])
    return batches


def _cut(rows: Ints, lengths: Ints, sizes: Sizes) -> list[Ints]:
    """Cut rows, longest first, into batches."""
    batches, start = [], 0
    while start < len(rows):
        longest = max(int(lengths[rows[start]]), 1)
        size = max(sizes.tokens // longest, sizes.least) if sizes.tokens else sizes.size
        batches.append(rows[start : start + size])
        start += size
    return batches


def _without_twins(batches: list[Ints], texts: NDArray[np.int32]) -> list[Ints]:
    """Move a row whose text is already in its batch to the next batch that has room for it.

    What finds no room within the epoch is left out of it; the next epoch draws again.
    """
    kept, waiting = [], np.empty(0, dtype=np.int64)
    for batch in batches:
        seen: set[int] = set()
        chosen: list[int] = []
        left: list[int] = []
        for row in np.concatenate([waiting, batch]):
            numbers = set(texts[row].tolist())
            if len(chosen) < len(batch) and not numbers & seen:
                chosen.append(row)
                seen |= numbers
            else:
                left.append(row)
        kept.append(np.array(chosen, dtype=np.int64))
        waiting = np.array(left, dtype=np.int64)
    return [batch for batch in kept if len(batch) > 1]
