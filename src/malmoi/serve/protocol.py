"""uvicorn's fast HTTP/1.1 reader, with a limit to how long and how slowly headers may come."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .settings import Limits


def bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """Make the protocol class for a server with these limits."""

    class Bounded(HttpToolsProtocol):
        """A connection that is closed when its headers grow without end, or never end."""

        _read = 0
        _in_head = True
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.access_log = False  # uvicorn's own line would show a path, which may be text
            self._expect()

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._read += len(data)
            super().data_received(data)
            if self._in_head and self._read > limits.header_bytes and not self._closing:
                self.send_400_response("The headers are too long.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_head, self._read = True, 0
            self._expect()

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._forget()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
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
            if not self._closing:
                self.transport.close()

    return Bounded
