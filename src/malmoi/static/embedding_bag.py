"""Bags of tokens: the sum of a table's rows for every text, without a loop over texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..types import Floats

# Longer bags are summed in parts of this size first. Steps go by position in a bag, so one long
# text among short ones would cost a step for each of its tokens.
_PART = 64


@dataclass(frozen=True)
class EmbeddingBags:
    """The tokens of several texts, one text after the other."""

    ids: NDArray[Any]  # (tokens,) integers, rows of a table
    counts: NDArray[np.int64]  # (n,) how many of them each text has

    def split(self, parts: int) -> list["EmbeddingBags"]:
        """Cut into parts of nearly as many texts each.

        >>> bags = EmbeddingBags(np.arange(4), np.array([1, 2, 1]))
        >>> [part.ids.tolist() for part in bags.split(2)]
        [[0, 1, 2], [3]]
        """
        counts = np.array_split(self.counts, parts)
        ends = np.cumsum([int(part.sum()) for part in counts])[:-1]
        return [EmbeddingBags(*pair) for pair in zip(np.split(self.ids, ends), counts, strict=True)]


def sum_rows(table: Floats, bags: EmbeddingBags) -> Floats:
    """Add up the rows of each bag; (n, dim), zeros for an empty bag.

    >>> table = np.array([[1, 0], [0, 1], [5, 5]], dtype=np.float32)
    >>> sum_rows(table, EmbeddingBags(np.array([0, 1, 1, 2]), np.array([3, 0, 1]))).tolist()
    [[1.0, 2.0], [0.0, 0.0], [5.0, 5.0]]
    """
    if len(bags.counts) and int(bags.counts.max()) > _PART:
        return _sum_in_parts(table, bags)
    starts = np.cumsum(bags.counts) - bags.counts
    order = np.argsort(-bags.counts, kind="stable")  # the longest first
    starts, counts = starts[order], bags.counts[order]
    sums = np.zeros((len(counts), table.shape[1]), dtype=np.float32)
    for position in range(int(counts[0]) if len(counts) else 0):
        alive = int(np.searchsorted(-counts, -position))  # bags with a token at this position
        # np.take with a mode does not buffer, which indexing with brackets does.
        sums[:alive] += np.take(table, bags.ids[starts[:alive] + position], axis=0, mode="clip")
    unsorted = np.empty_like(sums)
    unsorted[order] = sums
    return unsorted


def _sum_in_parts(table: Floats, bags: EmbeddingBags) -> Floats:
    """Split bags into parts of bounded size, sum these, then sum the sums."""
    parts = np.maximum(-(-bags.counts // _PART), 1)  # (n,) parts of each bag
    counts = np.full(int(parts.sum()), _PART, dtype=np.int64)
    counts[np.cumsum(parts) - 1] = bags.counts - (parts - 1) * _PART  # the last one is shorter
    sums = sum_rows(table, EmbeddingBags(bags.ids, counts))
    return sum_rows(sums, EmbeddingBags(np.arange(len(sums)), parts))
