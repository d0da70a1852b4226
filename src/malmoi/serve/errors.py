"""Errors as answers: one shape for all of them, and the one place that picks the status.

Nothing of a request's text is ever in an error: a value is described, never quoted.
"""

import re
import traceback
from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import CorpusBusy, CorpusError, MalmoiError, MissingExtra
from .settings import MOST_TEXTS

Model = TypeVar("Model", bound=BaseModel)
_FIELD = re.compile(r"[a-z_]{1,32}")
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
# Nobody waits for the rest of the request after these, so the connection ends with the answer.
_LAST = (408, 431)
_DESCRIBED = 100  # the most errors of a body that are looked at
_ROUTING = {
    404: ("not_found", "there is nothing at this path. See /openapi.json."),
    405: ("wrong_method", "this path takes another method. See /openapi.json."),
}


class APIError(Exception):
    """A request that is answered with a status of 4xx (or 503 while stopping) and a reason."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, wait: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.wait = param, wait
        self.headers: Mapping[str, str] = {}

    def body(self) -> bytes:
        """The error as JSON, in OpenAI's shape."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else _TYPES[400])
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return pydantic_core.to_json({"error": error})

    def response(self) -> Response:
        """The whole answer, with headers that say when to come again and how to name oneself."""
        headers = dict(self.headers)
        if self.status in (429, 503):
            headers["retry-after"] = str(max(round(self.wait + 0.5), 1))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status in _LAST:
            headers["connection"] = "close"
        return Response(self.body(), self.status, headers, media_type="application/json")


def api_error(error: Exception) -> APIError:
    """Turn any exception into an answer; what was not foreseen is a 500 without a word of why."""
    if isinstance(error, APIError):
        return error
    if isinstance(error, HTTPException):  # the router's: no such path, or another method
        code, message = _ROUTING.get(error.status_code, ("refused", "the request was refused."))
        found = APIError(error.status_code, code, message)
        found.headers = error.headers or {}
        return found
    if isinstance(error, MissingExtra):  # its message names packages, and nothing that was asked
        return APIError(404, "not_installed", str(error))
    if isinstance(error, CorpusBusy):
        return APIError(429, "busy", "another process is writing to the corpus. Try again.", wait=2)
    if isinstance(error, CorpusError):
        message = "the corpus is damaged, or another file than was opened. Whoever runs this server"
        return APIError(503, "corpus_unusable", f"{message} sees more with: malmoi corpus check")
    if isinstance(error, MalmoiError):
        # The library's messages may quote what they were given, so only its name is given.
        message = f"the request cannot be done as asked ({type(error).__name__}); expected options"
        message += " that fit the model and the corpus. See /openapi.json."
        return APIError(400, "cannot_be_done", message)
    return APIError(500, "internal", "the server failed; its log says where. Try again.")


def parse_body(schema: type[Model], body: bytes | bytearray) -> Model:
    """Check a body and make its request; raises APIError for what is wrong with it."""
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise invalid_body(error) from None


def invalid_body(error: ValidationError) -> APIError:
    """Describe the first things that are wrong with a body, without its values."""
    count = error.error_count()
    if count > _DESCRIBED:  # a description of each would take longer than everything else
        message = f"the body is not as expected in {count:,} places. See /openapi.json."
        return APIError(422, "invalid_body", message)
    errors = error.errors(include_url=False, include_input=False)
    if any(one["type"] == "too_long" and one["ctx"]["max_length"] == MOST_TEXTS for one in errors):
        message = f"a list is longer than {MOST_TEXTS:,}, the most in one request. Send parts."
        param = _field_path(errors[0]["loc"][:1]) or None
        return APIError(413, "too_many_texts", message, param=param)
    first = [f"{_field_path(one['loc']) or 'the body'}: {_reason(one)}" for one in errors[:3]]
    more = f" (and {count - 3} more)" if count > 3 else ""
    message = f"the body is not as expected: {'; '.join(first)}{more}. See /openapi.json."
    return APIError(422, "invalid_body", message, param=_field_path(errors[0]["loc"]) or None)


def _field_path(loc: tuple[int | str, ...]) -> str:
    """Name a field of ours; a field that only the request knows is not repeated."""
    known = (isinstance(part, int) or _FIELD.fullmatch(part) for part in loc)
    return ".".join(str(part) if fits else "…" for part, fits in zip(loc, known, strict=True))


def _reason(error: Mapping[str, Any]) -> str:
    plain = {"json_invalid": "no JSON", "extra_forbidden": "no such field"}
    return plain.get(error["type"]) or str(error["msg"])


def stopping() -> APIError:
    """The answer to work that comes after the server was asked to stop."""
    message = "the server is stopping; expected it running. Try another, or later."
    return APIError(503, "stopping", message, wait=1)


def location_of(error: BaseException) -> str:
    """Say where an exception was raised, without its message, which may hold text.

    >>> try:
    ...     int("no number")
    ... except ValueError as error:
    ...     location_of(error).endswith("in <module>")
    True
    """
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[::-1])
