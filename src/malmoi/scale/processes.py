"""Encoding in several processes, each with its own model; rows come back in order."""

import itertools
import multiprocessing
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..bundle.bundle import open_bundle
from ..bundle.catalog import find_model
from ..encoders import TextEncoder, load
from ..encoders.base import OnLong
from ..errors import CutWarning, MalmoiError, OptionError
from ..runtime.precision import Precision
from ..runtime.session import usable_cores

# Texts for one process at a time: about a second of work, so that all end together.
_SHARE = 2048


_encoder: TextEncoder | None = None  # one a process, loaded when the process starts


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

    Threads, which `malmoi.load` uses by itself, share one copy of the model and are as fast on a
    few cores; processes help on machines with many. Memory is bounded as in `encode_iter`.
    """
    if processes < 1:
        raise OptionError(f"processes is {processes}; expected 1 or more. Use 1 for threads alone.")
    open_bundle(find_model(name_or_path))  # so that an unusable model is reported once
    threads = max(1, usable_cores() // processes)
    options = {"dim": dim, "precision": precision, "prompt": prompt, "on_long": on_long}
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
            "a process of the pool ended before its work was done. It may have been killed "
            "because memory ran out: use fewer processes."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ordered(
    pool: ProcessPoolExecutor, texts: Iterable[str], options: dict[str, Any], *, ahead: int
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
            vectors, cuts = running.popleft().result()
            for message in cuts:
                warnings.warn(message, CutWarning, stacklevel=3)
            yield from vectors


def _open(name_or_path: str | Path | None, threads: int) -> None:
    global _encoder
    _encoder = load(name_or_path, threads=threads)


def _encode(texts: list[str], options: dict[str, Any]) -> tuple[NDArray[Any], list[str]]:
    assert _encoder is not None  # _open ran when this process started
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = _encoder.encode(texts, **options)
    return vectors, [str(one.message) for one in caught if issubclass(one.category, CutWarning)]
