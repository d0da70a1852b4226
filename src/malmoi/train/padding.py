"""Lists of ids side by side: padding, its mean left out, batches of like length."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Longs = NDArray[np.int64]


def pad(ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Lay lists of ids side by side: ids and mask, both (n, longest), int64."""
    length = max(map(len, ids))
    batch = np.zeros((len(ids), length), dtype=np.int64)
    mask = np.zeros((len(ids), length), dtype=np.int64)
    for row, each in enumerate(ids):
        batch[row, : len(each)] = each
        mask[row, : len(each)] = 1
    return torch.from_numpy(batch), torch.from_numpy(mask)


def pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average the states that are not padding: (n, length, dim) → (n, dim), float32."""
    share = mask.float() / mask.sum(1, keepdim=True)
    return torch.einsum("nld,nl->nd", hidden.float(), share)


def token_batches(
    lengths: Longs, budget: int, rng: np.random.Generator, *, window: int = 40
) -> Iterator[Longs]:
    """Cut a shuffled order into batches of at most `budget` padded tokens, like with like length.

    Rows are sorted by length only within `window` batches' worth, so that batches stay mixed.
    """
    order = rng.permutation(len(lengths))
    span = max(1, window * budget // max(1, math.ceil(float(lengths.mean()))))
    for begin in range(0, len(order), span):
        part = order[begin : begin + span]
        part = part[np.argsort(lengths[part], kind="stable")]
        yield from _shuffled(list(_cut(part, lengths, budget)), rng)


def _cut(part: Longs, lengths: Longs, budget: int) -> Iterator[Longs]:
    begin = 0
    for end in range(1, len(part) + 1):
        full = end == len(part) or (end - begin + 1) * lengths[part[end]] > budget
        if full:
            yield part[begin:end]
            begin = end


def _shuffled(items: list[Longs], rng: np.random.Generator) -> Iterable[Longs]:
    return (items[i] for i in rng.permutation(len(items)))
