"""All pairs of very many vectors above a cosine: none is missed, most cost a short product.

A full product is made only of pairs whose bound (see `prefilter`) is high enough. How long a head
pays is measured on a sample: a short one is fast but lets too many pairs through.
"""

import contextlib
import importlib
import queue
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..runtime.session import usable_cores
from ..types import Floats
from .knn import Close, Rows
from .prefilter import principal_axes, with_residual

_FEW = 20_000  # below this, the full product is as fast
_SAMPLE = 16_384
_TRIED = 2048  # rows of the sample whose products are all made
_STEP = 16
_FULL = 12_000  # a full product of a pair costs as much as so many dimensions of a short one
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
