"""What is said no to, and how: one shape of error, and the one place that picks its status.

Nothing of a request's text is ever in an error: a value is described, never quoted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic_core

from ..errors import MalmoiError, MissingExtra
from .batcher import Busy, Stopping, TooLate

_FIELD = re.compile(r"[a-z_]{1,32}")
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


class Refusal(Exception):
    """A request that is answered with a status of 4xx (or 503 while stopping) and a reason."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, wait: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.wait = param, wait

    def body(self) -> bytes:
        """The error as JSON, in OpenAI's shape."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else _KINDS[400])
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return pydantic_core.to_json({"error": error})

    def headers(self) -> dict[str, str]:
        """Headers that go with it: when to come again, and how to name oneself."""
        found = {"content-type": "application/json"}
        if self.status in (429, 503):
            found["retry-after"] = str(max(round(self.wait + 0.5), 1))
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        return found


def refusal_of(error: Exception) -> Refusal:
    """Turn malmoi's exceptions into a refusal; anything else is a 500 without a word of why."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TooLate):
        return Refusal(429, "deadline", str(error), wait=error.seconds)
    if isinstance(error, Busy):
        return Refusal(429, "busy", str(error), wait=error.seconds)
    if isinstance(error, Stopping):
        return Refusal(503, "stopping", str(error), wait=1)
    if isinstance(error, MissingExtra):  # its message names packages, and nothing that was asked
        return Refusal(404, "not_installed", str(error))
    if isinstance(error, MalmoiError):
        # The library's messages may quote what they were given, so its name alone is told.
        return Refusal(
            400,
            "cannot_be_done",
            f"the request cannot be done as asked ({type(error).__name__}); expected options that "
            "fit the model and the corpus. See /openapi.json.",
        )
    return Refusal(500, "internal", "the server failed; its log has the place. Try again.")


def refusal_of_shape(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """Describe the first things that are wrong with a body, without its values."""
    first = []
    for error in errors[:3]:
        place = ".".join(_place(part) for part in error["loc"] if part != "body") or "the body"
        first.append(f"{place}: {_reason(error)}")
    more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
    param = ".".join(_place(part) for part in errors[0]["loc"] if part != "body") or None
    return Refusal(
        422,
        "invalid_body",
        f"the body is not as expected: {'; '.join(first)}{more}. See /openapi.json.",
        param=param,
    )


def _place(part: object) -> str:
    """Name a field of ours; a field that only the request knows is not repeated."""
    if isinstance(part, int):
        return str(part)
    name = str(part)
    return name if _FIELD.fullmatch(name) else "…"


def _reason(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return "no JSON"
    if error["type"] == "extra_forbidden":
        return "no such field"
    if error["type"] == "value_error":  # raised by a validator of ours, which quotes nothing
        return str(error["ctx"]["error"])
    return str(error["msg"])
