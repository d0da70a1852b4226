"""Encoding in several processes, each with a model of its own; rows come back in order."""

import itertools
import multiprocessing
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..bundle.bundle import open_bundle
from ..bundle.catalog import find_model
from ..encoder import TextEncoder, load
from ..encoder.base import OnLong
from ..errors import CutWarning, MalmoiError, OptionError
from ..runtime.precision import Precision
from ..runtime.session import usable_cores

# What one process gets at a time: a second or so of work, so that the last ones end together.
_SHARE = 2048


@dataclass(frozen=True)
class _Options:
    dim: int | None
    precision: Precision
    prompt: str | None
    on_long: OnLong


_encoder: TextEncoder | None = None  # one a process, opened when the process starts


def encode_in_processes(
    name_or_path: str | Path | None,
    texts: Iterable[str],
    *,
    processes: int,
    dim: int | None = None,
    precision: Precision = "float32",
    prompt: str | None = None,
    on_long: OnLong = "cut",
) -> Iterator[NDArray[Any]]:
    """Yield one vector a text, in order, encoded by several processes that share the cores.

    Threads (what `malmoi.load` does by itself) share one copy of the model and are as fast on a
    few cores; processes pay on machines with many. Memory is bounded as in `encode_iter`.
    """
    if processes < 1:
        raise OptionError(f"processes is {processes}; expected 1 or more. Use 1 for threads alone.")
    open_bundle(find_model(name_or_path))  # a model that cannot be used is named here, once
    threads = max(1, usable_cores() // processes)
    options = _Options(dim, precision, prompt, on_long)
    # Spawned, not forked: a fork would copy locks that onnxruntime's threads may hold.
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_open,
        initargs=(name_or_path, threads),
    )
    try:
        yield from _ordered(pool, texts, options, ahead=2 * processes)
    except BrokenProcessPool as error:
        raise MalmoiError(
            "a process of the pool ended before its work was done; expected it to go on. It may "
            "have been killed for want of memory: use fewer processes."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ordered(
    pool: ProcessPoolExecutor, texts: Iterable[str], options: _Options, *, ahead: int
) -> Iterator[NDArray[Any]]:
    source = iter(texts)
    running: deque[Future[tuple[NDArray[Any], list[str]]]] = deque()
    while True:
        share = list(itertools.islice(source, _SHARE))
        if share:
            running.append(pool.submit(_encode, share, options))
        if not running:
            return
        if len(running) > ahead or not share:
            vectors, told = running.popleft().result()
            for message in told:
                warnings.warn(message, CutWarning, stacklevel=3)
            yield from vectors


def _open(name_or_path: str | Path | None, threads: int) -> None:
    global _encoder
    _encoder = load(name_or_path, threads=threads)


def _encode(texts: list[str], options: _Options) -> tuple[NDArray[Any], list[str]]:
    assert _encoder is not None  # _open ran when this process started
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = _encoder.encode(
            texts,
            dim=options.dim,
            precision=options.precision,
            prompt=options.prompt,
            on_long=options.on_long,
        )
    return vectors, [str(one.message) for one in caught if issubclass(one.category, CutWarning)]
