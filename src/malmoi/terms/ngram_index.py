"""Character n-grams: how much of a mention's spelling a name shares, TF-IDF over hashed grams.

Hangul gives grams of two and three syllables across word borders, for spacing is free; Latin
words give grams of three and four letters within the word, and the word itself. Grams are hashed
into a fixed number of buckets, so that no vocabulary has to be kept or extended.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from ..types import Floats

Rows = NDArray[np.int32]

BUCKETS = 1 << 20
_RUN = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]+|[^ 가-힣ㄱ-ㅎㅏ-ㅣ]+")
# A gram that a twelfth of all names have tells little and costs most; it is looked up only when
# a mention has nothing rarer.
_COMMON = 12


def grams(text: str) -> list[int]:
    """Give the bucket of every gram of a normalised text, repeated as often as it occurs.

    >>> len(grams("폐렴")), len(grams("")), grams("폐렴") == grams("폐렴")
    (5, 0, True)
    """
    return [crc32(gram.encode()) % BUCKETS for gram in gram_texts(text)]


def gram_texts(text: str) -> list[str]:
    """Give the grams themselves.

    >>> gram_texts("폐렴 ct")
    ['^폐', '폐렴', '렴$', '^폐렴', '폐렴$', 'ct', '^ct', 'ct$', '^ct$']
    """
    found: list[str] = []
    for run in _RUN.findall(text):
        padded, korean = f"^{run}$", run[0] >= "ㄱ"
        if not korean:
            found.append(run)
        for size in (2, 3) if korean else (3, 4):
            found += [padded[i : i + size] for i in range(len(padded) - size + 1)]
    return found


def padded(text: str) -> str:
    """Give a normalised text so that it holds each of its grams.

    >>> padded("폐렴 ct")
    '^폐렴$^ct$'
    """
    return "".join(f"^{run}$" for run in _RUN.findall(text))


@dataclass(frozen=True)
class Counted:
    """A text's grams: the bucket of each, ascending, and how much it counts for its number."""

    buckets: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, text: str) -> "Counted":
        """Count the grams of a normalised text."""
        counts = Counter(grams(text))
        buckets = sorted(counts)
        found = np.array([counts[bucket] for bucket in buckets], np.int64)
        return cls(np.array(buckets, np.int64), 1 + np.log(found))


@dataclass(frozen=True)
class NgramIndex:
    """An inverted index: for each bucket, the names that have it and its weight in them."""

    count: int
    starts: NDArray[np.int64]  # (BUCKETS + 1,)
    rows: Rows  # (postings,)
    weights: NDArray[np.float16]  # (postings,), of unit length a name
    rarity: Floats  # (BUCKETS,)
    _kept: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    @classmethod
    def build(cls, texts: Iterable[str], *, rarity: Floats | None = None) -> "NgramIndex":
        """Index normalised names; `rarity` is that of another index, for names added to it."""
        buckets = [np.array(grams(text), np.int32) for text in texts]
        sizes = [len(own) for own in buckets]
        flat = np.concatenate(buckets) if buckets else np.empty(0, np.int32)
        rows = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        pairs, counts = np.unique(
            flat.astype(np.int64) * max(len(sizes), 1) + rows, return_counts=True
        )
        bucket, row = np.divmod(pairs, max(len(sizes), 1))
        if rarity is None:
            occurrences = np.bincount(bucket, minlength=BUCKETS)
            rarity = (np.log((1 + len(sizes)) / (1 + occurrences)) + 1).astype(np.float32)
        weights = (1 + np.log(counts)) * rarity[bucket]
        lengths = np.sqrt(np.bincount(row, weights=weights**2, minlength=len(sizes)))
        weights /= np.maximum(lengths[row], 1e-9)
        starts = np.zeros(BUCKETS + 1, np.int64)
        np.cumsum(np.bincount(bucket, minlength=BUCKETS), out=starts[1:])
        return cls(len(sizes), starts, row.astype(np.int32), weights.astype(np.float16), rarity)

    @classmethod
    def open(cls, folder: Path, count: int) -> "NgramIndex":
        """Map what `save` has written."""
        # Plain views of the maps, whose own indexing is slow.
        names = ("starts", "rows", "weights", "rarity")
        return cls(count, *(np.asarray(open_array(folder / f"grams-{name}.npy")) for name in names))

    def save(self, folder: Path) -> None:
        """Write the index as .npy files."""
        for name in ("starts", "rows", "weights", "rarity"):
            np.save(folder / f"grams-{name}.npy", getattr(self, name))

    def find(
        self, query: Counted, count: int, also: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Floats]:
        """Give the names whose grams are most like a text's and those of `also`, ascending.

        With them the cosine of each one's grams with the text's. Of equals the earlier is taken.
        """
        rows, values = self._postings(query)
        if not len(rows):
            also = _distinct(also)
            return also, np.zeros(len(also), np.float32)
        with self._sums() as sums:
            np.add.at(sums, rows, values)
            found = _distinct(np.concatenate([_best(sums, count), also]))
            scores = sums[found]
        return found, scores

    def _postings(self, query: Counted) -> tuple[Rows, Floats]:
        """Give a row and a product of weights for each gram of each name that has it."""
        weights = query.weights * self.rarity[query.buckets]
        length = float(np.sqrt((weights**2).sum()))
        begins, ends = self.starts[query.buckets], self.starts[query.buckets + 1]
        rare = ends - begins <= max(self.count // _COMMON, 64)
        if rare.any():
            begins, ends, weights = begins[rare], ends[rare], weights[rare]
        if not (ends - begins).any():
            return np.empty(0, np.int32), np.empty(0, np.float32)
        weights = (weights / length).astype(np.float32)
        spans = list(zip(begins.tolist(), ends.tolist(), strict=True))
        values = np.concatenate([self.weights[a:b] for a, b in spans]).astype(np.float32)
        values *= np.repeat(weights, ends - begins)
        return np.concatenate([self.rows[a:b] for a, b in spans]), values

    @contextmanager
    def _sums(self) -> Iterator[Floats]:
        """Lend a zero for every name; each thread has its own, for new ones cost as much again."""
        sums: Floats | None = self._kept.__dict__.pop("sums", None)
        if sums is None:
            sums = np.zeros(self.count, np.float32)
        yield sums
        sums.fill(0)  # not if an error came between: then the next finds none, and makes some
        self._kept.sums = sums


def _best(scores: Floats, count: int) -> NDArray[np.intp]:
    """Give the rows of the highest scores above zero, highest first; of equals the earlier row.

    >>> _best(np.array([0.1, 0.0, 0.9, 0.5], np.float32), 2).tolist()
    [2, 3]
    """
    highest = scores.max()
    for share in (0.15, 0.0):  # few names share much with a mention, so few are sorted
        found = np.flatnonzero(scores > highest * np.float32(share))
        if len(found) >= count:
            break
    if len(found) > count:
        cut = np.partition(scores[found], len(found) - count)[len(found) - count]
        found = found[scores[found] >= cut]
    return found[np.argsort(-scores[found], kind="stable")][:count]


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort rows and take each once; numpy's own way loads its masked arrays for that."""
    rows = np.sort(rows)
    return rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
