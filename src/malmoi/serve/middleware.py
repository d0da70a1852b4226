"""The gateway in front of all routes: who may come in, how much they may send.

A plain ASGI middleware. It reads the body itself, within limits of size and time, so that nothing
behind it ever waits for a slow client; it cancels the work of clients that have gone; and it is
the one place where an exception becomes an answer, so that no traceback and no text reaches a log.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import counted
from .api_keys import Access, Key, begin
from .errors import APIError, api_error, location_of
from .settings import LOOPBACK, UPLOAD_PATH
from .state import AppState

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("malmoi.serve.access")

GONE = 499  # what nginx calls a client that closed; counted, never sent
_PROBES = ("/health", "/ready")  # they carry no key


class Gateway:
    """Lets requests in, one `_Request` each, and counts them."""

    def __init__(
        self,
        app: ASGIApp,
        state: AppState,
        *,
        public: frozenset[str],
        methods: Mapping[str, str],
    ) -> None:
        self.app, self.state, self._keys, self._methods = app, state, state.keys, methods
        self._settings, self._limits = state.settings, state.settings.limits
        self._names = frozenset((*LOOPBACK, *state.settings.host_names))
        self._public = public.union(_PROBES)
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["app"] = self  # Starlette's router raises its 404 and 405 where there is one
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await _Request(self, scope, receive, send).run()
        else:
            await send({"type": "websocket.close", "code": 1008})

    def admit(self, scope: Scope, headers: dict[bytes, bytes]) -> Key | None:
        """Check everything that can be checked before the body is read."""
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size > self._limits.header_bytes:
            raise APIError(431, "headers_too_large", "the headers are too long. Send fewer.")
        if self.state.running > self._limits.requests:
            raise APIError(429, "busy", "too many requests are being answered. Try again.", wait=1)
        if not self._settings.cors and headers.get(b"sec-fetch-site") == b"cross-site":
            raise APIError(403, "cross_site", "pages of other sites may not call this server.")
        hosts = sum(name == b"host" for name, _ in scope["headers"])
        if hosts > 1 or (not hosts and scope["http_version"] != "1.0"):
            # A proxy in front may have read another one than this server would.
            raise APIError(400, "bad_host", "the request has no Host, or several. Send one.")
        self._check_host(headers)
        return self._check_key(scope["path"], headers)

    def check_method(self, path: str, method: str) -> None:
        """Refuse a path or a method that there is not, whatever the body would be."""
        known = self._methods.get(path)
        if known is None:
            raise api_error(HTTPException(404))
        allowed = ("GET", "HEAD") if known == "GET" else (known,)
        if method not in allowed:
            raise api_error(HTTPException(405, headers={"allow": ", ".join(allowed)}))

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse foreign names on loopback, so that no site can point its own name here."""
        if self._settings.host not in LOOPBACK or self._keys is not None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name, _, port = host.rpartition(":")
        name = name if port.isdigit() else host
        if name.strip("[]") not in self._names:
            message = "the header Host names another machine; expected localhost."
            remedy = "Start the server with --host-name to allow the name."
            raise APIError(403, "unknown_host", f"{message} {remedy}")

    def _check_key(self, path: str, headers: dict[bytes, bytes]) -> Key | None:
        if self._keys is None or path in self._public:
            return None
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = self._keys.find(given.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            message = "no known key was given; expected the header Authorization: Bearer KEY."
            remedy = "Ask whoever runs this server for one."
            raise APIError(401, "invalid_api_key", f"{message} {remedy}")
        if wait := self._keys.take(key):
            rate = counted(key.rate, "request")
            raise APIError(429, "rate_limit", f"more than {rate} a minute. Wait.", wait=wait)
        return key

    async def read_body(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
    ) -> bytearray:
        """Read the body within its limits; its bytes count as held until `release`."""
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise APIError(415, "no_json", "the body has another type than application/json.")
        uploads = self._settings.uploads if scope["path"] == UPLOAD_PATH else None
        most = uploads.body_bytes if uploads else self._limits.body_bytes
        seconds = self._limits.seconds if uploads else self._limits.body_seconds
        stated = headers.get(b"content-length", b"0")
        if not stated.isdigit() or len(stated) > 12 or int(stated) > most:
            raise _too_large(most)
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise APIError(GONE, "gone", "the client closed")
                    part = message.get("body", b"")
                    body += part
                    size += len(part)
                    self._held += len(part)
                    if self._held > self._limits.held_bytes:
                        busy = "too many bodies are being read. Try again."
                        raise APIError(429, "busy", busy, wait=1)
                    if size > most:
                        raise _too_large(most)
                    if not message.get("more_body"):
                        return body  # not a copy: an upload has tens of megabytes
        except BaseException as error:
            self.release(size)
            if isinstance(error, TimeoutError):
                slow = "the body came too slowly. Send it at once."
                raise APIError(408, "slow_body", slow) from None
            raise

    def release(self, size: int) -> None:
        """Forget bytes that were held."""
        self._held -= size


def _too_large(most: int) -> APIError:
    return APIError(413, "body_too_large", f"the body has more than {most:,} bytes. Split it.")


class _Request:
    """One request on its way through the gateway."""

    def __init__(self, gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
        self._gateway, self._scope = gateway, scope
        self._receive, self._forward = receive, send
        self._task = asyncio.current_task()
        self._access = Access()
        self._status = 0
        self._ended = False  # all of the answer is written
        self._gone = False

    async def run(self) -> None:
        """Answer it, whatever happens, and count it."""
        state, began = self._gateway.state, time.perf_counter()
        state.running += 1
        try:
            await self._answer()
        except Exception as error:
            await self._send_error(error)
        except asyncio.CancelledError:
            if not self._gone:
                raise
            self._status = GONE
        finally:
            state.running -= 1
            self._count(time.perf_counter() - began)

    async def _answer(self) -> None:
        gateway, headers = self._gateway, dict(self._scope["headers"])
        self._access.key = gateway.admit(self._scope, headers)
        begin(self._access)
        gateway.check_method(self._scope["path"], self._scope["method"])
        body = await gateway.read_body(self._scope, headers, self._receive)
        watching = asyncio.ensure_future(self._watch())
        try:
            await gateway.app(self._scope, _replay(body), self._send)
        finally:
            gateway.release(len(body))
            watching.cancel()

    async def _watch(self) -> None:
        """Cancel the work when the client closes before it had its answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._task is not None and not self._ended:
            self._gone = True
            self._task.cancel()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._ended = not message.get("more_body")
        await self._forward(message)

    async def _send_error(self, error: Exception) -> None:
        found = api_error(error)
        if found.status >= 500 and not isinstance(error, APIError):
            logger.error("%s at %s", type(error).__name__, location_of(error))
        if self._status or found.status == GONE:  # too late to say anything else
            self._status = self._status or GONE
        else:
            await found.response()(self._scope, self._receive, self._send)

    def _count(self, seconds: float) -> None:
        # The route as it was declared: a path that nobody declared may be anything at all.
        route = getattr(self._scope.get("endpoint"), "path", "-")
        state, access = self._gateway.state, self._access
        state.metrics.request(route, self._status, seconds)
        name = access.key.name if access.key else "-"
        if state.audit is not None:
            state.audit.write(name, route, access.corpus, access.hits, self._status, seconds)
        method = self._scope["method"]
        access_logger.info("%s %s %d %.1f ms %s", method, route, self._status, 1e3 * seconds, name)


def _replay(body: bytearray) -> Receive:
    """Give the application the body in one message, and after it only silence."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
