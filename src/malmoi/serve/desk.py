"""The desk between the event loop and the models: asks come in, work is done in threads."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..encoder import Encoder, TextEncoder
from ..encoder.layers import layers_of
from ..reranker.reranker import Reranker
from ..runtime.pooling import normalize
from ..types import Floats
from ..words import Merge, Word
from .batcher import Batch, Batcher, Busy, Stopping, TooLate
from .metrics import Metrics
from .settings import Settings

T = TypeVar("T")
_IDS: Hashable = "ids"
_READ: Hashable = "read"  # texts whose ids have been read already
# Characters of a request whose texts are tokenised in the event loop, which takes them 0.1 ms or
# so. Their lengths are known then, and they go into batches of one length.
_SHORT = 512
# Threads for searching and linking, which mostly wait for their texts' vectors.
_LANES = 8
# Requests of other kinds (search, linking) that may wait for a thread; more are told to come back.
_WAITING = 256


@dataclass(frozen=True, slots=True)
class Row:
    """One text's vector, how many tokens it had, and whether it was cut."""

    vector: Floats
    tokens: int
    cut: bool


@dataclass(frozen=True)
class Reading:
    """How words are read: from which layers, merged how, cut how."""

    layers: str | int | tuple[int, ...]
    merge: Merge = "mean"
    by: Literal["spaces", "morphemes"] = "spaces"
    special: bool = False


@dataclass(frozen=True)
class Embedded:
    """The vectors of a request, (n, dim), the tokens in it, and how many texts were cut."""

    vectors: Floats
    tokens: int
    cut: int


def estimate(text: str) -> int:
    """Guess a text's tokens without a tokenizer: four bytes make one, in Korean and English alike.

    >>> estimate("배가 아파요"), estimate("My stomach hurts")
    (6, 6)
    """
    return len(text.encode("utf-8", "surrogatepass")) // 4 + 2


class Desk:
    """All models of a server behind one queue each; made and used inside the event loop."""

    def __init__(
        self,
        encoder: TextEncoder,
        reranker: Reranker | None,
        settings: Settings,
        metrics: Metrics,
        *,
        company: Callable[[], int] = lambda: 1,
        workers: int = 1,
    ) -> None:
        self.encoder, self.reranker, self._seconds = encoder, reranker, settings.limits.seconds
        make: Callable[..., Batcher[Any, Any]] = partial(
            Batcher, settings=settings.batching, workers=workers, company=company
        )
        self.loop = asyncio.get_running_loop()
        self._texts: Batcher[Any, Any] = make(self._encode, seen=_watch(metrics, "encode"))
        self._pairs: Batcher[Any, float] | None = None
        if reranker is not None:
            self._pairs = make(self._score, seen=_watch(metrics, "rerank"))
        self._lane = ThreadPoolExecutor(_LANES, thread_name_prefix="malmoi-lane")
        self._in_lane = 0
        self._open = True
        metrics.watch_queue("encode", lambda: self._texts.waiting_tokens)

    async def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, on_long: str = "cut"
    ) -> Embedded:
        """Turn texts into vectors, together with whatever else is being asked."""
        encoder = self.encoder
        short = on_long == "cut" and sum(map(len, texts)) <= _SHORT
        if short and isinstance(encoder, Encoder):
            return await self._embed_short(encoder, texts, prompt)
        costs = self._costs(texts, longest=1 << 30 if on_long == "windows" else 0)
        # No prompt and the model's own are one where it has none, and share their batches.
        own = self.encoder.manifest.default_prompt
        group = (prompt or None if own is None else prompt, on_long)
        rows = await self._texts.submit(texts, costs, group=group, seconds=self._seconds)
        return _joined(rows)

    async def _embed_short(
        self, encoder: Encoder, texts: Sequence[str], prompt: str | None
    ) -> Embedded:
        ids = encoder.token_ids(texts, prompt=prompt)
        costs = [len(one) for one in ids]
        rows = await self._texts.submit(
            ids, costs, group=_READ, counted=True, seconds=self._seconds
        )
        cut = [
            count == encoder.max_tokens and _was_cut(encoder, text)
            for text, count in zip(texts, costs, strict=True)
        ]
        vectors = rows[0][None] if len(rows) == 1 else np.stack(rows)
        return Embedded(vectors, sum(costs), sum(cut))

    async def embed_ids(self, ids: Sequence[Sequence[int]]) -> Embedded:
        """Turn token ids, special tokens among them, into vectors."""
        costs = [len(one) for one in ids]
        return _joined(await self._texts.submit(ids, costs, group=_IDS, seconds=self._seconds))

    async def words(self, texts: Sequence[str], reading: Reading) -> list[list[Word]]:
        """Give the words of texts with their vectors; texts that are read alike share batches."""
        costs = self._costs(texts)
        return await self._texts.submit(texts, costs, group=reading, seconds=self._seconds)

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score texts beside a query."""
        if self._pairs is None:
            raise Stopping("no reranker is served")
        own = estimate(query)
        longest = self.reranker.max_tokens if self.reranker else 0
        costs = [min(own + estimate(text), longest) for text in texts]
        pairs = [(query, text) for text in texts]
        return await self._pairs.submit(pairs, costs, seconds=self._seconds)

    async def call(self, work: Callable[[], T]) -> T:
        """Do other work in a thread, refused when too much of it waits already."""
        if not self._open:
            raise Stopping("the server is stopping; expected it running. Try another, or later.")
        if self._in_lane >= _WAITING:
            raise Busy(f"{self._in_lane} requests are waiting. Try again in a second.", seconds=1)
        self._in_lane += 1
        future = asyncio.get_running_loop().run_in_executor(self._lane, work)
        # Counted until the thread is done, also when the one who asked has gone by then.
        future.add_done_callback(self._left)
        try:
            return await asyncio.wait_for(future, self._seconds)
        except TimeoutError:
            raise TooLate(
                f"the answer was not ready within {self._seconds:g} s. Ask for less.", seconds=1
            ) from None

    def close(self, *, seconds: float) -> None:
        """Finish what was accepted; blocks until then."""
        self._open = False
        self._lane.shutdown(wait=True, cancel_futures=True)  # its work ends in the batchers
        for batcher in (self._texts, self._pairs):
            if batcher is not None:
                batcher.close(seconds=seconds)

    def _costs(self, texts: Sequence[str], *, longest: int = 0) -> list[int]:
        most = longest or self.encoder.max_tokens
        return [min(estimate(text), most) for text in texts]

    def _left(self, future: "asyncio.Future[Any]") -> None:
        self._in_lane -= 1
        if not future.cancelled():
            future.exception()  # asked for, so that asyncio does not complain that nobody did

    # What follows runs in the batchers' threads.

    def _encode(self, group: Hashable, items: list[Any]) -> Sequence[Any]:
        if isinstance(group, Reading):
            return self._read(items, group)
        if group == _READ:
            return self._encode_read(items)
        if group == _IDS:
            assert isinstance(self.encoder, Encoder)  # the route has checked it
            vectors = normalize(self.encoder.encode_ids(items, alone=True))
            return [
                Row(vector, len(ids), False) for vector, ids in zip(vectors, items, strict=True)
            ]
        assert isinstance(group, tuple)
        prompt, on_long = group
        unique = list(dict.fromkeys(items))
        rows = self._encode_texts(unique, prompt, on_long)
        if len(unique) == len(items):
            return rows
        found = dict(zip(unique, rows, strict=True))
        return [found[item] for item in items]

    def _encode_read(self, ids: list[list[int]]) -> Sequence[Floats]:
        assert isinstance(self.encoder, Encoder)
        unique = list({tuple(one): one for one in ids}.values())
        vectors = self.encoder.encode_ids(unique, alone=True)
        if len(unique) == len(ids):
            return vectors  # type: ignore[return-value]
        found = {tuple(one): vector for one, vector in zip(unique, vectors, strict=True)}
        return [found[tuple(one)] for one in ids]

    def _encode_texts(self, texts: list[str], prompt: str | None, on_long: str) -> list[Row]:
        encoder = self.encoder
        if not isinstance(encoder, Encoder) or on_long != "cut":
            vectors = encoder.encode(texts, prompt=prompt, on_long="windows")
            counts = encoder.count_tokens(texts) if hasattr(encoder, "count_tokens") else []
            padded = [*counts, *[0] * (len(texts) - len(counts))]
            return [Row(vector, n, False) for vector, n in zip(vectors, padded, strict=True)]
        ids = encoder.token_ids(texts, prompt=prompt)
        vectors = encoder.encode_ids(ids, alone=True)
        longest = encoder.max_tokens
        return [
            Row(vector, len(one), len(one) == longest and _was_cut(encoder, text))
            for text, one, vector in zip(texts, ids, vectors, strict=True)
        ]

    def _read(self, texts: list[str], reading: Reading) -> list[list[Word]]:
        return list(
            layers_of(self.encoder).words_of(
                texts,
                layers=reading.layers,
                merge=reading.merge,
                by=reading.by,
                special=reading.special,
            )
        )

    def _score(self, group: Hashable, pairs: list[Any]) -> NDArray[np.float32]:
        assert self.reranker is not None
        return self.reranker.score(pairs)


def _was_cut(encoder: Encoder, text: str) -> bool:
    return encoder.count_tokens([text])[0] > encoder.max_tokens - 2


def _joined(rows: list[Row]) -> Embedded:
    vectors = np.stack([row.vector for row in rows])
    return Embedded(vectors, sum(row.tokens for row in rows), sum(row.cut for row in rows))


def _watch(metrics: Metrics, kind: str) -> Callable[[Batch[Any, Any], float], None]:
    def seen(batch: Batch[Any, Any], seconds: float) -> None:
        metrics.batch(kind, texts=sum(len(part.items) for part in batch.parts), seconds=seconds)

    return seen
