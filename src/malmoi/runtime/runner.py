"""Runs batches through a graph, as many at once as there are cores."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from ..bundle.bundle import Bundle
from ..errors import BundleError, OptionError
from ..types import Floats
from .session import Session, usable_cores
from .tokenizer import EVEN, Batch, TextTokenizer, TokenizedText

T = TypeVar("T")
LOGITS = "logits"
Compute = Callable[[Batch], Floats]

# A chunk is what is tokenised, sorted and run together. Enough texts for full batches of every
# length, few enough that a stream of a million costs no memory.
_CHUNK_ITEMS = 2048
_CHUNK_CHARACTERS = 2_000_000
# While one chunk is collected the next one runs already, so that no core waits.
_CHUNKS_AHEAD = 2
# Tokens: a smaller batch would not be faster in two parts.
_WORTH_HALVING = 2 * EVEN


class Runner:
    """A bundle's tokenizer and graph, opened and checked, with the threads that run them."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        manifest = bundle.manifest
        self.threads = choose_threads(threads)
        self.tokens = TextTokenizer.from_file(bundle.tokenizer, max_tokens=manifest.max_tokens)
        if 0 < manifest.vocabulary < self.tokens.vocabulary:
            raise BundleError(
                f"the tokenizer of {bundle.folder} has {self.tokens.vocabulary:,} tokens and its "
                f"graph embeds {manifest.vocabulary:,}; expected no more tokens than that. They "
                "come from different models: export the model again with: malmoi model export"
            )
        # One thread a batch and several batches at once beat one batch over several threads: a
        # batch this small leaves threads waiting (docs/decisions/batching.md).
        self.session = Session(
            bundle.graph,
            threads=1,
            device=device,
            architecture=manifest.architecture,
            pad_id=self.tokens.pad_id,
        )
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="malmoi")

    def run(self, inputs: Sequence[TokenizedText], compute: Compute) -> Floats:
        """Run all batches in the calling thread; (inputs, width)."""
        batches = self.tokens.batches(inputs, even=EVEN)
        return _collect(len(inputs), [(batch, compute(batch)) for batch in batches])

    def start(self, inputs: Sequence[TokenizedText], compute: Compute) -> Callable[[], Floats]:
        """Start all batches; the function returned collects their rows, (inputs, width)."""
        batches = balance_batches(self.tokens.batches(inputs, even=EVEN), self.threads)
        if len(batches) == 1:  # one batch needs no thread
            return lambda: _collect(len(inputs), [(batches[0], compute(batches[0]))])
        futures = [(batch, self._pool.submit(compute, batch)) for batch in batches]
        return lambda: _collect(len(inputs), futures)

    def each(
        self, inputs: Sequence[TokenizedText], compute: Callable[[Batch], T]
    ) -> Iterator[tuple[Batch, T]]:
        """Run all batches and yield each with its result, in order."""
        batches = list(self.tokens.batches(inputs, even=EVEN))
        if len(batches) == 1:  # a query, for example: another thread would take longer
            yield batches[0], compute(batches[0])
            return
        yield from zip(batches, self._pool.map(compute, batches), strict=True)


class GraphModel:
    """A model whose graph gives logits: what rerankers, taggers and classifiers share."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        self.bundle, self.manifest = bundle, bundle.manifest
        self.name, self.labels = bundle.manifest.name, bundle.manifest.labels
        self.max_tokens = bundle.manifest.max_tokens
        self._runner = Runner(bundle, threads=threads, device=device)
        self.threads = self._runner.threads
        if LOGITS not in self._runner.session.outputs:
            raise BundleError(
                f"{bundle.graph} has the outputs {', '.join(self._runner.session.outputs)}; "
                f"expected {LOGITS}. Make it again with malmoi model export or malmoi train"
            )

    def _run(self, batch: Batch) -> Floats:
        [logits] = self._runner.session.run(batch, [LOGITS])
        return logits

    def _token_logits(
        self, inputs: Sequence[TokenizedText], *, at_once: int = 256
    ) -> Iterator[Floats]:
        """Yield each input's logits for its tokens, padded to the longest: (length, labels)."""
        blocks = (inputs[i : i + at_once] for i in range(0, len(inputs), at_once))
        for found in pipelined(self._start_tokens(block) for block in blocks):
            yield from found

    def _start_tokens(self, inputs: Sequence[TokenizedText]) -> Callable[[], Floats]:
        longest, width = max(len(one.ids) for one in inputs), len(self.labels)

        def run(batch: Batch) -> Floats:
            logits = self._run(batch)  # (n, length, labels)
            rows = np.zeros((len(logits), longest * width), dtype=np.float32)
            rows[:, : logits.shape[1] * width] = logits.reshape(len(logits), -1)
            return rows

        wait = self._runner.start(inputs, run)
        return lambda: wait().reshape(len(inputs), longest, width)


def balance_batches(batches: Iterable[Batch], threads: int) -> list[Batch]:
    """Sort the largest first and halve the last ones, so that no thread waits long at the end."""
    ordered = sorted(batches, key=lambda batch: -batch.ids.size)
    if threads == 1:
        return ordered
    last = [
        part
        for batch in ordered[-threads:]
        for part in (batch.halves() if batch.ids.size >= _WORTH_HALVING else [batch])
    ]
    return ordered[:-threads] + sorted(last, key=lambda batch: -batch.ids.size)


def choose_threads(threads: int | None) -> int:
    """Give the number of threads asked for, or as many as there are usable cores."""
    if threads is not None and threads < 1:
        raise OptionError(f"threads is {threads}; expected 1 or more. Leave it out for all.")
    return threads or usable_cores()


def _collect(count: int, found: Sequence[tuple[Batch, "Future[Floats] | Floats"]]) -> Floats:
    rows: Floats | None = None
    for batch, values in found:
        values = values.result() if isinstance(values, Future) else values
        if rows is None:
            rows = np.empty((count, values.shape[1]), dtype=np.float32)
        rows[batch.rows] = values
    assert rows is not None  # a chunk is never empty
    return rows


def chunks(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut a stream into lists of bounded length and bounded total size in characters.

    >>> [len(chunk) for chunk in chunks(["배"] * 3000, len)]
    [2048, 952]
    """
    if isinstance(items, list):  # sums of slices are faster than counting item by item
        for start in range(0, len(items), _CHUNK_ITEMS):
            part = items[start : start + _CHUNK_ITEMS]
            small = sum(map(size, part)) <= _CHUNK_CHARACTERS
            yield from [part] if small else chunks(iter(part), size)
        return
    chunk: list[T] = []
    characters = 0
    for item in items:
        chunk.append(item)
        characters += size(item)
        if len(chunk) == _CHUNK_ITEMS or characters > _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def pipelined(started: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield results in order; the next two are started before one is waited for.

    >>> list(pipelined(iter([lambda: 1, lambda: 2, lambda: 3, lambda: 4])))
    [1, 2, 3, 4]
    """
    running: deque[Callable[[], T]] = deque()
    for wait in itertools.chain(started, [None] * _CHUNKS_AHEAD):
        if wait is not None:
            running.append(wait)
        if running and (wait is None or len(running) > _CHUNKS_AHEAD):
            yield running.popleft()()
