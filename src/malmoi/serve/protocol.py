"""uvicorn's fast HTTP/1.1 reader, with a limit to how long and how slowly headers may come.

Small requests with a JSON body leave it here and are answered the quick way.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .guard import Guard
from .quick import Quick, quick_for
from .settings import Limits


def bounded(limits: Limits, guard: Guard) -> type[HttpToolsProtocol]:
    """Make the protocol class for a server with these limits."""

    class Bounded(HttpToolsProtocol):
        """A connection that is closed when its headers grow without end, or never end."""

        _read = 0
        _in_head = True
        _quick: Quick | None = None  # while its body is being read
        _begun: Quick | None = None  # the last one, whether answered or not
        _running: Any = None  # the same of uvicorn's own kind
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.access_log = False  # uvicorn's own line would show a path, which may be text
            self._expect()

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._read += len(data)
            super().data_received(data)
            if self._quick is not None:
                self._quick.wait()
            elif self._in_head and not self._closing:
                # Only headers that do not come at once are given a time.
                if self._read > limits.header_bytes:
                    self.send_400_response("The headers are too long.")
                elif self._timer is None:
                    self._expect()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_head, self._read = True, 0

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._forget()
            self._quick = quick_for(guard, self)
            if self._quick is None:
                super().on_headers_complete()
            else:
                self._begun = self._quick
                self.cycle = self._quick  # type: ignore[assignment]

        def on_body(self, body: bytes) -> None:
            if self._quick is None:
                super().on_body(body)
            else:
                self._quick.feed(body)

        def on_message_complete(self) -> None:
            if self._quick is None:
                super().on_message_complete()
            else:
                self._quick.complete()
                self._quick = None  # what comes next is another request

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._running = cycle
            super()._start_asgi_task(cycle, app)

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            if self._begun is not None:
                self._begun.leave()
            # uvicorn tells the request that came last, which may wait behind the one that runs.
            if self._running is not None and not self._running.response_complete:
                self._running.disconnected = True
                self._running.message_event.set()
            super().connection_lost(exc)

        @property
        def _closing(self) -> bool:
            return self.transport.is_closing()

        def _expect(self) -> None:
            self._forget()
            self._timer = self.loop.call_later(limits.header_seconds, self._too_slow)

        def _forget(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _too_slow(self) -> None:
            self._timer = None
            if not self._closing:
                self.transport.close()

    return Bounded
