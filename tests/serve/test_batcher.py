"""The batcher by itself: what is gathered, what is fair, what is refused, what is dropped."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest

from malmoi.serve.batcher import Batcher
from malmoi.serve.errors import APIError
from malmoi.serve.settings import Batching


class Recorder:
    """Doubles numbers, slowly if wanted, and remembers its batches."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[tuple[Hashable, list[int]]] = []
        self.seconds, self.gate = seconds, threading.Event()
        self.gate.set()

    def __call__(self, group: Hashable, items: list[int]) -> list[int]:
        self.batches.append((group, items))
        self.gate.wait(10)
        time.sleep(self.seconds)
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test inside an event loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 20))

    return run


def batcher(record: Recorder, *, in_flight: int = 1000, **settings: Any) -> Batcher:
    options = Batching(**{"budget": 8, "wait_seconds": 0.05} | settings)
    return Batcher(record, settings=options, in_flight=lambda: in_flight)


@in_loop
async def test_requests_that_arrive_together_run_together() -> None:
    record = Recorder()
    queue = batcher(record)
    jobs = [queue.submit([i], [1], seconds=5) for i in range(6)]
    assert await asyncio.gather(*jobs) == [[0], [2], [4], [6], [8], [10]]
    assert record.batches == [(None, [0, 1, 2, 3, 4, 5])]
    queue.close()


@in_loop
async def test_a_lone_request_does_not_wait_for_company() -> None:
    queue = batcher(Recorder(), in_flight=1, wait_seconds=1.0)
    began = time.perf_counter()
    assert await queue.submit([1, 2], [1, 1], seconds=5) == [2, 4]
    assert time.perf_counter() - began < 0.5
    queue.close()


@in_loop
async def test_with_batching_off_each_request_runs_alone() -> None:
    record = Recorder()
    queue = batcher(record, together=False)
    await asyncio.gather(*(queue.submit([i], [1], seconds=5) for i in range(4)))
    assert [items for _, items in record.batches] == [[0], [1], [2], [3]]
    queue.close()


@in_loop
async def test_groups_are_not_mixed_and_budgets_are_kept() -> None:
    record = Recorder()
    queue = batcher(record)
    jobs = [queue.submit([i], [3], group="ab"[i % 2], seconds=5) for i in range(8)]
    await asyncio.gather(*jobs)
    for group, items in record.batches:
        assert {item % 2 for item in items} == {"ab".index(str(group))}
        assert 3 * len(items) <= 8
    queue.close()


@in_loop
async def test_a_short_request_passes_a_long_one() -> None:
    record = Recorder(seconds=0.02)
    queue = batcher(record)
    long = asyncio.ensure_future(queue.submit(list(range(100, 180)), [4] * 80, seconds=9))
    await asyncio.sleep(0.01)
    began = time.perf_counter()
    await queue.submit([1], [1], seconds=9)
    assert time.perf_counter() - began < 0.3  # the long one needs 40 batches, 0.8 s
    assert not long.done()
    assert await long == [2 * item for item in range(100, 180)]
    queue.close()


@in_loop
async def test_one_that_fails_does_not_spoil_the_others() -> None:
    queue = batcher(Recorder())
    jobs = [queue.submit([i], [1], seconds=5) for i in (12, 13, 14)]
    found = await asyncio.gather(*jobs, return_exceptions=True)
    assert found[0] == [24] and found[2] == [28]
    assert isinstance(found[1], ValueError)
    queue.close()


@in_loop
async def test_too_much_is_refused_with_a_time_to_come_again() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, queue_tokens=20, together=False)
    jobs = []
    for i in range(3):  # the first runs, two wait
        jobs.append(asyncio.ensure_future(queue.submit([i], [8], seconds=9)))
        await asyncio.sleep(0.1)
    with pytest.raises(APIError, match="16 tokens are waiting") as refused:
        await queue.submit([9], [8], seconds=9)
    assert refused.value.code == "busy"
    assert refused.value.wait == pytest.approx(16 * 1e-4)  # nothing was measured yet
    record.gate.set()
    await asyncio.gather(*jobs)
    queue.close()


@in_loop
async def test_one_large_request_does_not_keep_the_others_out() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, queue_tokens=20)
    large = asyncio.ensure_future(queue.submit(list(range(14, 114)), [8] * 100, seconds=9))
    await asyncio.sleep(0.1)
    small = asyncio.ensure_future(queue.submit([1], [8], seconds=9))
    await asyncio.sleep(0.1)
    with pytest.raises(APIError, match="tokens are waiting"):
        await queue.submit([9] * 10, [8] * 10, seconds=9)  # a second one has to wait
    record.gate.set()
    assert await small == [2] and not large.done()
    assert await large == [2 * item for item in range(14, 114)]
    queue.close()


@in_loop
async def test_what_its_client_left_is_not_run() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, together=False)
    first = asyncio.ensure_future(queue.submit([1], [1], seconds=9))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(queue.submit([2], [1], seconds=9))
    await asyncio.sleep(0.05)
    second.cancel()
    record.gate.set()
    assert await first == [2]
    assert await queue.submit([3], [1], seconds=9) == [6]
    assert [items for _, items in record.batches] == [[1], [3]]
    assert queue.waiting_tokens == queue.waiting_parts == 0
    queue.close()


@in_loop
async def test_a_deadline_is_kept() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, together=False)
    began = time.perf_counter()
    with pytest.raises(APIError, match=r"not ready within 0\.2 s") as late:
        await queue.submit([1], [1], seconds=0.2)
    assert late.value.code == "deadline" and time.perf_counter() - began < 2
    record.gate.set()
    queue.close()


@in_loop
async def test_a_stop_finishes_what_was_accepted_and_takes_no_more() -> None:
    queue = batcher(Recorder(seconds=0.02), together=False)
    jobs = [asyncio.ensure_future(queue.submit([i], [1], seconds=9)) for i in range(10)]
    await asyncio.sleep(0)
    await asyncio.to_thread(queue.close)
    assert await asyncio.gather(*jobs) == [[2 * i] for i in range(10)]
    with pytest.raises(APIError, match="is stopping"):
        await queue.submit([1], [1], seconds=5)


def counted(queue: Batcher, item: int, length: int) -> "asyncio.Future[list[int]]":
    return asyncio.ensure_future(queue.submit([item], [length], counted=True, seconds=9))


@in_loop
async def test_counted_texts_share_batches_of_one_length_and_the_oldest_leads() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, in_flight=1, even=40)
    first = counted(queue, 0, 20)  # keeps the worker busy while the others come
    await asyncio.sleep(0.05)
    jobs = [counted(queue, i, 10 if i % 2 else 20) for i in range(1, 9)]
    await asyncio.sleep(0.05)
    record.gate.set()
    assert await asyncio.gather(first, *jobs) == [[2 * i] for i in range(9)]
    assert [items for _, items in record.batches] == [[0], [1, 3, 5, 7], [2, 4], [6, 8]]
    queue.close()


@in_loop
async def test_a_few_counted_texts_take_neighbours_along() -> None:
    record = Recorder()
    record.gate.clear()
    queue = batcher(record, in_flight=1)
    first = counted(queue, 0, 50)
    await asyncio.sleep(0.05)
    jobs = [counted(queue, i, length) for i, length in enumerate((9, 12, 10, 8, 11), start=1)]
    await asyncio.sleep(0.05)
    record.gate.set()
    await asyncio.gather(first, *jobs)
    assert [items for _, items in record.batches] == [[0], [1, 4, 3], [2, 5]]
    queue.close()


@in_loop
async def test_each_counted_text_of_a_request_goes_with_its_like() -> None:
    record = Recorder()
    queue = batcher(record, in_flight=2)
    jobs = [
        queue.submit([1, 2], [10, 40], counted=True, seconds=9),
        queue.submit([3, 4], [40, 10], counted=True, seconds=9),
    ]
    assert await asyncio.gather(*jobs) == [[2, 4], [6, 8]]
    assert sorted(sorted(items) for _, items in record.batches) == [[1, 4], [2, 3]]
    queue.close()
