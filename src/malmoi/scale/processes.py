"""Encoding in several processes, each with its own model; rows come back in order."""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..bundle.bundle import find_model, open_bundle
from ..encoders import TextEncoder, load
from ..encoders.base import OnLong
from ..errors import CutWarning
from ..io.many import in_processes
from ..runtime.pooling import Precision
from ..runtime.session import usable_cores

# Texts for one process at a time: about a second of work, so that all end together.
_SHARE = 2048


_encoder: TextEncoder | None = None  # one for each process, loaded when it starts
_options: dict[str, Any] = {}


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
    """Yield one vector per text, in order, encoded by several processes that share the cores.

    Threads, which `malmoi.load` uses by itself, share one copy of the model and are as fast on a
    few cores; processes help on machines with many. Memory is bounded as in `encode_iter`.
    """
    open_bundle(find_model(name_or_path))  # so that an unusable model is reported once
    threads = max(1, usable_cores() // max(processes, 1))
    options = {"dim": dim, "precision": precision, "prompt": prompt, "on_long": on_long}
    start = (name_or_path, threads, options)
    found = in_processes(
        texts, _encode, processes=processes, block=_SHARE, start=_open, arguments=start
    )
    for vectors, cuts in found:
        for message in cuts:
            warnings.warn(message, CutWarning, stacklevel=2)
        yield from vectors


def _open(name_or_path: str | Path | None, threads: int, options: dict[str, Any]) -> None:
    global _encoder, _options
    _encoder, _options = load(name_or_path, threads=threads), options


def _encode(texts: list[str]) -> tuple[NDArray[Any], list[str]]:
    assert _encoder is not None  # _open ran when this process started
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = _encoder.encode(texts, **_options)
    return vectors, [str(one.message) for one in caught if issubclass(one.category, CutWarning)]
