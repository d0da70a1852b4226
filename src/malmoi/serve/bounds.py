"""What one request may cost: the values of its body, and the memory of its answer.

A schema says how many values a body can have, since every list in it has a longest length. They
are counted in the bytes before anything is made of them, and the count ends where it passes what
the schema allows; so a hostile body costs neither the time nor the memory of its values. What an
answer takes is estimated before it is computed, and reserved in a budget of all requests.
"""

import contextlib
import ctypes
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from .errors import APIError, invalid_body

Model = TypeVar("Model", bound=BaseModel)
LONG = 16 * 1024  # bytes of a body that is parsed outside the event loop
LARGE = 8_000_000  # bytes of an answer after which freed memory is given back
_MOST_VALUES = 262_144  # of one body, whatever its schema says: token ids of a large request
_SPARE = 32  # a few wrong fields are described by their names, not by their number
_BLOCK = 1 << 17  # bytes that are counted at once: they stay in the cache
_QUOTE, _BACKSLASH, _COMMA, _COLON, _LIST, _OBJECT = b'"\\,:[{'


@dataclass(frozen=True)
class ValueCounts:
    """How many values, fields, and lists and objects a body has, or may have."""

    values: int = 1
    fields: int = 0
    containers: int = 0

    def __iter__(self) -> Iterator[int]:
        return iter((self.values, self.fields, self.containers))

    def __add__(self, other: "ValueCounts") -> "ValueCounts":
        return ValueCounts(*map(operator.add, self, other))

    def __mul__(self, times: int) -> "ValueCounts":
        return ValueCounts(*(count * times for count in self))

    def __or__(self, other: "ValueCounts") -> "ValueCounts":
        """The most of either."""
        return ValueCounts(*map(max, self, other))

    def exceed(self, most: "ValueCounts") -> bool:
        """Tell whether one of them is larger than it may be."""
        return any(map(operator.gt, self, most))


def parse(schema: type[Model], body: bytes | bytearray) -> Model:
    """Check a body and make its request; raises APIError at the first thing that is wrong."""
    most = most_values(schema)
    # Two bytes make a value at least.
    if len(body) > 2 * min(most.fields, most.containers) and count_values(body, most).exceed(most):
        message = f"the body has more than the {most.values:,} values or {most.fields:,} fields"
        remedy = "that this path takes at most. Send parts; see /openapi.json."
        raise APIError(413, "too_many_values", f"{message} {remedy}")
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise invalid_body(error) from None


@cache
def most_values(schema: type[BaseModel]) -> ValueCounts:
    """Work out how many values a body of this schema can have.

    Raises TypeError for a list or mapping without a longest length: nothing would bound it.
    """
    document = schema.model_json_schema()
    found = _most(document, document.get("$defs", {})) + ValueCounts(_SPARE, _SPARE, _SPARE)
    return ValueCounts(min(found.values, _MOST_VALUES), found.fields, found.containers)


def _most(part: Mapping[str, Any], known: Mapping[str, Any]) -> ValueCounts:
    if "$ref" in part:
        return _most(known[part["$ref"].rpartition("/")[2]], known)
    for name in ("anyOf", "oneOf", "allOf"):
        if name in part:
            found = ValueCounts()
            for choice in part[name]:
                found |= _most(choice, known)
            return found
    match part.get("type"):
        case "array":
            return _most(part["items"], known) * _bound(part, "maxItems") + ValueCounts(1, 0, 1)
        case "object" if "properties" in part:
            found = ValueCounts(1, 0, 1)
            for field in part["properties"].values():
                found += _most(field, known) + ValueCounts(0, 1, 0)
            return found
        case "object":
            own = _most(part["additionalProperties"], known) + ValueCounts(0, 1, 0)
            return own * _bound(part, "maxProperties") + ValueCounts(1, 0, 1)
        case "string" | "integer" | "number" | "boolean" | "null":
            return ValueCounts()
    if "const" in part or "enum" in part:
        return ValueCounts()
    raise TypeError(f"a field of a request takes anything: {part}; expected a type with a bound.")


def _bound(part: Mapping[str, Any], name: str) -> int:
    if name not in part:
        raise TypeError(f"a list or mapping of a request has no {name}: {part}. Set max_length.")
    return int(part[name])


def count_values(body: bytes | bytearray, most: ValueCounts) -> ValueCounts:
    """Count the values, fields and containers of a body, at least until they exceed the most.

    Marks inside of strings are text. What is not JSON is counted too, somehow; the parser that
    reads it afterwards stops where it is wrong.

    >>> count_values(b'{"input": ["a, b", "c\\\\", [d"]}', ValueCounts(100, 100, 100))
    ValueCounts(values=4, fields=1, containers=2)
    """
    data = np.frombuffer(body, dtype=np.uint8)
    found, inside, escaped = ValueCounts(), False, False
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        quotes = block == _QUOTE
        if escaped or body.find(_BACKSLASH, start, start + _BLOCK) >= 0:
            after, escaped = _escaped(block, escaped)
            quotes[after] = False
        text = np.logical_xor.accumulate(quotes) if quotes.any() else quotes
        outside = text if inside else ~text
        inside ^= bool(text[-1])
        marks = block[outside]
        opened = int(np.count_nonzero(marks == _LIST) + np.count_nonzero(marks == _OBJECT))
        commas, colons = (int(np.count_nonzero(marks == mark)) for mark in (_COMMA, _COLON))
        found += ValueCounts(opened + commas, colons, opened)
        if found.exceed(most):
            break
    return found


def _escaped(block: NDArray[np.uint8], carried: bool) -> tuple[NDArray[np.intp], bool]:
    """Where a backslash escapes a sign, and whether the next block begins with one."""
    slashes = np.flatnonzero(block == _BACKSLASH)
    first = np.zeros(int(carried), dtype=np.intp)
    if carried and len(slashes) and slashes[0] == 0:
        slashes = slashes[1:]  # it is escaped itself, and escapes nothing
    if not len(slashes):
        return first, False
    begins = np.diff(slashes, prepend=-2) != 1
    run = np.maximum.accumulate(np.where(begins, slashes, 0))
    after = slashes[(slashes - run) % 2 == 0] + 1  # every other of a run of backslashes escapes
    ends = bool(after[-1] == len(block))
    return np.concatenate([first, after[:-1] if ends else after]), ends


class Memory:
    """The bytes that all running requests may take together; used inside the event loop."""

    def __init__(self, total: int, one: int) -> None:
        self._total, self._one = total, one
        self.used = 0

    @contextlib.contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Hold this many bytes within the block; refused where they are too many."""
        self.check(size)
        if self.used + size > self._total:
            message = "the requests that are being answered take all memory there is for them."
            raise APIError(429, "busy", f"{message} Try again.", wait=1)
        self.used += size
        try:
            yield
        finally:
            self.used -= size

    def check(self, size: int) -> None:
        """Refuse an answer that takes more than one request may; any thread may ask."""
        if size > self._one:
            message = f"the answer would take about {size / 1e6:,.0f} MB; at most"
            remedy = "Send fewer or shorter texts, or ask for fewer layers or results."
            most = f"{self._one / 1e6:,.0f} MB are given to one request."
            raise APIError(413, "answer_too_large", f"{message} {most} {remedy}")


class Droppable(Protocol):
    """A connection as the count of connections sees it."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered on it."""

    def drop(self) -> None:
        """End it."""


class Connections:
    """The open connections, limited in all and from one address; used inside the event loop."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most, self._per_address = most, per_address
        self._open: dict[str, dict[Droppable, None]] = {}  # by address, the oldest first
        self.count = 0

    def add(self, connection: Droppable, address: str) -> bool:
        """Count one; where there are too many, the oldest that is idle has to go, or this one."""
        own = self._open.get(address, {})
        if len(own) >= self._per_address:
            fits = self._drop_idle(address)
        else:
            fits = self.count < self._most or any(map(self._drop_idle, [*self._open]))
        if fits:
            self._open.setdefault(address, {})[connection] = None
            self.count += 1
        return fits

    def remove(self, connection: Droppable, address: str) -> None:
        """Forget one, if it was counted."""
        own = self._open.get(address, {})
        if connection in own:
            del own[connection]
            self.count -= 1
            if not own:
                del self._open[address]

    def _drop_idle(self, address: str) -> bool:
        found = next((one for one in self._open[address] if one.idle), None)
        if found is not None:
            self.remove(found, address)  # now, and not when it is lost: it is chosen once
            found.drop()
        return found is not None


def trim_memory() -> None:
    """Hand freed memory back to the system; glibc keeps it, in every thread, until it is asked."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
