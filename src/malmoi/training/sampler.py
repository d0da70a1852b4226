"""Batches for names with concepts: names of a concept together with those it is confused with.

A loss that mines inside the batch learns from what is there. Drawn at random, a batch of
fifty thousand concepts has hardly a pair that could be confused; so a concept comes with others
that it is confused with: sibling codes, those that its exclusions name, mined neighbours.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..types import Ints


@dataclass(frozen=True)
class BatchClusters:
    """What belongs together and what must be kept apart in a batch, for rows of two names.

    `labels` (n,) say which rows are the same in meaning. `concepts` (n,) are the codes they
    belong to: where a row is a meaning of its own, two rows of one code are neither the same
    nor opposites and never meet. `names` (n, 2) are numbers of the names with case and spacing
    folded: under two labels, a name must not meet itself. `confused_with` lists for each concept
    the others it is confused with. `together` rows of a concept and of up to `neighbours` of these
    come at once.
    """

    labels: Ints
    concepts: Ints
    names: Ints
    confused_with: Sequence[Sequence[int]]
    together: int = 2
    neighbours: int = 2

    def batches(
        self, rows: Ints, lengths: Ints, size: int, tokens: int, rng: np.random.Generator
    ) -> list[Ints]:
        """Cut rows, given in the order they were drawn, into batches; each is taken once.

        A row that clashes with its batch waits for the next. What finds no room within the epoch
        is left out of it.
        """
        queue = _Queue(self, rows, rng)
        made: list[Ints] = []
        waiting: list[int] = []
        batch = _OpenBatch(self, lengths, size, tokens)
        for position in range(len(rows)):
            if queue.taken[position]:
                continue
            for candidate in queue.cluster(position):
                if batch.takes(int(rows[candidate])):
                    batch.add(int(rows[candidate]))
                    queue.taken[candidate] = True
            if not queue.taken[position]:
                queue.taken[position] = True
                waiting.append(int(rows[position]))
            if batch.full:
                made.append(batch.rows())
                batch = _OpenBatch(self, lengths, size, tokens)
                waiting = [row for row in waiting if not batch.add_if(row)]
        made.append(batch.rows())
        return [batch for batch in made if len(batch) > 1]


class _Queue:
    """The rows that are still to be taken, found by their concept."""

    def __init__(self, clusters: BatchClusters, rows: Ints, rng: np.random.Generator) -> None:
        self.clusters, self.rng = clusters, rng
        self.keys = clusters.concepts[rows].tolist()
        self.taken = np.zeros(len(rows), dtype=bool)
        self.positions: dict[int, deque[int]] = defaultdict(deque)
        for position, key in enumerate(self.keys):
            self.positions[key].append(position)

    def cluster(self, position: int) -> Iterator[int]:
        """Yield the position itself, others of its concept, then some of those confused with it."""
        key = self.keys[position]
        yield position
        yield from self._of(key, self.clusters.together - 1, but=position)
        confused_with = [one for one in self.clusters.confused_with[key] if self._remaining(one)]
        for i in self.rng.permutation(len(confused_with))[: self.clusters.neighbours]:
            yield from self._of(confused_with[i], self.clusters.together)

    def _remaining(self, key: int) -> bool:
        positions = self.positions.get(key)
        while positions and self.taken[positions[0]]:
            positions.popleft()
        return bool(positions)

    def _of(self, key: int, count: int, but: int = -1) -> list[int]:
        if not self._remaining(key):
            return []
        found: list[int] = []
        for position in self.positions[key]:
            if len(found) >= count:
                break
            if not self.taken[position] and position != but:
                found.append(position)
        return found


@dataclass
class _OpenBatch:
    clusters: BatchClusters
    lengths: Ints
    size: int
    tokens: int
    chosen: list[int] = field(default_factory=list)
    longest: int = 1
    full: bool = False
    labels: dict[tuple[str, int], int] = field(default_factory=dict)

    def takes(self, row: int) -> bool:
        """Whether there is room, and nothing of the row is here with another meaning."""
        if self.full:
            return False
        label = self.clusters.labels[row]
        return all(self.labels.get(key, label) == label for key in self._keys(row))

    def add(self, row: int) -> None:
        """Take a row in; the last one that fits makes the batch full."""
        self.chosen.append(row)
        self.longest = max(self.longest, int(self.lengths[row]))
        label = int(self.clusters.labels[row])
        self.labels |= dict.fromkeys(self._keys(row), label)
        most = max(self.tokens // self.longest, 2) if self.tokens else self.size
        self.full = len(self.chosen) >= most

    def add_if(self, row: int) -> bool:
        """Take a row in when it can be taken, and say so."""
        takes = self.takes(row)
        if takes:
            self.add(row)
        return takes

    def rows(self) -> Ints:
        return np.array(self.chosen, dtype=np.int64)

    def _keys(self, row: int) -> list[tuple[str, int]]:
        names = [("name", int(name)) for name in self.clusters.names[row]]
        return [("concept", int(self.clusters.concepts[row])), *names]
