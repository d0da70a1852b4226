"""A function for each path: it takes the state and a checked body, and gives the answer.

`app.ROUTES` lists them with their schemas; a new route is a function here and a line there.
"""

import base64
from typing import Any

import numpy as np
import pydantic_core
from starlette.responses import Response

from ...types import Floats


def json_response(content: Any, *, cut: int = 0) -> Response:
    """Make the answer's bytes with pydantic's writer, which is three times json's speed."""
    # How many texts were cut has no place in OpenAI's shape, so it stands in a header.
    headers = {"x-malmoi-cut": str(cut)} if cut else None
    return Response(pydantic_core.to_json(content), 200, headers, media_type="application/json")


def as_list(texts: str | list[str]) -> list[str]:
    """Give texts as a list, also where one came alone."""
    return [texts] if isinstance(texts, str) else texts


def write_vectors(vectors: Floats, encoding_format: str) -> list[Any]:
    """Write vectors (n, dim) as numbers, or in base64."""
    if encoding_format == "base64":
        # Little-endian whatever the machine, as the openai client reads it.
        rows = np.ascontiguousarray(vectors, dtype="<f4")
        return [base64.b64encode(row.tobytes()).decode("ascii") for row in rows]
    # Seven decimals hold all that float32 has to say of a unit vector.
    listed: list[Any] = vectors.astype(np.float64).round(7).tolist()
    return listed
