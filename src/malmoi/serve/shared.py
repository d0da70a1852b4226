"""The models as corpora, lexicons and keywords see them: their texts join the server's batches.

They call an encoder from threads of their own, as they would without a server. This one hands the
texts to the desk, where they are encoded with whatever else is being asked, and waits.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ..encoder import TextEncoder
from ..encoder.base import Encoded, OnLong
from ..types import Floats
from .desk import Desk


class Shared(TextEncoder):
    """An encoder whose texts are encoded at a desk while one is joined, and by itself before."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__(encoder.manifest, dimension=encoder.dimension)
        self.encoder = encoder
        self._desk: Desk | None = None
        self._ready = threading.local()

    def join(self, desk: Desk | None) -> None:
        """Send texts to a desk from now on, or to none."""
        self._desk = desk

    async def prepare(self, texts: Sequence[str]) -> Mapping[str, Floats]:
        """Encode texts ahead, in the event loop, so that no thread has to wait for them."""
        prefix = self._prefix(None)
        cleaned = [prefix + self._clean(text) for text in texts]
        if self._desk is None:
            return {}
        found = await self._desk.embed(cleaned, prompt="")
        return dict(zip(cleaned, found.vectors, strict=True))

    @contextlib.contextmanager
    def knowing(self, vectors: Mapping[str, Floats]) -> Iterator[None]:
        """Use vectors of `prepare` in this thread."""
        self._ready.vectors = vectors
        try:
            yield
        finally:
            self._ready.vectors = {}

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        desk, known = self._desk, getattr(self._ready, "vectors", {})
        if texts and all(text in known for text in texts):
            return lambda: Encoded(np.stack([known[text] for text in texts]), 0)
        if desk is None:
            return self.encoder._start(texts, on_long)
        future = asyncio.run_coroutine_threadsafe(
            desk.embed(texts, prompt="", on_long=on_long), desk.loop
        )

        def finish() -> Encoded:
            found = future.result()
            return Encoded(found.vectors, found.cut)

        return finish

    def _clean(self, text: str) -> str:
        return self.encoder._clean(text)


class SharedReranker:
    """A reranker whose pairs, which all have one query, are scored at a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Give one score a pair, (n,)."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        work = self._desk.score(pairs[0][0], [text for _, text in pairs])
        scores = asyncio.run_coroutine_threadsafe(work, self._desk.loop).result()
        return np.asarray(scores, dtype=np.float32)
