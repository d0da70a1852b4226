"""Vectors, and what is computed from texts at once: /v1/embeddings, /v1/similarity, /v1/rerank."""

from typing import Any

import numpy as np
from starlette.responses import Response

from ...encoder import Encoder
from ...runtime.pooling import normalize
from ...types import Floats
from ..engine import Embedded
from ..errors import APIError
from ..schemas import EmbeddingsRequest, RerankRequest, SimilarityRequest
from ..state import AppState
from . import as_list, json_response, write_response, write_vectors

_READ = 20_000_000  # characters of a query, as often as it is read


async def embeddings(state: AppState, request: EmbeddingsRequest) -> Response:
    """Turn texts, or token ids of the model, into vectors; OpenAI's shape."""
    name = state.resources.encoder.name
    state.check_model(request.model, name)
    found = await _embed(state, request)
    vectors = _shorten(state, found.vectors, request.dimensions)
    data = (
        {"object": "embedding", "index": i, "embedding": row}
        for i, row in enumerate(write_vectors(vectors, request.encoding_format))
    )
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    answer = {"object": "list", "model": name, "data": data, "usage": usage}
    return await write_response(state, answer, numbers=vectors.size, cut=found.cut)


async def similarity(state: AppState, request: SimilarityRequest) -> Response:
    """Compare texts by the cosine of their vectors."""
    name = state.resources.encoder.name
    state.check_model(request.model, name)
    left = as_list(request.a)
    right = left if request.b is None else as_list(request.b)
    texts = state.check_texts([*left, *right], param="a")
    found = await state.engine.embed(texts)
    vectors = normalize(found.vectors)
    scores: Floats = vectors[: len(left)] @ vectors[len(left) :].T
    rounded = (row.astype(np.float64).round(6).tolist() for row in scores)
    answer = {"model": name, "scores": rounded}
    return await write_response(state, answer, numbers=scores.size, cut=found.cut)


async def rerank(state: AppState, request: RerankRequest) -> Response:
    """Sort texts by how well they answer a query, the best first."""
    reranker = state.resources.find_reranker()
    state.check_model(request.model, reranker.name)
    texts = [text if isinstance(text, str) else text.text for text in request.documents]
    state.check_texts([request.query, *texts], param="documents")
    if len(request.query) * len(texts) > _READ:  # the query is read again with each text
        message = f"the query has {len(request.query):,} characters and goes with {len(texts):,}"
        remedy = f"texts; at most {_READ:,} characters are read. Shorten it, or send fewer texts."
        raise APIError(413, "text_too_long", f"{message} {remedy}", param="query")
    scores = await state.engine.score(request.query, texts)
    order = sorted(range(len(texts)), key=lambda i: -scores[i])[: request.top_n]
    results = [
        {"index": i, "relevance_score": round(float(scores[i]), 7)}
        | ({"document": {"text": texts[i]}} if request.return_documents else {})
        for i in order
    ]
    return json_response({"model": reranker.name, "results": results})


async def _embed(state: AppState, request: EmbeddingsRequest) -> Embedded:
    given: list[Any] = request.input if isinstance(request.input, list) else [request.input]
    if not isinstance(given[0], str):  # token ids: one list of them, or several
        ids: list[list[int]] = [given] if isinstance(given[0], int) else given
        return await state.engine.embed_ids(_check_ids(state, ids))
    texts = state.check_texts(given, param="input")
    known = state.resources.encoder.manifest.prompts
    if request.prompt is not None and request.prompt not in known:
        message = f"the model has no such prompt; it has: {', '.join(known) or 'none'}."
        raise APIError(400, "unknown_prompt", message, param="prompt")
    return await state.engine.embed(texts, prompt=request.prompt, on_long=request.on_long)


def _check_ids(state: AppState, ids: list[list[int]]) -> list[list[int]]:
    encoder = state.resources.encoder
    if not isinstance(encoder, Encoder):
        raise APIError(400, "no_token_ids", f"{encoder.name} reads text only.", param="input")
    state.check_count(len(ids), param="input")
    longest, rows = max(map(len, ids)), encoder.vocabulary
    if longest > encoder.max_tokens:
        message = f"a list has {longest:,} ids; the model reads {encoder.max_tokens}. Cut it."
        raise APIError(400, "too_many_tokens", message, param="input")
    if max(map(max, ids)) >= rows:
        message = f"an id is not among the {rows:,} of the model's tokenizer. Send text instead."
        raise APIError(400, "unknown_token", message, param="input")
    return ids


def _shorten(state: AppState, vectors: Floats, dimensions: int | None) -> Floats:
    encoder = state.resources.encoder
    if dimensions is None or dimensions == encoder.dimension:
        return vectors
    if dimensions > encoder.dimension:
        most = f"the model's vectors have {encoder.dimension} dimensions. Ask for at most as many."
        raise APIError(400, "too_many_dimensions", most, param="dimensions")
    cut = vectors[:, :dimensions]
    return normalize(cut) if encoder.manifest.normalize else cut
