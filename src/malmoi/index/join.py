"""All pairs of very many vectors above a cosine: none is missed, most cost a short product.

A cheap bound says what pairs of vectors are worth a full product. Vectors are rotated so that
their first coordinates, the head, hold most of their length. The product of two heads plus the
product of the lengths that are left over (the residuals) is never less than the product of the
vectors (Cauchy–Schwarz). `pairs_above` finds pairs with it and misses none; how long a head pays is
measured on a sample, since a short one is fast but lets too many pairs through. `Prefilter` stores
it in eight bits and finds the nearest rows.
"""

import contextlib
import importlib
import queue
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from ..runtime.session import usable_cores
from ..types import Floats
from .base import Rows
from .knn import Close

_FEW = 20_000  # below this, the full product is as fast
_SAMPLE = 16_384
_TRIED = 2048  # rows of the sample whose products are all made
_STEP = 16
_FULL = 12_000  # a full product of a pair costs as much as this many dimensions of a short one
_ROTATED = 65_536  # rows rotated at once
_ROWS, _COLUMNS = 512, 2048  # a block of scores: 4 MB, which fits into a processor's cache
_SPAN = 16 * _COLUMNS  # columns of a thread's task; what it finds must fit in memory
_PAIRS = 4096  # full products at once
_CROWD = 0.02  # from this share of a block on, its full product is faster as a whole
_THREADS = "malmoi-join"
# float32 products of unit vectors are right to less than this; a text's own copy must have 1.
ROUNDING = 2e-6
_SLACK = 1e-5  # the same for vectors that were rotated and put together from two parts
_Buffers = tuple[Floats, NDArray[np.bool_]]  # scores of a block, and which are high enough
WIDTH = 128  # columns of a Prefilter: the head, and the residual as the last one
LEAST = 1 << 14  # with fewer rows the full product is as fast
# The bound is the worst case. Seven tenths of it are enough for nearly all rows: of 2,166 mentions
# over KCD-9 99 % kept all of their 40 nearest names, and one name in 1,700 was lost, mostly one
# that was about the 40th.
_MARGIN = 0.7
_SHARE, _FEWEST = 0.006, 5  # how many rows pass: a share of all, and at least this many times k
_BLOCK = 2048  # rows; a block of products with 256 queries stays in the processor's cache
_BOUNDED = 4096  # rows of the sample that bounds are taken from
_FITTED = 1 << 14  # rows from which the axes are computed
_SPREAD = 5.0  # standard deviations that eight bits hold; what is cut off adds to the residual
_FILES = ("rows", "axes", "steps")


def pairs_above(vectors: Floats, *, least: float, seed: int = 0) -> Iterator[Close]:
    """Yield every pair of unit vectors (n, dim) whose cosine is `least` or more, once each.

    Left is before right. Pairs that end in a row come before those that begin with it, so that
    a caller who drops rows can do so on the way. Pairs below `least` by no more than rounding are
    given too.
    """
    heads = vectors if len(vectors) < _FEW else _heads(vectors, least, seed)
    join = _Join(vectors, heads, least)
    count = len(vectors)
    # Blocks of rows, each with the spans of columns that are not before it.
    tasks = [(row, at) for row in range(0, count, _ROWS) for at in range(row, count, _SPAN)]
    cores = usable_cores()
    with _one_blas_thread(), ThreadPoolExecutor(cores, _THREADS) as pool:
        futures = (pool.submit(join.span, row, at) for row, at in tasks)
        waiting = deque(islice(futures, cores + 1))
        try:
            while waiting:
                found = waiting.popleft().result()
                waiting.extend(islice(futures, 1))
                if len(found.left):
                    yield found
        finally:
            for future in waiting:
                future.cancel()


def _one_blas_thread() -> AbstractContextManager[object]:
    """Keep products from starting threads of their own, which wait for each other by spinning.

    It takes threadpoolctl, which comes with scikit-learn; without it all is a little slower.
    """
    try:
        return importlib.import_module("threadpoolctl").threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
    except ImportError:
        return contextlib.nullcontext()


class _Join:
    """Compares blocks of rows with spans of columns, in as many threads as call it."""

    def __init__(self, vectors: Floats, heads: Floats, least: float) -> None:
        self._vectors, self._heads = vectors, heads
        self._whole = heads is vectors
        self._least = np.float32(least - ROUNDING)
        self._enough = self._least if self._whole else np.float32(least - _SLACK)
        # Memory for a block of scores is used again and again: fresh memory is slow.
        self._buffers: queue.SimpleQueue[_Buffers] = queue.SimpleQueue()

    def span(self, start: int, at: int) -> Close:
        """Find the close pairs of a block of rows with a span of columns, by rising columns."""
        try:
            buffers = self._buffers.get_nowait()
        except queue.Empty:
            size = _ROWS * _COLUMNS
            buffers = np.empty(size, np.float32), np.empty(size, np.bool_)
        end = min(at + _SPAN, len(self._heads))
        found = [self._block(start, here, buffers) for here in range(at, end, _COLUMNS)]
        self._buffers.put(buffers)
        lefts, rights, scores = zip(*found, strict=True)
        left, right = np.concatenate(lefts), np.concatenate(rights)
        order = np.argsort(right, kind="stable")
        return Close(left[order], right[order], np.concatenate(scores)[order])

    def _block(self, start: int, at: int, buffers: _Buffers) -> tuple[Rows, Rows, Floats]:
        rows, columns = self._heads[start : start + _ROWS], self._heads[at : at + _COLUMNS]
        size = len(rows) * len(columns)
        flat, mask = buffers[0][:size], buffers[1][:size]
        scores = flat.reshape(len(rows), len(columns))
        np.dot(rows, columns.T, out=scores)
        found = np.flatnonzero(np.greater_equal(flat, self._enough, out=mask))
        left, right = np.divmod(found, len(columns))
        if at < start + _ROWS:  # the block holds the diagonal
            before = left + start < right + at
            left, right, found = left[before], right[before], found[before]
        if self._whole:
            return left + start, right + at, flat[found]
        exact = self._exact(start, at, left, right, scores)
        kept = exact >= self._least
        return left[kept] + start, right[kept] + at, exact[kept]

    def _exact(self, start: int, at: int, left: Rows, right: Rows, buffer: Floats) -> Floats:
        """The cosines of pairs of a block, counted from where the block begins."""
        rows, columns = self._vectors[start : start + _ROWS], self._vectors[at : at + _COLUMNS]
        if len(left) > _CROWD * buffer.size:
            crowd: Floats = np.dot(rows, columns.T, out=buffer)[left, right]
            return crowd
        scores = np.empty(len(left), dtype=np.float32)
        for i in range(0, len(left), _PAIRS):
            own = slice(i, i + _PAIRS)
            np.einsum("nd,nd->n", rows[left[own]], columns[right[own]], out=scores[own])
        return scores


def _heads(vectors: Floats, least: float, seed: int) -> Floats:
    """Give each vector's head and residual (n, head + 1), or the vectors where no head pays."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(vectors), size=min(_SAMPLE, len(vectors)), replace=False))
    sample = np.ascontiguousarray(vectors[chosen])
    axes, _ = principal_axes(sample)
    head = _head_length(sample[:: max(1, len(sample) // _TRIED)] @ axes, least)
    if head == vectors.shape[1]:
        return vectors
    heads = np.empty((len(vectors), head + 1), dtype=np.float32)
    for at in range(0, len(vectors), _ROTATED):
        part = vectors[at : at + _ROTATED]
        squares = np.square(part).sum(axis=1)
        heads[at : at + _ROTATED] = with_residual(part @ axes[:, :head], squares)
    return heads


def _head_length(rotated: Floats, least: float) -> int:
    """Find the cheapest number of dimensions for a join: all of them, where no head pays."""
    dimension = int(rotated.shape[1])
    costs = {dimension: float(dimension)}
    squares = np.square(rotated).sum(axis=1)
    for head in range(_STEP, dimension, _STEP):
        heads = with_residual(rotated[:, :head], squares)
        passing = float((heads @ heads.T >= least - _SLACK).mean()) - 1 / len(rotated)  # itself
        costs[head] = head + 1 + _FULL * passing
    return min(costs, key=lambda head: (costs[head], head))


def principal_axes(sample: Floats) -> tuple[Floats, Floats]:
    """Give the axes (dim, dim) along which vectors (n, dim) are longest, and their mean squares."""
    squares, axes = np.linalg.eigh(sample.T @ sample / np.float32(len(sample)))
    return np.ascontiguousarray(axes[:, ::-1]), squares[::-1]


def with_residual(heads: Floats, squares: Floats | float) -> Floats:
    """Append to heads (n, head) the length they lack of vectors with these squared lengths."""
    residual = np.sqrt(np.maximum(squares - np.square(heads).sum(axis=1), 0))
    return np.concatenate([heads, residual[:, None]], axis=1)  # (n, head + 1)


@dataclass(frozen=True)
class Prefilter:
    """Heads and residuals of many vectors, eight bits a value: a third of their size."""

    rows: NDArray[np.int8]  # (n, WIDTH)
    axes: Floats  # (dim, WIDTH - 1), orthonormal
    steps: Floats  # (WIDTH,), what one unit of a column is worth

    @classmethod
    def build(cls, codes: NDArray[np.int8]) -> "Prefilter":
        """Project int8 vectors (n, dim), a block at a time."""
        axes, squares = principal_axes(codes[:: max(1, len(codes) // _FITTED)].astype(np.float32))
        axes = np.ascontiguousarray(axes[:, : WIDTH - 1])
        deviations = np.sqrt(np.maximum(squares[: WIDTH - 1], 1e-6))
        longest = np.float32(np.sqrt(codes.shape[1]) * 127)
        steps = np.append(deviations * _SPREAD / 127, longest / 127).astype(np.float32)
        rows = np.empty((len(codes), WIDTH), np.int8)
        for start in range(0, len(codes), _BLOCK):
            block = codes[start : start + _BLOCK].astype(np.float32)
            heads = block @ axes
            cut = np.clip(np.rint(heads / steps[:-1]), -127, 127)
            lost = np.square(heads - cut * steps[:-1]).sum(axis=1)
            residuals = with_residual(heads, np.square(block).sum(axis=1) + lost)[:, -1]
            rows[start : start + _BLOCK, :-1] = cut
            rows[start : start + _BLOCK, -1] = np.rint(residuals / steps[-1])
        return cls(rows, axes, steps)

    @classmethod
    def open(cls, folder: Path) -> "Prefilter":
        """Map what `save` has written."""
        return cls(*(np.asarray(open_array(folder / f"{name}.npy")) for name in _FILES))

    def save(self, folder: Path) -> None:
        """Write the arrays as .npy files."""
        for name in _FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    def shortlists(self, queries: Floats, count: int) -> list[NDArray[np.int32]]:
        """Give for each unit vector (n, dim) the rows that may be among its `count` nearest."""
        heads = with_residual(queries @ self.axes, 1.0)
        heads[:, -1] *= _MARGIN
        heads *= self.steps
        least = self._least(heads, count)
        owners: list[NDArray[np.intp]] = []
        rows: list[NDArray[np.int32]] = []
        for start in range(0, len(self.rows), _BLOCK):
            block = self.rows[start : start + _BLOCK].astype(np.float32)
            found = np.flatnonzero(heads @ block.T > least)
            owner, row = np.divmod(found, len(block))
            owners.append(owner)
            rows.append((row + start).astype(np.int32))
        owned = np.concatenate(owners).astype(np.uint16)  # which is sorted by radix
        order = np.argsort(owned, kind="stable")
        ends = np.cumsum(np.bincount(owned, minlength=len(queries)))
        return np.split(np.concatenate(rows)[order], ends[:-1])

    def _least(self, heads: Floats, count: int) -> Floats:
        """Find from a sample the bounds that few rows exceed. Shape (n, 1)."""
        sample = self.rows[:: max(1, len(self.rows) // _BOUNDED)].astype(np.float32)
        wanted = max(_FEWEST * count, _SHARE * len(self.rows)) / len(self.rows)
        at = len(sample) - 1 - min(int(wanted * len(sample)), len(sample) - 1)
        return np.partition(heads @ sample.T, at, axis=1)[:, at : at + 1]
