"""HTTP calls to a server: connections kept open for the next call, tried again where that helps."""

import http.client
import json
import random
import time
import urllib.parse
from email.message import Message
from typing import Any

from ..errors import MalmoiError, OptionError

_TEMPORARY = (429, 503)
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0


class ServerError(MalmoiError):
    """The server refused, or could not be reached; `status` is 0 then."""

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Transport:
    """A server's address, and how requests get there. Safe to share among threads."""

    def __init__(self, url: str, *, api_key: str | None, timeout: float, retries: int) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                "url is not the address of a server; expected http:// or https:// and a host, "
                "such as http://127.0.0.1:8010."
            )
        self._parts, self._path = parts, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._timeout, self._retries = timeout, retries
        self._idle: list[http.client.HTTPConnection] = []  # open, and used by no thread now

    @property
    def address(self) -> str:
        """Where it calls."""
        return f"{self._parts.scheme}://{self._parts.netloc}{self._path}"

    def get(self, path: str) -> Any:
        """Get JSON."""
        return self._call("GET", path, None)[0]

    def post(self, path: str, body: object) -> tuple[Any, Message]:
        """Send JSON, and give the JSON and the headers that come back."""
        return self._call("POST", path, _to_json(body))

    def close(self) -> None:
        """Close the connections that no thread is using."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _call(self, method: str, path: str, body: bytes | None) -> tuple[Any, Message]:
        """Try until there is an answer that is final, or the tries are used up."""
        for tried in range(self._retries + 1):
            last, retry_after = tried == self._retries, None
            try:
                response, content = self._send(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if last:
                    raise ServerError(
                        f"the server at {self._parts.netloc} cannot be reached "
                        f"({type(error).__name__}). Check that it runs, and its address."
                    ) from error
            else:
                if response.status < 400:
                    return json.loads(content), response.headers
                if last or response.status not in _TEMPORARY:
                    raise _server_error(response.status, content)
                retry_after = response.headers.get("retry-after")
            time.sleep(_wait(tried, retry_after))
        raise AssertionError("the last try returns or raises")

    def _send(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection()
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response, content

    def _connection(self) -> http.client.HTTPConnection:
        """A connection that is open and free, or a new one."""
        try:
            return self._idle.pop()  # one step, so no two threads get the same
        except IndexError:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._parts.hostname is not None
            return kind(self._parts.hostname, self._parts.port, timeout=self._timeout)


def _wait(tried: int, retry_after: str | None) -> float:
    """Twice as long each time, and partly by chance, so that clients do not come in step."""
    longest = min(_FIRST_WAIT * 2**tried, _LONGEST_WAIT)
    chance = random.uniform(longest / 2, longest)
    asked = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return min(max(chance, asked + chance / 4 if asked else 0.0), _LONGEST_WAIT)


def _server_error(status: int, content: bytes) -> ServerError:
    try:
        error = json.loads(content)["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):
        message, code = "it gave no reason", ""
    return ServerError(f"the server answered {status}: {message}", status=status, code=code)


def _to_json(body: object) -> bytes:
    """JSON in UTF-8, half the size of escaped Korean; lone surrogates, which it cannot hold, go."""
    text = json.dumps(body, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
