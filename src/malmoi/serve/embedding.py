"""Vectors and what is computed from them at once: /v1/embeddings and /v1/similarity."""

import base64
from typing import Any

import numpy as np
import pydantic_core
from fastapi import APIRouter, Response

from ..encoder import Encoder
from ..runtime.pooling import normalize
from ..types import Floats
from .desk import Embedded
from .house import House
from .refusals import Refusal
from .shapes import EmbeddingsAsked, EmbeddingsGiven, SimilarityAsked, SimilarityGiven

JSON = "application/json"
Input = str | list[str] | list[int] | list[list[int]]


class Written(Response):
    """JSON that has been written already, with its headers, which Starlette makes more slowly."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.status_code, self.background, self.body = 200, None, body
        self.raw_headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(body)),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ]


def json_response(content: Any, *, cut: int = 0) -> Response:
    """Make the answer's bytes with pydantic's writer, which is three times json's speed."""
    # How many texts were cut has no place in OpenAI's shape, so a header tells it.
    return Written(pydantic_core.to_json(content), {"x-malmoi-cut": str(cut)} if cut else {})


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["vectors"])

    @routes.post("/v1/embeddings", response_model=EmbeddingsGiven)
    async def embeddings(asked: EmbeddingsAsked) -> Response:
        """Turn texts, or token ids of the model, into vectors; OpenAI's shape."""
        house.check_model(asked.model, house.stock.encoder.name)
        found = await _embed(house, asked)
        vectors = _shortened(house, found.vectors, asked.dimensions)
        data = [
            {"object": "embedding", "index": i, "embedding": row}
            for i, row in enumerate(written(vectors, asked.encoding_format))
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        name = house.stock.encoder.name
        return json_response(
            {"object": "list", "model": name, "data": data, "usage": usage}, cut=found.cut
        )

    @routes.post("/v1/similarity", response_model=SimilarityGiven)
    async def similarity(asked: SimilarityAsked) -> Response:
        """Compare texts by the cosine of their vectors."""
        house.check_model(asked.model, house.stock.encoder.name)
        left = [asked.a] if isinstance(asked.a, str) else asked.a
        b = asked.a if asked.b is None else asked.b
        right = [b] if isinstance(b, str) else b
        texts = house.check_texts([*left, *right], param="a")
        found = await house.desk.embed(texts)
        vectors = normalize(found.vectors)
        scores = vectors[: len(left)] @ vectors[len(left) :].T
        rounded = scores.astype(np.float64).round(6).tolist()
        name = house.stock.encoder.name
        return json_response({"model": name, "scores": rounded}, cut=found.cut)

    return routes


async def _embed(house: House, asked: EmbeddingsAsked) -> Embedded:
    texts, ids = _sorted_out(asked.input)
    if ids:
        return await house.desk.embed_ids(_checked_ids(house, ids))
    house.check_texts(texts, param="input")
    known = house.stock.encoder.manifest.prompts
    if asked.prompt is not None and asked.prompt not in known:
        raise Refusal(
            400,
            "unknown_prompt",
            f"the model has no such prompt; it has: {', '.join(known) or 'none'}.",
            param="prompt",
        )
    return await house.desk.embed(texts, prompt=asked.prompt, on_long=asked.on_long)


def _sorted_out(given: Input) -> tuple[list[str], list[list[int]]]:
    """Tell texts from token lists; a lone one of either comes in a list of its own."""
    if isinstance(given, str):
        return [given], []
    texts = [item for item in given if isinstance(item, str)]
    lone = [item for item in given if isinstance(item, int)]
    lists = [item for item in given if isinstance(item, list)]
    return texts, [lone] if lone else lists


def _checked_ids(house: House, ids: list[list[int]]) -> list[list[int]]:
    encoder = house.stock.encoder
    if not isinstance(encoder, Encoder):
        raise Refusal(400, "no_token_ids", f"{encoder.name} reads text only.", param="input")
    house.check_texts([""] * len(ids), param="input")
    longest, rows = max(map(len, ids)), encoder.vocabulary
    if longest > encoder.max_tokens:
        raise Refusal(
            400,
            "too_many_tokens",
            f"a list has {longest:,} ids; the model reads {encoder.max_tokens}. Cut it.",
            param="input",
        )
    if max(map(max, ids)) >= rows:
        raise Refusal(
            400,
            "unknown_token",
            f"an id is not in the model's vocabulary of {rows:,}; ids are those of its own "
            "tokenizer. Send text instead.",
            param="input",
        )
    return ids


def _shortened(house: House, vectors: Floats, dimensions: int | None) -> Floats:
    width = house.stock.encoder.dimension
    if dimensions is None or dimensions == width:
        return vectors
    if dimensions > width:
        raise Refusal(
            400,
            "too_many_dimensions",
            f"the model's vectors have {width} dimensions. Ask for at most as many.",
            param="dimensions",
        )
    cut = vectors[:, :dimensions]
    return normalize(cut) if house.stock.encoder.manifest.normalize else cut


def written(vectors: Floats, form: str) -> list[Any]:
    """Write vectors (n, dim) as numbers, or in base64."""
    if form == "base64":
        # Little-endian whatever the machine, as the openai client reads it.
        rows = np.ascontiguousarray(vectors, dtype="<f4")
        return [base64.b64encode(row.tobytes()).decode("ascii") for row in rows]
    # Seven decimals hold all that float32 has to say of a unit vector.
    listed: list[Any] = vectors.astype(np.float64).round(7).tolist()
    return listed
