"""Texts of many requests in one batch: a queue by tokens, emptied by threads of its own.

The event loop puts work in and gets rows back; it never encodes. Requests share the workers
fairly: a clock counts the tokens that each of them has been served by now, and a text is due when
the clock has moved by the tokens before it in its own request. So a short question passes a
request of a thousand paragraphs, and no request waits for ever.

Short texts whose tokens were counted are put into batches of one length: such a batch has no
padding, and is done in a few milliseconds. The text that is due first says which length it is.
"""

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import APIError, stopping
from .settings import Batching

# A first guess at the time a token takes, until batches have been measured.
_SECONDS_A_TOKEN = 1e-4
# With fewer tokens of one length, texts one or two tokens longer or shorter join the batch: a run
# of their own would cost more than the padding.
_FEW = 32
_STEPS = (-1, 1, -2, 2)
# A queue holds what may share a batch: a group's texts of one length, or (0) of any.
_Kind = tuple[Hashable, int]


@dataclass(eq=False)
class _Job:
    """One request's texts, and where its rows go."""

    future: "asyncio.Future[list[Any]]"
    rows: list[Any]
    left: int
    came: float
    waiting: int = 0  # parts in the queue
    tokens: int = 0  # of these parts


@dataclass(order=True)
class _JobPart:
    """A stretch of a request that fits into a batch."""

    due: float
    number: int  # breaks ties by order of arrival
    job: _Job = field(compare=False)
    start: int = field(compare=False)
    items: Sequence[Any] = field(compare=False)
    cost: int = field(compare=False)


class Batcher:
    """Gathers work and runs it in threads; made and used inside one event loop.

    `run(group, items)` gives one row per item and is called in a worker's thread. `in_flight()`
    gives how many requests are being answered: when all of them are waiting here already, a batch
    need not wait for more. `on_batch(texts, seconds)` is called after each batch that was run.
    """

    def __init__(
        self,
        run: Callable[[Hashable, list[Any]], Sequence[Any]],
        *,
        settings: Batching,
        workers: int = 1,
        in_flight: Callable[[], int] = lambda: 1,
        on_batch: Callable[[int, float], None] | None = None,
    ) -> None:
        self._run, self._settings = run, settings
        self._in_flight, self._on_batch = in_flight, on_batch
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._queues: dict[_Kind, list[_JobPart]] = {}
        self._numbers = itertools.count()
        self._stopping = False
        self._pace = _SECONDS_A_TOKEN
        self._clock = 0.0  # tokens that each waiting request has been served
        self._active = set[_Job]()  # requests with something in the queue
        self._left_over = False  # what waits has been due since the last batch was taken
        self.waiting_tokens = 0
        self.waiting_parts = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"malmoi-batch-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(
        self,
        items: Sequence[Any],
        costs: Sequence[int],
        *,
        group: Hashable = None,
        counted: bool = False,
        seconds: float,
    ) -> list[Any]:
        """Give one row per item, in order, within `seconds`.

        `counted` says that the costs are lengths and no guess; each item then goes with its like.
        Raises APIError "busy" when the queue is full, "deadline" when the seconds are over,
        "stopping" when the server goes down. What is still queued when the waiting task is
        cancelled is dropped.
        """
        if not items:
            return []
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        job = _Job(future, [None] * len(items), len(items), time.monotonic())
        with self._changed:
            self.check_room(sum(costs), seconds)
            self._enqueue(job, items, costs, group, counted)
        timer = self._loop.call_later(seconds, self._expire, job, seconds)
        try:
            return await job.future
        finally:
            timer.cancel()

    def backlog_seconds(self) -> float:
        """Guess how long what is waiting will take."""
        return self.waiting_tokens * self._pace / len(self._threads)

    def close(self, *, seconds: float = 30.0) -> None:
        """Finish what was accepted, then end the workers; blocks until they have."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _enqueue(
        self, job: _Job, items: Sequence[Any], costs: Sequence[int], group: Hashable, counted: bool
    ) -> None:
        due, first = self._clock, not self.waiting_parts
        self._active.add(job)
        for start, end in _cuts(costs, 1 if counted else self._settings.budget):
            cost = sum(costs[start:end])
            part = _JobPart(due, next(self._numbers), job, start, items[start:end], cost)
            queue = self._queues.setdefault((group, cost if counted else 0), [])
            heapq.heappush(queue, part)
            self.waiting_parts += 1
            self.waiting_tokens += cost
            job.waiting += 1
            job.tokens += cost
            due += cost
        # A worker is woken by the first text, to wait for others, and when it may start;
        # waking it for each one in between would cost more than its vector.
        if first or self._ready():
            self._changed.notify()

    def check_room(self, total: int, seconds: float) -> None:
        """Refuse this many tokens where too many wait already."""
        if self._stopping:
            raise stopping()
        backlog = self.backlog_seconds()
        # One request, however large, does not keep all others out: it counts as half a queue.
        most, waiting = self._settings.queue_tokens, self.waiting_tokens
        largest = max((job.tokens for job in [*self._active]), default=0)
        full = waiting and waiting - max(largest - most // 2, 0) + total > most
        # Requests share the workers: each other one gets no more tokens in the meantime.
        shared = total * len(self._active) * self._pace / len(self._threads)
        if full or min(backlog, shared) > seconds:
            message = f"{self.waiting_tokens:,} tokens are waiting, all that the server takes on."
            remedy = f"Try again in {max(round(backlog), 1)} s."
            raise APIError(429, "busy", f"{message} {remedy}", wait=backlog)

    def _expire(self, job: _Job, seconds: float) -> None:
        if not job.future.done():
            message = f"the answer was not ready within {seconds:g} s."
            remedy = "Send fewer texts at once, or try again later."
            late = APIError(429, "deadline", f"{message} {remedy}", wait=self.backlog_seconds())
            job.future.set_exception(late)

    # What follows runs in the workers' threads.

    def _work(self) -> None:
        while batch := self._next_batch():
            group, parts = batch
            began = time.monotonic()
            found = self._rows(group, parts)
            took = time.monotonic() - began
            try:
                self._loop.call_soon_threadsafe(self._deliver, parts, found, took)
            except RuntimeError:  # the loop is closed; nobody is left to hear
                return

    def _rows(self, group: Hashable, parts: list[_JobPart]) -> list[Sequence[Any] | Exception]:
        """Run parts together and give each part its rows; after a failure each part runs alone.

        So whatever is wrong with one request stays with that request.
        """
        try:
            rows = self._run(group, [item for part in parts for item in part.items])
        except Exception as error:
            if len(parts) == 1:
                return [error]
            return [found for part in parts for found in self._rows(group, [part])]
        ends = itertools.accumulate(len(part.items) for part in parts)
        placed = zip(ends, parts, strict=True)
        return [rows[end - len(part.items) : end] for end, part in placed]

    def _next_batch(self) -> tuple[Hashable, list[_JobPart]] | None:
        """Wait for work, then a little for more; a group and its parts, None at the end."""
        with self._changed:
            while True:
                batch = self._take() if self._ready() else None
                if batch is not None:
                    self._left_over = self.waiting_parts > 0
                    if self._left_over:
                        self._changed.notify()
                    return batch
                if self._stopping and not self.waiting_parts:
                    return None
                self._changed.wait(self._patience())

    def _ready(self) -> bool:
        """Tell whether a batch should start now: it is full, waited long enough, or all came."""
        return self.waiting_parts > 0 and (
            self._stopping
            or not self._settings.together
            or self._left_over
            or self.waiting_tokens >= self._settings.budget
            or len(self._active) >= self._in_flight()
            or self._patience() == 0
        )

    def _patience(self) -> float | None:
        """The seconds until the text that is due first has waited long enough; None if none is."""
        if not self.waiting_parts:
            return None
        first = min(queue[0].job.came for queue in self._queues.values())
        return max(first + self._settings.wait_seconds - time.monotonic(), 0.0)

    def _take(self) -> tuple[Hashable, list[_JobPart]] | None:
        """Take the part that is due first and those that may share its batch, up to the budget."""
        kind = min(self._queues, key=lambda kind: self._queues[kind][0])
        group, length = kind
        budget = self._settings.even if length else self._settings.budget
        parts = self._drain(kind, max(budget, self._queues[kind][0].cost))
        if length and self._settings.together:
            for step in _STEPS:
                parts += self._drain((group, length + step), _FEW - sum(p.cost for p in parts))
        sharing = len(self._active) + sum(not part.job.waiting for part in parts)
        self._clock += sum(part.cost for part in parts) / max(sharing, 1)
        return (group, parts) if parts else None

    def _drain(self, kind: _Kind, room: int) -> list[_JobPart]:
        """Take the parts of a queue that are due first and fit; one alone without batching."""
        queue, parts = self._queues.get(kind, []), list[_JobPart]()
        while queue and queue[0].cost <= room and (self._settings.together or not parts):
            part = heapq.heappop(queue)
            self.waiting_parts -= 1
            self.waiting_tokens -= part.cost
            part.job.waiting -= 1
            part.job.tokens -= part.cost
            if not part.job.waiting:
                self._active.discard(part.job)
            if not part.job.future.done():  # its client may have gone, or its time be over
                parts.append(part)
                room -= part.cost
        if not queue:
            self._queues.pop(kind, None)
        return parts

    def _deliver(
        self, parts: list[_JobPart], found: list[Sequence[Any] | Exception], took: float
    ) -> None:
        """Hand rows to the requests they belong to; runs in the event loop."""
        # The pace follows what is measured, a tenth of the way with each batch.
        self._pace += 0.1 * (took / max(sum(part.cost for part in parts), 1) - self._pace)
        for part, rows in zip(parts, found, strict=True):
            job = part.job
            if job.future.done():
                continue
            if isinstance(rows, Exception):
                job.future.set_exception(rows)
                continue
            job.rows[part.start : part.start + len(part.items)] = rows
            job.left -= len(part.items)
            if not job.left:
                job.future.set_result(job.rows)
        if self._on_batch is not None:
            self._on_batch(sum(len(part.items) for part in parts), took)


def _cuts(costs: Sequence[int], budget: int) -> Iterator[tuple[int, int]]:
    """Cut a request where its batches end.

    >>> list(_cuts([3, 3, 9, 1], budget=6))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = total = 0
    for i, cost in enumerate(costs):
        if i > start and total + cost > budget:
            yield start, i
            start, total = i, 0
        total += cost
    yield start, len(costs)
