"""Work over many items: in several processes, in order, and resumable after an interruption."""

import contextlib
import itertools
import json
import logging
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from ..errors import MalmoiError, OptionError, OutputError

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
_SYNC = 32  # records after which a journal is on the disk


def in_processes(
    items: Iterable[T],
    work: Callable[[list[T]], R],
    *,
    processes: int,
    block: int,
    start: Callable[..., None],
    arguments: Sequence[Any],
) -> Iterator[R]:
    """Yield what `work` makes of each block of items, in order, in bounded memory.

    `start(*arguments)` runs once in each process before its first block.
    """
    if processes < 1:
        raise OptionError(f"processes is {processes}; expected 1 or more. Leave it out for 1.")
    source = iter(items)
    running: deque[Future[R]] = deque()
    # Spawned, not forked: a fork would copy locks that onnxruntime's threads may hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=start, initargs=tuple(arguments))
    try:
        while True:
            part = list(itertools.islice(source, block))
            if part:
                running.append(pool.submit(work, part))
            if not running:
                return
            if len(running) > 2 * processes or not part:
                yield running.popleft().result()
    except BrokenProcessPool as error:
        raise MalmoiError(
            "a process of the pool ended before its work was done. It may have been killed "
            "because memory ran out: use fewer processes."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Journal:
    """The records of a long run next to its output, one JSON line each, while the run lasts.

    The first line is a key of the run's options: another key starts again. A record has an `id`
    and the `hash` of what it was made from.
    """

    def __init__(self, out: Path, key: str) -> None:
        self.path, self.key = out.with_name(f".{out.name}.journal"), key
        self.done: dict[str, str] = {}

    def resume(self) -> dict[str, str]:
        """Read the ids and hashes of the records that an interrupted run with this key left."""
        if self.path.exists():
            with self.path.open("rb") as file:
                if file.readline().strip() == self.key.encode():
                    self.done = {one["id"]: one["hash"] for _, one in _records(file)}
                else:
                    logger.info("an interrupted run had other options or data; starting again")
        return self.done

    @contextlib.contextmanager
    def appending(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Give a function that appends a record; all of them are on the disk at the end."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._begin()
            with self.path.open("ab") as file:
                counter = itertools.count(1)

                def append(record: dict[str, Any]) -> None:
                    line = json.dumps(record, ensure_ascii=False)
                    file.write((line + "\n").encode("utf-8", "surrogatepass"))
                    if next(counter) % _SYNC == 0:
                        file.flush()
                        os.fsync(file.fileno())

                yield append
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write {self.path.parent}: {error.strerror}. Choose another place with "
                "--out."
            ) from error

    def _begin(self) -> None:
        """Write the key, or remove a last line that the interruption cut short."""
        data = f"{self.key}\n".encode()
        if self.done:
            data = self.path.read_bytes()
        self.path.write_bytes(data[: data.rfind(b"\n") + 1])

    def in_order(self, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the newest record of each id; only their places are in memory."""
        with self.path.open("rb") as file:
            file.readline()
            places = {one["id"]: at for at, one in _records(file)}
            for name in ids:
                file.seek(places[name])
                yield json.loads(file.readline())

    def remove(self) -> None:
        """Forget the run: its output is written."""
        self.path.unlink(missing_ok=True)


def _records(file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    at = file.tell()
    for line in file:
        with contextlib.suppress(ValueError, KeyError):
            record = json.loads(line)
            record["id"], record["hash"]
            yield at, record
        at += len(line)
