"""A server started and stopped: uvicorn with malmoi's settings, and silent.

Slow clients, addresses that open many connections and TLS are for a proxy in front; here uvicorn
limits headers and connections, and the middleware bodies, requests and time.
"""

import asyncio
import gc
import logging
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ..errors import CutWarning, OutputError
from .app import make_app
from .middleware import access_logger
from .settings import LOOPBACK, ServerSettings
from .state import AppState, Resources

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
        state = AppState(resources, settings)
        state.warm()
        server = _Server(configure(make_app(state), settings))
        server.reload_keys = state.reload_keys
        server.run([listener])


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
    """Set uvicorn: within our limits, and silent."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http="h11",  # it passes offers of HTTP/2 over, and ends headers that are too long
        h11_max_incomplete_event_size=settings.limits.header_bytes,
        limit_concurrency=settings.limits.connections,
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
