"""A function for each path: it takes the state and a checked body, and gives the answer.

`app.ROUTES` lists them with their schemas; a new route is a function here and a line there.
"""

import base64
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pydantic_core
from starlette.responses import Response

from ...types import Floats
from ..state import AppState

T = TypeVar("T")
_LARGE = 20_000  # numbers of an answer that is written outside the event loop
_PIECE = 32  # rows that are written at once, fewer if they have more than `_SHORT` bytes
_SHORT = 50_000


def json_response(content: Any, *, cut: int = 0) -> Response:
    """Make the answer's bytes with pydantic's writer, which is three times json's speed."""
    return _response(pydantic_core.to_json(content), cut)


def _response(body: bytes, cut: int) -> Response:
    # How many texts were cut has no place in OpenAI's shape, so it is in a header.
    headers = {"x-malmoi-cut": str(cut)} if cut else None
    return Response(body, 200, headers, media_type="application/json")


async def write_response(
    state: AppState,
    content: Mapping[str, Any] | Iterator[Any],
    *,
    numbers: int,
    cut: int = 0,
) -> Response:
    """Make an answer with this many numbers, in a thread where they are many.

    An iterator in it is written as a list, a few elements at a time: so there is never a copy of
    all numbers as Python's, and nobody else waits for more than a millisecond or two.
    """
    work = partial(make_response, state, content, cut=cut)
    return await run_if_large(state, work, numbers=numbers)


async def run_if_large(state: AppState, work: Callable[[], T], *, numbers: int) -> T:
    """Do something with this many numbers: in a thread where they are many, else at once."""
    return await state.engine.convert(work) if numbers > _LARGE else work()


def make_response(
    state: AppState, content: Mapping[str, Any] | Iterator[Any], *, cut: int = 0
) -> Response:
    """Make an answer where this thread is, as `write_response` does; refuse one too large.

    Objects by the hundred thousand are to be written where they were made: the event loop would
    need as long to free them.
    """
    parts, size = list[bytes](), 0
    for part in _pieces(content):
        parts.append(part)
        size += len(part)
        state.check_answer(size)
    return _response(b"".join(parts), cut)


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, list | Iterator):
        yield from _list_pieces(value)
    elif isinstance(value, Mapping) and value:
        mark = b"{"
        for name, own in value.items():
            yield mark + pydantic_core.to_json(name) + b":"
            yield from _pieces(own)
            mark = b","
        yield b"}"
    else:
        yield pydantic_core.to_json(value)


def _list_pieces(values: list[Any] | Iterator[Any]) -> Iterator[bytes]:
    mark, stream, size = b"[", iter(values), 1
    while piece := list(itertools.islice(stream, size)):
        yield mark
        written = pydantic_core.to_json(piece)[1:-1]
        yield written
        mark, size = b",", min(2 * size, _PIECE) if len(written) < _SHORT else max(size // 2, 1)
    yield b"]" if mark == b"," else b"[]"


def as_list(texts: str | list[str]) -> list[str]:
    """Give texts as a list, also where one came alone."""
    return [texts] if isinstance(texts, str) else texts


def write_vectors(vectors: Floats, encoding_format: str) -> Iterator[Any]:
    """Write vectors (n, dim) one after the other, as numbers or in base64."""
    for start in range(0, len(vectors), _PIECE):
        rows = vectors[start : start + _PIECE]
        if encoding_format == "base64":
            # Little-endian whatever the machine, as the openai client reads it.
            rows = np.ascontiguousarray(rows, dtype="<f4")
            yield from (base64.b64encode(row.tobytes()).decode("ascii") for row in rows)
        else:
            # Seven decimals hold all that float32 has to say of a unit vector.
            yield from rows.astype(np.float64).round(7).tolist()
