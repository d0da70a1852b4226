"""The default engine: a first pass over small codes, then exact scores for what it proposes."""

import threading

import numpy as np

from .base import Index
from .codes import Codes, Distances, Planes, count_bits
from .nearest import Floats
from .table import Growing, Mask, Positions, Table

# How many rows the first pass proposes: a hundred for each that is wanted, and a share of all,
# since the larger the crowd, the more rows come between. Recall is in docs/results.md.
_FOR_EACH = 100
_SHARE = 250
_SAMPLE = 16_384
_BLOCK = 4096  # rows turned at once: 6 MB, which need not be asked of the system anew
_FAR = np.iinfo(np.uint16).max


class FlatIndex(Index):
    """Every row's code is compared with the query's; the nearest are scored exactly.

    Codes are made when they are first needed, so that a small index never has any.
    """

    engine = "flat"

    def __init__(
        self, table: Table, *, codes: Codes | None = None, planes: Planes | None = None
    ) -> None:
        super().__init__(table)
        self.codes = codes
        self._base = planes
        self._grown: Growing | None = None
        self._lock = threading.Lock()

    def shared_with(self, other: "FlatIndex") -> None:
        """Use another index's codes, which are of the same table."""
        self.codes, self._base, self._grown = other.codes, other._base, other._grown

    def proposals(self, k: int) -> int:
        """How many rows are scored exactly when `k` are wanted."""
        return max(_FOR_EACH * k, len(self.table) // _SHARE)

    def planes(self) -> list[Planes]:
        """The codes of all rows, made where they are missing."""
        with self._lock:
            codes = self.codes = self.codes or Codes.of(self._sample())
            base = self._base if self._base is not None else np.empty((0, 0), dtype=np.uint64)
            grown = self._grown = self._grown or Growing((_words(codes), 0), np.uint64, axis=1)
            for _, block in self.table.blocks(_BLOCK, start=base.shape[1] + grown.count):
                grown.append(codes.planes(block * np.float32(self.table.factor)))
            return [part for part in (base, grown.filled) if part.size]

    def _propose(self, query: Floats, k: int, allowed: Mask | None) -> Positions:
        planes = self.planes()
        assert self.codes is not None  # planes() made them
        code = self.codes.planes(query[None])  # (words, 1)
        distances = np.empty(sum(part.shape[1] for part in planes), dtype=np.uint16)
        start = 0
        for part in planes:
            count_bits(part, code, distances[start : start + part.shape[1]])
            start += part.shape[1]
        if allowed is not None:
            distances[~allowed] = _FAR
        elif len(self.table) > len(self):
            distances[~self.table.live] = _FAR
        return _nearest(distances, self.proposals(k))

    def _sample(self) -> Floats:
        """Vectors from all over the table."""
        step = max(1, -(-len(self.table) // _SAMPLE))
        positions = np.arange(0, len(self.table), step)
        return self.table.take(positions) * np.float32(self.table.factor)


def _words(codes: Codes) -> int:
    return int(codes.frame.shape[1]) // 64


def _nearest(distances: Distances, count: int) -> Positions:
    """Positions of the `count` smallest distances, and of most that tie with the last."""
    if count >= len(distances):
        return np.arange(len(distances))
    limit = np.partition(distances, count - 1)[count - 1]
    found = np.flatnonzero(distances <= limit)
    # A crowd of copies may tie; then whoever is strictly nearer comes first.
    if len(found) > 2 * count:
        nearer = np.flatnonzero(distances < limit)
        ties = np.flatnonzero(distances == limit)
        found = np.concatenate([nearer, ties[: 2 * count - len(nearer)]])
    return found
