"""The door: who may come in, how much they may carry, and what they are told.

A plain ASGI layer around the application. It reads the body itself, within limits of size and
time, so that nothing behind it ever waits for a slow client; it adds the headers that keep a
browser strict; it cancels the work of clients that have gone; and it is the last place where an
exception can be caught, so that no traceback and no text reaches a log.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import counted
from .direct import App, Message, Receive, Scope, Send, Way
from .house import House
from .keys import Key, KeyRing
from .refusals import Refusal, refusal_of
from .settings import LOOPBACK, Settings

log = logging.getLogger("malmoi.serve")
Header = tuple[bytes, bytes]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]
_OPEN = ("/health", "/ready")  # probes carry no key
_WATCH_AFTER = 0.05  # most answers are out by then, and need no watch over their client
GONE = 499  # what nginx calls a client that closed; counted, never sent


class Guard:
    """The ASGI application as the network sees it."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        *,
        ring: KeyRing | None,
        house: House,
        public: frozenset[str] = frozenset(),
        ways: Mapping[str, Way] | None = None,
    ) -> None:
        self.app, self._settings, self.limits = app, settings, settings.limits
        self._ring, self.house, self._public = ring, house, public
        # Routes that need nothing but a body, by the address that asks for them.
        self.ways = {path.encode(): way for path, way in (ways or {}).items()}
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await _Visit(self, scope, receive, send).run()
        else:
            await send({"type": "websocket.close", "code": 1008})

    def admit(self, scope: Scope, headers: dict[bytes, bytes]) -> Key | None:
        """Check everything that can be checked before the body is read."""
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size > self.limits.header_bytes:
            raise Refusal(431, "headers_too_large", "the headers are too long. Send fewer.")
        if self.house.running > self.limits.requests:
            raise Refusal(429, "busy", "too many requests are being answered. Try again.", wait=1)
        if not self._settings.cors and headers.get(b"sec-fetch-site") == b"cross-site":
            raise Refusal(403, "cross_site", "pages of other sites may not call this server.")
        self._check_host(headers)
        return self._check_key(scope["path"], headers)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse foreign names on loopback, so that no site can point its own name here."""
        if self._settings.host not in LOOPBACK or self._ring is not None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.strip("[]") not in (*LOOPBACK, *self._settings.host_names):
            raise Refusal(
                403,
                "unknown_host",
                "the header Host names another machine; expected localhost. "
                "Start the server with --host-name to allow the name.",
            )

    def _check_key(self, path: str, headers: dict[bytes, bytes]) -> Key | None:
        if self._ring is None or path in _OPEN or path in self._public:
            return None
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = self._ring.find(given.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise Refusal(
                401,
                "invalid_api_key",
                "no known key was given; expected the header Authorization: Bearer KEY. "
                "Ask whoever runs this server for one.",
            )
        if wait := self._ring.take(key):
            raise Refusal(
                429,
                "rate_limit",
                f"more than {counted(key.rate, 'request')} a minute. Wait.",
                wait=wait,
            )
        return key

    async def body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Read the body within its limits; its bytes count as held until `release`."""
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refusal(415, "no_json", "the body has another type than application/json.")
        stated = headers.get(b"content-length", b"0")
        if not stated.isdigit() or len(stated) > 12 or int(stated) > self.limits.body_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(GONE, "gone", "the client closed")
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    self.hold(len(part))
                    parts.append(part)
                    if size > self.limits.body_bytes:
                        raise self._too_large()
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            self.release(size)
            raise Refusal(408, "slow_body", "the body came too slowly. Send it at once.") from None
        except BaseException:
            self.release(size)
            raise

    def hold(self, size: int) -> None:
        """Count bytes of a body until `release`; refused when there are too many."""
        self._held += size
        if self._held > self.limits.held_bytes:
            raise Refusal(429, "busy", "too many bodies are being read. Try again.", wait=1)

    def release(self, size: int) -> None:
        """Forget bytes that were held."""
        self._held -= size

    def note(self, method: str, route: str, status: int, seconds: float, key: Key | None) -> None:
        """Count a request that has ended, and write its line where these are wanted."""
        self.house.metrics.request(route, status, seconds)
        who = key.name if key else "-"
        log.info("%s %s %d %.1f ms %s", method, route, status, 1e3 * seconds, who)

    def _too_large(self) -> Refusal:
        most = self.limits.body_bytes
        return Refusal(413, "body_too_large", f"the body has more than {most:,} bytes. Split it.")


class _Visit:
    """One request on its way through the guard."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard, self._scope, self._receive, self._send_on = guard, scope, receive, send
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._status = 0
        self._finished = self._gone = False
        self._key: Key | None = None

    async def run(self) -> None:
        guard, began = self._guard, time.perf_counter()
        guard.house.running += 1
        try:
            await self._answer()
        except Exception as error:
            await self._refuse(error)
        except asyncio.CancelledError:
            if not self._gone:
                raise
            self._status = GONE
        finally:
            guard.house.running -= 1
            self._note(time.perf_counter() - began)

    async def _answer(self) -> None:
        guard, scope = self._guard, self._scope
        headers = dict(scope["headers"])
        self._key = guard.admit(scope, headers)
        body = await guard.body(scope, headers, self._receive)
        watch = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._start_watching)
        try:
            await guard.app(scope, _replay(body), self._send)
        finally:
            self._finished = True
            watch.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
            guard.release(len(body))

    def _start_watching(self) -> None:
        self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        """Cancel the work when the client closes before it has its answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._finished and self._task is not None:
            self._gone = True
            self._task.cancel()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        elif not message.get("more_body"):
            self._finished = True
        await self._send_on(message)

    async def _refuse(self, error: Exception) -> None:
        no = answer_no(error)
        if self._status or no.status == GONE:  # too late to say anything else
            self._status = self._status or GONE
            return
        headers = [*no.headers, (b"connection", b"close")] if no.last else no.headers
        await self._send({"type": "http.response.start", "status": no.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": no.body})

    def _note(self, seconds: float) -> None:
        # The route as it was declared: a path that nobody declared may be anything at all.
        route = getattr(self._scope.get("route"), "path", "-")
        self._guard.note(self._scope["method"], route, self._status, seconds, self._key)


@dataclass(frozen=True)
class No:
    """The answer that says no; the connection ends with it when it is the last."""

    status: int
    headers: list[Header]
    body: bytes
    last: bool


def answer_no(error: Exception) -> No:
    """Put an exception into words; the place of one that was not foreseen is logged."""
    refusal = refusal_of(error)
    if refusal.status >= 500 and not isinstance(error, Refusal):
        log.error("%s at %s", type(error).__name__, place_of(error))
    headers = [(name.encode(), value.encode()) for name, value in refusal.headers().items()]
    body = refusal.body()
    headers.append((b"content-length", str(len(body)).encode()))
    last = refusal.status in (408, 413, 429, 431)  # the rest of the body is not wanted
    return No(refusal.status, headers, body, last)


def _replay(body: bytes) -> Receive:
    """Give the application the body in one message, and after it only silence."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def place_of(error: BaseException) -> str:
    """Say where an exception was raised, without its message, which may hold text.

    >>> try:
    ...     int("no number")
    ... except ValueError as error:
    ...     place_of(error).endswith("in <module>")
    True
    """
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[::-1])
