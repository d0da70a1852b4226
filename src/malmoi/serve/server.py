"""A server started and stopped: uvicorn with malmoi's limits on each connection."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import warnings
from collections.abc import Callable
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
# What was loaded at the start stays, so the collector of cycles need not look at it again; and
# requests leave next to no cycles, so it need not look often.
_COLLECT_AFTER = 20_000


class Connection(asyncio.Protocol):
    """A connection whose requests must come in time, in front of uvicorn's own reader.

    Bytes that come while no request is being answered have to become one within
    `header_seconds`, and have to be few. The middleware says when a request begins and ends, and
    hears from here when its client goes, also when uvicorn has read further requests by then.
    """

    def __init__(self, **options: Any) -> None:
        self._shared = {**options.pop("app_state"), CONNECTION: self}  # uvicorn puts it into scopes
        self._state: AppState = self._shared[STATE]
        self._limits = self._state.settings.limits
        self._http: asyncio.Protocol = HttpToolsProtocol(app_state=self._shared, **options)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._leave: Callable[[], None] | None = None  # while a request is being answered
        self._arriving = False
        self._read, self._room = 0, self._limits.header_bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = _Transport(cast(asyncio.Transport, transport))
        self._http.connection_made(cast(asyncio.Transport, self._transport))
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; those that belong to no request yet are counted and timed."""
        self._http.data_received(data)
        if self._leave is None:
            self._read += len(data)
            if self._timer is None:
                self._start_timer()
            if not self._arriving:
                # A batch waits for requests that are about to begin; see `Batcher._ready`. One
                # whose headers are whole begins before `_settle` is called.
                self._arriving = True
                self._state.arriving += 1
                self._loop.call_soon(self._settle)

    def eof_received(self) -> bool | None:
        return self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the request that is being answered."""
        self._stop_timer()
        self._shared.clear()  # a circle of references, which the collector would find late
        self._http.connection_lost(exc)
        if self._leave is not None:
            self._leave()

    # What the middleware says of a request; see `middleware.Tracked`.

    def begin(self, leave: Callable[[], None]) -> None:
        self._stop_timer()
        self._count_out()
        self._leave, self._read = leave, 0

    def answer(self) -> None:
        self._transport.hold()

    def finish(self, *, unread: bool) -> None:
        self._transport.flush()
        self._leave = None
        # What is left of a body that was not read comes before the next request.
        self._room = self._limits.header_bytes + (self._limits.body_bytes if unread else 0)

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self._limits.header_seconds, self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count_out(self) -> None:
        self._state.arriving -= self._arriving
        self._arriving = False

    def _settle(self) -> None:
        """Refuse headers that are too long and not whole yet."""
        self._count_out()
        if self._leave is not None or self._read <= self._room or self._transport.is_closing():
            return
        body = APIError(431, "headers_too_large", "the headers are too long. Send fewer.").body()
        head = (
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        )
        self._transport.write(head + body)
        self._transport.close()


class _Transport:
    """What uvicorn writes to: an answer's headers and body go out in one piece.

    It ignores what is written after the end, since an answer may be ready when its client has
    just gone; uvloop's own raises then.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def hold(self) -> None:
        """Keep what is written until `flush`: a call to the system takes as long as a vector."""
        self._held = []

    def flush(self) -> None:
        held, self._held = self._held, None
        if held and not self._transport.is_closing():
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
    with _listen(settings) as listener:
        app = make_app(AppState(resources, settings))
        _Server(configure(app, settings)).run([listener])


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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order; a second Ctrl-C stops at once. uvicorn would raise the signal again."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            logger.info("serving on http://%s:%d/ (stop with Ctrl-C)", shown, port)
