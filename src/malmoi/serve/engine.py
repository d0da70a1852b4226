"""The engine between the event loop and the models: requests come in, threads do the work.

Corpora, lexicons and keywords call an encoder from threads of their own, as they would without a
server. `BatchedEncoder` and `BatchedReranker` pass these calls on to the engine, where their texts
join the batches of whatever else is being asked. Each kind of work has threads of its own, so that
notes, which take seconds, are never in the way of searches, which take milliseconds.
"""

import asyncio
import contextvars
import dataclasses
import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..encoders import Encoder, TextEncoder
from ..encoders.base import Encoded, OnLong
from ..encoders.words import Merge, Word
from ..heads.reranker import LateReranker, Reranker
from ..runtime.pooling import normalize
from ..types import Floats
from .batcher import Batcher
from .errors import APIError, stopping
from .metrics import Metrics
from .settings import ServerSettings

T = TypeVar("T")
Row = tuple[Floats, int, bool]  # a text's vector, how many tokens it had, whether it was cut
_IDS: Hashable = "ids"  # the group of texts that have been tokenised already
# Characters of a request whose texts are tokenised in the event loop, which takes them 0.1 ms or
# so. Their lengths are known then, and they go into batches of one length.
_SHORT = 512
Lane = Literal["search", "link", "note", "upload", "other"]
# Threads of each kind of work, and how many of its requests may wait for one or have one; more are
# refused with 429. Searches mostly wait for their query's vector; the others compute themselves,
# so a few threads get all that there is.
_LANES: dict[Lane, tuple[int, int]] = {
    "search": (6, 256),
    "link": (2, 128),
    "note": (2, 32),
    "upload": (1, 16),
    "other": (2, 32),
}


@dataclass(frozen=True)
class WordOptions:
    """How words are read: from which layers, merged how, cut how."""

    layers: str | int | tuple[int, ...]
    merge: Merge = "mean"
    by: Literal["spaces", "morphemes"] = "spaces"
    special: bool = False


@dataclass(frozen=True)
class Embedded(Encoded):
    """The vectors of a request, (n, dim), how many of its texts were cut, and its tokens."""

    tokens: int


def estimate(text: str) -> int:
    """Guess a text's tokens without a tokenizer: four bytes make one, in Korean and English alike.

    >>> estimate("배가 아파요"), estimate("My stomach hurts")
    (6, 6)
    """
    return len(text.encode("utf-8", "surrogatepass")) // 4 + 2


class _Call:
    """Work in a thread that can be stopped: its client has gone, or its time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._waits_for: Future[Any] | None = None

    def stop(self) -> None:
        """Let the work end where it looks next, and wait for no more vectors."""
        with self._lock:
            self._stopped = True
            if self._waits_for is not None:
                self._waits_for.cancel()

    def check(self) -> None:
        if self._stopped:
            raise APIError(429, "deadline", "the work was stopped. Ask for less.", wait=1)

    def wait(self, future: "Future[T]") -> T:
        """Wait for vectors or scores, unless the work is stopped by then."""
        with self._lock:
            self.check()
            self._waits_for = future
        return future.result()


_CALL: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("call", default=None)


def check_stopped() -> None:
    """End the work of this thread if nobody waits for it any more; loops call it now and then."""
    call = _CALL.get()
    if call is not None:
        call.check()


class Engine:
    """All models of a server behind one queue each; made and used inside the event loop."""

    def __init__(
        self,
        encoder: TextEncoder,
        reranker: Reranker | None,
        settings: ServerSettings,
        metrics: Metrics,
        *,
        in_flight: Callable[[], int] = lambda: 1,
        workers: int = 1,
    ) -> None:
        self.encoder, self.reranker, self._seconds = encoder, reranker, settings.limits.seconds
        make: Callable[..., Batcher] = partial(
            Batcher, settings=settings.batching, workers=workers, in_flight=in_flight
        )
        self.loop = asyncio.get_running_loop()
        self._texts: Batcher = make(self._encode, on_batch=partial(metrics.batch, "encode"))
        self._pairs: Batcher | None = None
        if reranker is not None:
            self._pairs = make(self._score, on_batch=partial(metrics.batch, "rerank"))
        self._lanes = {
            lane: ThreadPoolExecutor(threads, thread_name_prefix=f"malmoi-{lane}")
            for lane, (threads, _) in _LANES.items()
        }
        self._json = ThreadPoolExecutor(1, thread_name_prefix="malmoi-json")
        self._tokenising = ThreadPoolExecutor(1, thread_name_prefix="malmoi-tokens")
        self._pooled = dict.fromkeys(_LANES, 0)  # calls that wait for a thread or have one
        self._open = True
        metrics.watch_queue("encode", lambda: self._texts.waiting_tokens)

    async def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, on_long: str = "cut"
    ) -> Embedded:
        """Turn texts into vectors, together with whatever else is being asked."""
        encoder, short = self.encoder, on_long == "cut" and sum(map(len, texts)) <= _SHORT
        if short and isinstance(encoder, Encoder):
            ids = encoder.token_ids(texts, prompt=prompt)
            lengths = [len(one) for one in ids]
            short_vectors = await self._encode_ids(ids, lengths, counted=True)
            was_cut = sum(map(_was_cut, repeat(encoder), texts, lengths))
            return Embedded(short_vectors, was_cut, sum(lengths))
        if on_long == "windows" and isinstance(encoder, Encoder):
            return await self._embed_windows(encoder, texts, prompt)
        longest = encoder.max_tokens if on_long == "cut" else None
        # No prompt and the model's own are one where it has none, and share their batches.
        own = encoder.manifest.default_prompt
        group = (prompt or None if own is None else prompt, on_long)
        costs = _costs(texts, longest)
        rows = await self._texts.submit(texts, costs, group=group, seconds=self._seconds)
        vectors, tokens, cut = zip(*rows, strict=True)
        return Embedded(np.stack(vectors), sum(cut), sum(tokens))

    async def _embed_windows(
        self, encoder: Encoder, texts: Sequence[str], prompt: str | None
    ) -> Embedded:
        """Read long texts whole; each of their windows is a text like any other to the batcher."""
        if not self._open:
            raise stopping()
        self._texts.check_room(sum(_costs(texts, None)), self._seconds)
        ids: list[list[int]] = []
        ends: list[int] = []
        tokens = 0
        for text in texts:  # one after the other, between those of other requests
            windows, count = await self.loop.run_in_executor(
                self._tokenising, _windows, encoder, text, prompt
            )
            ids += windows
            ends.append(len(ids))
            tokens += count
        lengths = [len(one) for one in ids]
        vectors = await self._encode_ids(ids, lengths)
        rows = [
            encoder.mean_of_windows(vectors[start:end], lengths[start:end])
            for start, end in pairwise([0, *ends])
        ]
        return Embedded(np.stack(rows), 0, tokens)

    async def embed_ids(self, ids: Sequence[Sequence[int]]) -> Embedded:
        """Turn token ids, special tokens among them, into unit vectors."""
        costs = [len(one) for one in ids]
        return Embedded(normalize(await self._encode_ids(ids, costs)), 0, sum(costs))

    async def _encode_ids(
        self, ids: Sequence[Sequence[int]], costs: list[int], *, counted: bool = False
    ) -> Floats:
        rows = await self._texts.submit(
            ids, costs, group=_IDS, counted=counted, seconds=self._seconds
        )
        vectors: Floats = rows[0][None] if len(rows) == 1 else np.stack(rows)
        return vectors

    async def words(self, texts: Sequence[str], options: WordOptions) -> list[list[Word]]:
        """Give the words of texts with their vectors; texts that are read alike share batches."""
        costs = _costs(texts, self.encoder.max_tokens)
        return await self._texts.submit(texts, costs, group=options, seconds=self._seconds)

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score texts next to a query; late interaction compares them all with each other."""
        reranker = self.reranker
        if isinstance(reranker, LateReranker):
            pairs = [(query, text) for text in texts]
            scores: list[float] = (await self.call(lambda: reranker.score(pairs))).tolist()
            return scores
        return await self.score_pairs([(query, text) for text in texts])

    async def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score pairs of texts."""
        assert self._pairs is not None and self.reranker is not None  # the route has checked it
        longest, sizes = self.reranker.max_tokens, dict[str, int]()
        for text in itertools.chain.from_iterable(pairs):  # most share one text, perhaps a long one
            if text not in sizes:
                sizes[text] = estimate(text)
        costs = [min(sizes[first] + sizes[second], longest) for first, second in pairs]
        return await self._pairs.submit(pairs, costs, seconds=self._seconds)

    async def convert(self, work: Callable[[], T]) -> T:
        """Read a large body or write a large answer in a thread; one at a time."""
        if not self._open:
            raise stopping()
        return await self.loop.run_in_executor(self._json, work)

    async def call(self, work: Callable[[], T], *, lane: Lane = "other") -> T:
        """Do other work in a thread of its lane, refused when too much of it waits already.

        When its time is over, or the one who asked is gone, the work itself is stopped: where it
        waits for vectors, asks for some, or calls `check_stopped`.
        """
        if not self._open:
            raise stopping()
        if self._pooled[lane] >= _LANES[lane][1]:
            message = f"{self._pooled[lane]} requests of this kind are waiting. Try again."
            raise APIError(429, "busy", message, wait=1)
        self._pooled[lane] += 1
        call = _Call()

        def run() -> T:
            _CALL.set(call)
            call.check()
            return work()

        future = self.loop.run_in_executor(self._lanes[lane], run)
        # Counted until the thread is done, also when the one who asked has gone by then.
        future.add_done_callback(partial(self._left, lane))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            message = f"the answer was not ready within {self._seconds:g} s. Ask for less."
            raise APIError(429, "deadline", message, wait=1) from None
        finally:
            call.stop()

    def close(self, *, seconds: float) -> None:
        """Finish what was accepted; blocks until then."""
        self._open = False
        # Their work ends in the batchers.
        for pool in (self._json, self._tokenising, *self._lanes.values()):
            pool.shutdown(wait=True, cancel_futures=True)
        for batcher in (self._texts, self._pairs):
            if batcher is not None:
                batcher.close(seconds=seconds)

    def _left(self, lane: Lane, future: "asyncio.Future[Any]") -> None:
        self._pooled[lane] -= 1
        if not future.cancelled():
            future.exception()  # asked for, so that asyncio does not complain that nobody did

    # What follows runs in the batchers' threads.

    def _encode(self, group: Hashable, items: list[Any]) -> Sequence[Any]:
        if isinstance(group, WordOptions):
            assert isinstance(self.encoder, Encoder)  # the route has checked it
            return list(self.encoder.words_of(items, **dataclasses.asdict(group)))
        keys = [tuple(ids) for ids in items] if group == _IDS else items
        unique = dict(zip(keys, items, strict=True))
        rows = self._encode_unique(group, list(unique.values()))
        if len(unique) == len(items):
            return rows
        found = dict(zip(unique, rows, strict=True))
        return [found[key] for key in keys]

    def _encode_unique(self, group: Any, items: list[Any]) -> Sequence[Any]:
        if group == _IDS:
            assert isinstance(self.encoder, Encoder)
            return self.encoder.encode_ids(items, alone=True)  # type: ignore[return-value]
        prompt, on_long = group
        return self._encode_texts(items, prompt, on_long)

    def _encode_texts(self, texts: list[str], prompt: str | None, on_long: str) -> list[Row]:
        encoder = self.encoder
        if not isinstance(encoder, Encoder) or on_long != "cut":
            vectors = encoder.encode(texts, prompt=prompt, on_long="windows")
            counts = [0] * len(texts)
            if hasattr(encoder, "count_tokens"):
                counts = encoder.count_tokens(texts)
            return [(vector, n, False) for vector, n in zip(vectors, counts, strict=True)]
        ids = encoder.token_ids(texts, prompt=prompt)
        vectors = encoder.encode_ids(ids, alone=True)
        lengths = [len(one) for one in ids]
        cut = map(_was_cut, repeat(encoder), texts, lengths)
        return list(zip(vectors, lengths, cut, strict=True))

    def _score(self, group: Hashable, pairs: list[Any]) -> NDArray[np.float32]:
        assert self.reranker is not None
        return self.reranker.score(pairs)


def _costs(texts: Sequence[str], longest: int | None) -> list[int]:
    costs = [estimate(text) for text in texts]
    return costs if longest is None else [min(cost, longest) for cost in costs]


def _windows(encoder: Encoder, text: str, prompt: str | None) -> tuple[list[list[int]], int]:
    """The ids of a text's windows, and how many tokens it has."""
    return encoder.window_ids(text, prompt=prompt), encoder.count_tokens([text])[0]


def _was_cut(encoder: Encoder, text: str, length: int) -> bool:
    longest = encoder.max_tokens
    return length == longest and encoder.count_tokens([text])[0] > longest - 2


class BatchedEncoder(TextEncoder):
    """An encoder whose texts join an engine's batches while it has one; by itself before."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__(encoder.manifest, dimension=encoder.dimension)
        self.encoder = encoder
        self.engine: Engine | None = None

    @property
    def direct(self) -> TextEncoder:
        """The encoder behind this one."""
        return self.encoder

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        engine = self.engine
        if engine is None:
            return self.encoder._start(texts, on_long)
        check_stopped()
        work = engine.embed(texts, prompt="", on_long=on_long)
        future = asyncio.run_coroutine_threadsafe(work, engine.loop)
        return partial(_wait, future)

    def _clean(self, text: str) -> str:
        return self.encoder._clean(text)


class BatchedReranker:
    """A reranker whose pairs, which all have one query, join an engine's batches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Give one score per pair, (n,)."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        work = self._engine.score(pairs[0][0], [text for _, text in pairs])
        scores = _wait(asyncio.run_coroutine_threadsafe(work, self._engine.loop))
        return np.asarray(scores, dtype=np.float32)


def _wait(future: "Future[T]") -> T:
    call = _CALL.get()
    return future.result() if call is None else call.wait(future)
