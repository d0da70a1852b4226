"""A server started and stopped: uvicorn with malmoi's limits, and what is told on the way."""

import contextlib
import gc
import logging
import socket
import sys
import warnings
from collections.abc import Iterator

import uvicorn

from ..errors import CutWarning, OutputError
from .app import make_app
from .guard import Guard
from .house import Stock
from .protocol import bounded
from .settings import Settings

logger = logging.getLogger(__name__)

# Threads that encode and the loop that answers share one lock; asking for it back often keeps
# answers quick while batches are made ready.
_SWITCH_SECONDS = 0.001
_IDLE_SECONDS = 30
# What was loaded at the start stays, so the collector of cycles need not look at it again; and
# requests leave next to no cycles, so it need not look often.
_COLLECT_AFTER = 20_000


def serve(stock: Stock, settings: Settings, *, access_log: bool = False) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish what was accepted."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    warnings.simplefilter("ignore", CutWarning)  # who asked is told, in a header
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("malmoi.serve").setLevel(logging.INFO if access_log else logging.WARNING)
    if settings.open_wide:
        logger.info(
            f"listening on {settings.host} without keys: anyone who reaches this machine may call. "
            "Make a key with `malmoi key`, and name the file with --api-keys."
        )
    with _listening(settings) as listener:
        config = configure(make_app(stock, settings), settings)
        _Server(config).run([listener])


def _listening(settings: Settings) -> socket.socket:
    """Open the port, or say that it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {settings.host} port {settings.port}: it is taken, or not allowed. "
            "Choose another with --port."
        ) from error


def configure(app: Guard, settings: Settings) -> uvicorn.Config:
    """Set uvicorn: its fast reader within our limits, and silent."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=bounded(settings.limits, app),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(settings.stop_seconds),
    )


class _Server(uvicorn.Server):
    """uvicorn's server, which says where it listens in one line, and leaves with exit code 0."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals, and do not send them to ourselves again after an orderly stop."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            logger.info(f"serving on http://{shown}:{port}/ (stop with Ctrl-C)")
