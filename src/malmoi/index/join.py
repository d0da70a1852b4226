"""All pairs above a cosine, among very many vectors: none missed, most looked at briefly.

Vectors are turned so that their first coordinates hold most of their length. The product of the
heads, plus the product of what is left of their lengths, is never less than the cosine (Cauchy
and Schwarz), so the full product is needed only for the few pairs whose short one is enough. How
long a head pays is found out on a sample: a short one is quick but lets too many through.
"""

import contextlib
import importlib
import queue
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..runtime.session import usable_cores
from ..types import Floats
from .knn import Close

_FEW = 20_000  # below this, the full product is as fast
_SAMPLE = 16_384
_TRIED = 2048  # rows of the sample whose products are all made
_STEP = 16
_FULL = 12_000  # a full product of a pair costs as much as so many dimensions of a short one
_TURNED = 65_536  # rows turned at once
_ROWS, _COLUMNS = 512, 2048  # a block of scores: 4 MB, which fast memory holds
_SPAN = 16 * _COLUMNS  # columns of a thread's task; what it finds must fit in memory
_PAIRS = 4096  # full products at once
_CROWD = 0.02  # from this share of a block on, its full product is quicker as a whole
_THREADS = "malmoi-close"
# float32 products of unit vectors are right to less than this; a text's own copy must have 1.
ROUNDING = 2e-6
_SLACK = 1e-5  # the same for vectors that were turned and put together from two parts


def pairs_above(vectors: Floats, *, least: float, seed: int = 0) -> Iterator[Close]:
    """Yield every pair of unit vectors (n, dim) whose cosine is `least` or more, once each.

    Left is before right. Pairs that end in a row come before those that begin with it, so that
    whoever drops rows can do so on the way. What rounding may have cost is let pass.
    """
    short = vectors if len(vectors) < _FEW else _shortened(vectors, least, seed)
    work = _Work(vectors, short, least)
    waiting: deque[Future[Close]] = deque()
    cores = usable_cores()
    with _one_thread_each(), ThreadPoolExecutor(cores, _THREADS) as pool:
        try:
            for start, at in _spans(len(vectors)):
                waiting.append(pool.submit(work.span, start, at))
                if len(waiting) > cores:
                    yield from _filled(waiting.popleft())
            while waiting:
                yield from _filled(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()


def _one_thread_each() -> AbstractContextManager[object]:
    """Keep products from starting threads of their own: those wait for each other by spinning.

    It takes threadpoolctl, which comes with scikit-learn; without it all is a little slower.
    """
    try:
        return importlib.import_module("threadpoolctl").threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
    except ImportError:
        return contextlib.nullcontext()


def _spans(count: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows, each with the spans of columns that are not before it."""
    for start in range(0, count, _ROWS):
        for at in range(start, count, _SPAN):
            yield start, at


def _filled(future: Future[Close]) -> Iterator[Close]:
    found = future.result()
    if len(found.left):
        yield found


@dataclass
class _Room:
    """Memory for a block of scores, used again and again: fresh memory is slow."""

    scores: Floats = field(default_factory=lambda: np.empty(_ROWS * _COLUMNS, dtype=np.float32))
    mask: NDArray[np.bool_] = field(default_factory=lambda: np.empty(_ROWS * _COLUMNS, np.bool_))


class _Work:
    """Compares blocks of rows with spans of columns, in as many threads as call it."""

    def __init__(self, vectors: Floats, short: Floats, least: float) -> None:
        self._vectors, self._short = vectors, short
        self._whole = short is vectors
        self._least = np.float32(least - ROUNDING)
        self._enough = self._least if self._whole else np.float32(least - _SLACK)
        self._rooms: queue.SimpleQueue[_Room] = queue.SimpleQueue()

    def span(self, start: int, at: int) -> Close:
        """Find the close pairs of a block of rows with a span of columns, by rising columns."""
        try:
            room = self._rooms.get_nowait()
        except queue.Empty:
            room = _Room()
        end = min(at + _SPAN, len(self._short))
        found = [self._block(start, here, room) for here in range(at, end, _COLUMNS)]
        self._rooms.put(room)
        lefts, rights, scores = zip(*found, strict=True)
        left, right = np.concatenate(lefts), np.concatenate(rights)
        order = np.argsort(right, kind="stable")
        return Close(left[order], right[order], np.concatenate(scores)[order])

    def _block(
        self, start: int, at: int, room: _Room
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        rows, columns = self._short[start : start + _ROWS], self._short[at : at + _COLUMNS]
        size = len(rows) * len(columns)
        scores = room.scores[:size].reshape(len(rows), len(columns))
        np.dot(rows, columns.T, out=scores)
        np.greater_equal(room.scores[:size], self._enough, out=room.mask[:size])
        found = np.flatnonzero(room.mask[:size])
        left, right = np.divmod(found, len(columns))
        if at < start + _ROWS:  # the block holds the diagonal
            before = left + start < right + at
            left, right, found = left[before], right[before], found[before]
        if self._whole:
            return left + start, right + at, room.scores[found]
        exact = self._full(start, at, left, right, scores)
        kept = exact >= self._least
        return left[kept] + start, right[kept] + at, exact[kept]

    def _full(
        self, start: int, at: int, left: NDArray[np.int64], right: NDArray[np.int64], room: Floats
    ) -> Floats:
        """The cosines of pairs of a block, counted from where the block begins."""
        rows, columns = self._vectors[start : start + _ROWS], self._vectors[at : at + _COLUMNS]
        if len(left) > _CROWD * room.size:
            np.dot(rows, columns.T, out=room)
            crowd: Floats = room[left, right]
            return crowd
        scores = np.empty(len(left), dtype=np.float32)
        for i in range(0, len(left), _PAIRS):
            own = slice(i, i + _PAIRS)
            np.einsum("nd,nd->n", rows[left[own]], columns[right[own]], out=scores[own])
        return scores


def _shortened(vectors: Floats, least: float, seed: int) -> Floats:
    """Give each vector's head and the length of its rest, (n, head + 1), where that pays."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(vectors), size=min(_SAMPLE, len(vectors)), replace=False))
    sample = np.ascontiguousarray(vectors[chosen])
    # The directions in which the sample is longest; any rotation keeps products as they are.
    _, axes = np.linalg.eigh(sample.T @ sample)
    axes = np.ascontiguousarray(axes[:, ::-1]).astype(np.float32)  # (dim, dim), the longest first
    head = _head(sample[:: max(1, len(sample) // _TRIED)] @ axes, least)
    if head == vectors.shape[1]:
        return vectors
    short = np.empty((len(vectors), head + 1), dtype=np.float32)
    for at in range(0, len(vectors), _TURNED):
        part = vectors[at : at + _TURNED]
        short[at : at + _TURNED] = _with_rest(part @ axes[:, :head], np.square(part).sum(axis=1))
    return short


def _head(turned: Floats, least: float) -> int:
    """How many dimensions (of all, where none is worth it) make all pairs cheapest."""
    dimension = int(turned.shape[1])
    costs = {dimension: float(dimension)}
    whole = np.square(turned).sum(axis=1)
    for head in range(_STEP, dimension, _STEP):
        short = _with_rest(turned[:, :head], whole)
        passing = float((short @ short.T >= least - _SLACK).mean()) - 1 / len(turned)  # itself
        costs[head] = head + 1 + _FULL * passing
    return min(costs, key=lambda head: (costs[head], head))


def _with_rest(heads: Floats, whole: Floats) -> Floats:
    """Put the length that heads (n, head) lack of the squared whole (n,) behind them."""
    rest = np.sqrt(np.maximum(whole - np.square(heads).sum(axis=1), 0))
    return np.concatenate([heads, rest[:, None]], axis=1)
