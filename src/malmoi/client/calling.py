"""Calls to a server: connections kept open for the next call, tried again where that helps."""

import http.client
import json
import random
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any

from ..errors import MalmoiError, OptionError

_PASSING = (429, 503)
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0


class ServerError(MalmoiError):
    """The server said no, or could not be reached; `status` is 0 then."""

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


class Caller:
    """A server's address, and how it is asked. Safe to share among threads."""

    def __init__(self, url: str, *, api_key: str | None, timeout: float, retries: int) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                "url is no address of a server; expected one like http://127.0.0.1:8010. "
                "Correct it."
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
        """Ask for JSON."""
        return json.loads(self._call("GET", path, None).body)

    def post(self, path: str, body: object) -> Answer:
        """Send JSON."""
        return self._call("POST", path, _written(body))

    def close(self) -> None:
        """Close the connections that no thread is using."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _call(self, method: str, path: str, body: bytes | None) -> Answer:
        """Ask until there is an answer that lasts, or the tries are used up."""
        for left in range(self._retries, -1, -1):
            try:
                answer = self._ask(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not left:
                    raise ServerError(
                        f"the server at {self._parts.netloc} cannot be reached "
                        f"({type(error).__name__}). Check that it runs, and its address."
                    ) from error
                answer = Answer(503, {}, b"")
            if answer.status < 400:
                return answer
            if answer.status not in _PASSING or not left:
                raise _said_no(answer)
            time.sleep(self._wait(self._retries - left, answer.headers.get("retry-after")))
        raise AssertionError("the last try returns or raises")

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = self._connection()
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, headers, response.read())
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        """A connection that is open and free, or a new one."""
        try:
            return self._idle.pop()  # one step, so no two threads get the same
        except IndexError:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._parts.hostname is not None
            return kind(self._parts.hostname, self._parts.port, timeout=self._timeout)

    def _wait(self, tried: int, told: str | None) -> float:
        """Twice as long each time, and partly by chance, so that clients do not come in step."""
        longest = min(_FIRST_WAIT * 2**tried, _LONGEST_WAIT)
        chance = random.uniform(longest / 2, longest)
        asked = float(told) if told and told.isdigit() else 0.0
        return min(max(chance, asked + chance / 4 if asked else 0.0), _LONGEST_WAIT)


def _said_no(answer: Answer) -> ServerError:
    try:
        error = json.loads(answer.body)["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):
        message, code = "it gave no reason", ""
    return ServerError(
        f"the server answered {answer.status}: {message}", status=answer.status, code=code
    )


def _written(body: object) -> bytes:
    """JSON in UTF-8, half the size of escaped Korean; lone surrogates, which it cannot hold, go."""
    text = json.dumps(body, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
