"""A server started and stopped: uvicorn with malmoi's limits on each connection."""

import asyncio
import contextlib
import gc
import logging
import re
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..errors import CutWarning, OutputError
from .app import make_app
from .errors import APIError
from .middleware import CONNECTION, access_logger
from .settings import LOOPBACK, ServerSettings
from .state import STATE, AppState, Resources

logger = logging.getLogger(__name__)

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# They go with every answer, and keep a browser strict.
HEADERS = [
    ("content-security-policy", CSP),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
]
# Threads that encode and the loop that answers share one lock; asking for it back often keeps
# answers quick while batches are made ready.
_SWITCH_SECONDS = 0.001
_IDLE_SECONDS = 30
# A client that is refused before its body is read has this long to send the rest, which is dropped.
_LINGER_SECONDS, _LINGER_BYTES = 5, 64 * 1024 * 1024
# The client of a large answer has to read this much in `write_seconds`, and all of it in the end.
_PROGRESS, _LONGEST_WRITE = 64 * 1024, 600
_OWN_FILES = 64  # that are open besides connections: models, corpora, logs
_BUFFERED = 64 * 1024  # bytes of an answer that need not be waited for
_UPGRADE = re.compile(rb"\r\n(?:upgrade|http2-settings)[ \t]*:[^\r\n]*(?=\r\n)", re.IGNORECASE)
# What was loaded at the start stays, so the collector of cycles need not look at it again; and
# requests leave next to no cycles, so it need not look often.
_COLLECT_AFTER = 20_000


class Connection(asyncio.Protocol):
    """A connection whose requests must come in time, in front of uvicorn's own reader.

    One timer always runs: for bytes to become a request within `header_seconds`, for the answer,
    for the client to read it, and for the next request. The middleware says when a request begins
    and ends, and hears from here when its client goes, also when uvicorn has read further requests
    by then.
    """

    def __init__(self, **options: Any) -> None:
        self._shared = {**options.pop("app_state"), CONNECTION: self}  # uvicorn puts it into scopes
        self._state: AppState = self._shared[STATE]
        self._limits = self._state.settings.limits
        self._http: asyncio.Protocol = HttpToolsProtocol(app_state=self._shared, **options)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._on_disconnect: Callable[[], None] | None = None  # while a request is being answered
        self._pending_headers = self._lingering = self._lost = False
        self._unread = True  # what comes may be the rest of a body that nobody reads
        self._read, self._room = 0, self._limits.header_bytes
        self.received = 0  # bytes of a body as they came, with the marks of its chunks
        self._head: bytes | None = b""  # the start of a request; None where it cannot be told

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request, unless there are too many connections."""
        self._transport = _Transport(cast(asyncio.Transport, transport), self._close)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._http.connection_made(cast(asyncio.Transport, self._transport))
        self._start_timer(self._limits.header_seconds)
        if not self._state.connections.add(self, self._address):
            message = "too many connections are open. Try again."
            self._write(APIError(503, "too_many_connections", message, wait=1))
            self._transport.end()

    @property
    def idle(self) -> bool:
        """Whether no request is being answered or sent."""
        return self._on_disconnect is None

    def drop(self) -> None:
        """End at once, without a word."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; those that belong to no request yet are counted and timed."""
        if self._lingering:
            self._read += len(data)
            if self._read > _LINGER_BYTES:
                self._transport.abort()
            return
        if self._on_disconnect is not None:
            if not self._unread:
                self._head = None  # a request before this one is answered: it begins anywhere
            self.received += len(data)
            self._http.data_received(data)
            return
        if not self._read:
            self._start_timer(self._limits.header_seconds)
        self._read += len(data)
        if data := self._without_upgrade(data):
            self._http.data_received(data)
        if not self._pending_headers:
            # A batch waits for requests that are about to begin; see `Batcher._ready`. One
            # whose headers are whole begins before `_settle` is called.
            self._pending_headers = True
            self._state.pending_headers += 1
            self._loop.call_soon(self._settle)

    def _without_upgrade(self, data: bytes) -> bytes:
        """Take an offer to change the protocol out of a request's headers, when they are whole.

        Clients that would speak HTTP/2 offer it so (h2c); the reader behind would stop at the
        offer, and drop the body.
        """
        if self._head is None:
            return data
        head = self._head + data
        end = head.find(b"\r\n\r\n")
        if end < 0:
            self._head = head
            return b""
        self._head = b""
        return _UPGRADE.sub(b"", head[: end + 2]) + head[end + 2 :]

    def eof_received(self) -> bool | None:
        return None if self._lingering else self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the request that is being answered."""
        self._lost = True
        self._stop_timer()
        self._state.connections.remove(self, self._address)
        self._shared.clear()  # a circle of references, which the collector would find late
        self._http.connection_lost(exc)
        if self._on_disconnect is not None:
            self._on_disconnect()

    # What the middleware says of a request; see `middleware.Tracked`.

    def on_request_start(self, leave: Callable[[], None]) -> None:
        limits = self._limits
        self._count_out()
        self._on_disconnect, self._read, self._unread, self.received = leave, 0, True, 0
        # The work has deadlines of its own; this one is for what nobody has thought of.
        self._start_timer(limits.body_seconds + 2 * limits.seconds)

    def body_read(self) -> None:
        self._unread = False

    def on_response_start(self) -> None:
        self._transport.hold()

    async def on_response_sent(self) -> None:
        """Wait until the client has read nearly all; one that does not read is dropped."""
        self._transport.flush()
        left = self._transport.unsent()
        if left <= _BUFFERED:
            return
        pause, seen, until = 0.005, left, self._loop.time() + self._limits.write_seconds
        self._start_timer(_LONGEST_WRITE)
        while left > _BUFFERED and not self._lost:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
            left = self._transport.unsent()
            if self._loop.time() > until:
                if seen - left < _PROGRESS:
                    self._transport.abort()
                    return
                seen, until = left, self._loop.time() + self._limits.write_seconds

    def on_request_end(self) -> None:
        self._transport.flush()
        self._on_disconnect, self._read = None, 0
        if not self._lingering:
            self._start_timer(_IDLE_SECONDS)
        # What is left of a body that was not read comes before the next request.
        self._room = self._limits.header_bytes + (self._limits.body_bytes if self._unread else 0)
        if self._unread:
            self._head = None

    def _close(self) -> None:
        """Close after the answer; where a body may still come, read it first and forget it.

        A system that has unread bytes resets the connection, and the client never sees why.
        """
        if self._lost or self._lingering:
            return
        if not self._unread or not self._transport.can_write_eof():
            self._transport.end()
            return
        self._lingering, self._read = True, 0
        self._transport.write_eof()
        with contextlib.suppress(RuntimeError):  # it is not paused
            self._transport.resume_reading()
        self._start_timer(min(_LINGER_SECONDS, self._limits.header_seconds))

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, self._transport.expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count_out(self) -> None:
        self._state.pending_headers -= self._pending_headers
        self._pending_headers = False

    def _settle(self) -> None:
        """Refuse headers that are too long and not whole yet."""
        self._count_out()
        if (
            self._on_disconnect is not None
            or self._read <= self._room
            or self._transport.is_closing()
        ):
            return
        self._write(APIError(431, "headers_too_large", "the headers are too long. Send fewer."))
        self._transport.close()

    def _write(self, error: APIError) -> None:
        """Answer without uvicorn."""
        body = error.body()
        head = (
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n"
        )
        phrase = HTTPStatus(error.status).phrase.encode()
        self._transport.write(head % (error.status, phrase, len(body)) + body)


class _Transport:
    """What uvicorn writes to: an answer's headers and body go out in one piece.

    It ignores what is written after the end, since an answer may be ready when its client has
    just gone; uvloop's own raises then. uvicorn's `close` is the connection's to do.
    """

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport, self._close = transport, close
        self._held: list[bytes] | None = None
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
        elif not self.is_closing():
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        self.flush()
        self._closing = True
        self._close()

    def end(self) -> None:
        """Close when all that was written is read."""
        self._closing = True
        self._transport.close()

    def expire(self) -> None:
        """Close now: what is not read by then never will be."""
        self._closing = True
        self._transport.abort() if self.unsent() else self._transport.close()

    def unsent(self) -> int:
        """How many bytes the client has not taken yet."""
        try:
            return self._transport.get_write_buffer_size()
        except RuntimeError:  # uvloop's is closed
            return 0

    def hold(self) -> None:
        """Keep what is written until `flush`: a call to the system takes as long as a vector."""
        self._held = []

    def flush(self) -> None:
        held, self._held = self._held, None
        if held and not self.is_closing():
            self._transport.writelines(held)


def serve(resources: Resources, settings: ServerSettings, *, access_log: bool = False) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish what was accepted."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    warnings.simplefilter("ignore", CutWarning)  # who asked finds it in a header
    access_logger.setLevel(logging.INFO if access_log else logging.WARNING)
    if settings.host not in LOOPBACK and settings.keys is None:
        logger.warning(
            "listening on %s without keys: anyone who reaches this machine may call. "
            "Make a key with `malmoi key`, and name the file with --api-keys.",
            settings.host,
        )
    limits = settings.limits
    files = _raise_open_files() - _OWN_FILES
    if files < limits.connections:
        settings = replace(settings, limits=replace(limits, connections=max(files, 1)))
    with _listen(settings) as listener:
        state = AppState(resources, settings)
        state.warm()
        server = _Server(configure(make_app(state), settings))
        server.reload_keys = state.reload_keys
        server.run([listener])


def _raise_open_files() -> int:
    """Allow this process as many open files as it may have, and say how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def _listen(settings: ServerSettings) -> socket.socket:
    """Open the port, or say that it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {settings.host} port {settings.port}: it is taken, or not allowed. "
            "Choose another with --port."
        ) from error


def configure(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """Set uvicorn: its fast reader within our limits, and silent."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # its line would show a path, which may be text
        headers=HEADERS,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(settings.stop_seconds),
    )


class _Server(uvicorn.Server):
    """uvicorn's server, which says where it listens in one line, and leaves with exit code 0."""

    reload_keys: Callable[[], None] | None = None  # done at SIGHUP

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order, however often it is asked. uvicorn would raise the signal again."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        if self.reload_keys is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload_keys)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            logger.info("serving on http://%s:%d/ (stop with Ctrl-C)", shown, port)
