"""The shortest way: a small JSON body is gathered by its connection, and one task answers it.

uvicorn's own way is a dictionary of all there is to know, messages and events for a body that may
come in parts, and a watch for clients that go. For a short text that costs more than everything
else but its vector. Whatever is large, odd or has no JSON body still goes uvicorn's way.
"""

import asyncio
import http
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .direct import Way, answer
from .guard import GONE, HEADERS, Guard, Header, answer_no
from .keys import Key
from .refusals import Refusal

MOST = 64 * 1024  # bytes of a body that is gathered here


class _Nobody:
    """Stands for the event that uvicorn sets to wake a request's reader; none waits here."""

    def set(self) -> None:
        """Do nothing."""


_NOBODY = _Nobody()
_STATUS = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in http.HTTPStatus}
_FIXED = b"".join(b"%s: %s\r\n" % pair for pair in HEADERS) + b"\r\n"


class Quick:
    """One request, from its headers to its answer, where uvicorn keeps its own kind of it."""

    def __init__(self, guard: Guard, way: Way, line: HttpToolsProtocol) -> None:
        self._guard, self._way, self._line = guard, way, line
        self.keep_alive: bool = line.parser.should_keep_alive()
        self.response_complete = self.disconnected = False
        self.message_event = _NOBODY
        self._body = b""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._key: Key | None = None
        self._began = time.perf_counter()
        guard.house.running += 1

    def admit(self, headers: dict[bytes, bytes]) -> None:
        """Let the guard look at the headers; who is refused is told so at once."""
        scope = {"path": self._way.route.path, "headers": self._line.headers}
        try:
            self._key = self._guard.admit(scope, headers)
        except Exception as error:
            self._refuse(error)

    def feed(self, part: bytes) -> None:
        """Take a part of the body."""
        if self.response_complete:
            return
        self._body += part
        try:
            self._guard.hold(len(part))
        except Refusal as error:
            self._refuse(error)

    def wait(self) -> None:
        """Wait for the rest of the body, but not for ever."""
        if self._task is None and self._timer is None and not self.response_complete:
            late = Refusal(408, "slow_body", "the body came too slowly. Send it at once.")
            seconds = self._guard.limits.body_seconds
            self._timer = self._line.loop.call_later(seconds, self._refuse, late)

    def complete(self) -> None:
        """Begin to answer: the body is whole."""
        if self.response_complete:
            return
        self._forget_timer()
        self._task = self._line.loop.create_task(self._run())
        self._line.tasks.add(self._task)

    def leave(self) -> None:
        """Drop the work: the client has gone."""
        if not self.response_complete:
            self.disconnected = True
            self._finish(GONE)
            if self._task is not None:
                self._task.cancel()

    async def _run(self) -> None:
        try:
            response = await answer(self._way, self._body)
            if self._line.flow.write_paused:  # the client does not read what it has been sent
                await self._line.flow.drain()
            self._reply(response.status_code, response.raw_headers, bytes(response.body))
        except Exception as error:
            self._refuse(error)
        finally:
            if not self.response_complete:  # cancelled by a stop that has waited long enough
                self._finish(GONE)
                self._line.transport.close()

    def _refuse(self, error: Exception) -> None:
        no = answer_no(error)
        self.keep_alive = self.keep_alive and not no.last
        self._reply(no.status, no.headers, no.body)

    def _reply(self, status: int, headers: list[Header], body: bytes) -> None:
        if self.response_complete:
            return
        content: list[bytes] = [_STATUS[status]]
        for name, value in (*self._line.server_state.default_headers, *headers):
            content += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            content.append(b"connection: close\r\n")
        content += (_FIXED, body)
        self._finish(status)
        self._line.transport.write(b"".join(content))
        if not self.keep_alive:
            self._line.transport.close()
        self._line.on_response_complete()

    def _finish(self, status: int) -> None:
        self.response_complete = True
        self._forget_timer()
        self._line.tasks.discard(self._task)
        self._guard.house.running -= 1
        self._guard.release(len(self._body))
        seconds = time.perf_counter() - self._began
        self._guard.note("POST", self._way.route.path, status, seconds, self._key)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def quick_for(guard: Guard, line: Any) -> Quick | None:
    """Make the request of a connection whose headers have been read a quick one, if it can be."""
    way = guard.ways.get(line.url)
    parser, before = line.parser, line.cycle
    if way is None or parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
        return None
    if (before is not None and not before.response_complete) or line.expect_100_continue:
        return None
    headers = dict(line.headers)
    size = headers.get(b"content-length", b"")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not size.isdigit() or len(size) > 6 or kind != b"application/json":
        return None
    if int(size) > min(MOST, guard.limits.body_bytes):
        return None
    if b"upgrade" in headers or b"transfer-encoding" in headers:
        return None
    made = Quick(guard, way, line)
    made.admit(headers)
    return made
