"""The paths of other vendors' servers, in their shapes: Cohere, vLLM, TEI and Ollama.

Each maps its fields to what the routes of `embeddings.py` do, and writes the same vectors and
scores in its own shape.
"""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from starlette.responses import Response

from ... import __version__
from ...encoders import Encoder
from ...errors import counted
from ...runtime.pooling import Precision, normalize, to_precision
from ...types import Floats
from ..engine import Embedded
from ..errors import APIError
from ..schemas import RerankRequest
from ..schemas_vendors import (
    CohereEmbedRequest,
    CohereEmbedRequestV2,
    EmbeddingType,
    OllamaEmbedRequest,
    ScoreRequest,
    TEIEmbedRequest,
    TEIParameters,
    TEISimilarityRequest,
    VendorRerankRequest,
)
from ..state import AppState
from . import as_list, json_response, write_response, write_vectors
from .embeddings import (
    check_normalized,
    check_pairs,
    check_tokens,
    embed_texts,
    rank,
    shorten,
    texts_of,
)

_EPOCH = "1970-01-01T00:00:00Z"  # a bundle does not say when it was made


async def cohere_v1(state: AppState, request: CohereEmbedRequest) -> Response:
    """Turn texts into vectors; Cohere's shape of v1."""
    found = await _cohere(state, request, request.texts)
    if request.embedding_types is not None:
        return await _by_type(state, found, found.vectors, request.texts, request.embedding_types)
    answer = {
        "id": "",
        "response_type": "embeddings_floats",
        "embeddings": write_vectors(found.vectors, "float"),
        "texts": request.texts,
        "meta": _meta(found),
    }
    return await write_response(state, answer, numbers=found.vectors.size, cut=found.cut)


async def cohere_v2(state: AppState, request: CohereEmbedRequestV2) -> Response:
    """Turn texts into vectors of the types asked for; Cohere's shape of v2."""
    if (request.texts is None) == (request.inputs is None):
        message = "the body has both of `texts` and `inputs`, or none. Send one of them."
        raise APIError(400, "no_texts", message, param="texts")
    check_tokens(request.max_tokens, state.resources.encoder.max_tokens, param="max_tokens")
    texts = request.texts or [one.content[0].text for one in request.inputs or ()]
    found = await _cohere(state, request, texts)
    vectors = shorten(state, found.vectors, request.output_dimension)
    return await _by_type(state, found, vectors, texts, request.embedding_types or ["float"])


async def _cohere(
    state: AppState, request: CohereEmbedRequest | CohereEmbedRequestV2, texts: list[str]
) -> Embedded:
    state.check_model(request.model, state.resources.encoder.name)
    prompt = state.prompt_for(request.input_type)
    return await embed_texts(state, texts, prompt=prompt, truncate=request.truncate, param="texts")


def _meta(found: Embedded) -> dict[str, Any]:
    return {"api_version": {"version": "2"}, "billed_units": {"input_tokens": found.tokens}}


async def _by_type(
    state: AppState, found: Embedded, vectors: Floats, texts: list[str], types: list[EmbeddingType]
) -> Response:
    content = {
        "id": "",
        "response_type": "embeddings_by_type",
        "embeddings": {kind: _coded(vectors, kind) for kind in dict.fromkeys(types)},
        "texts": texts,
        "meta": _meta(found),
    }
    numbers = vectors.size * len(types)
    return await write_response(state, content, numbers=numbers, cut=found.cut)


def _coded(vectors: Floats, kind: EmbeddingType) -> Iterator[Any]:
    """Write vectors in one of Cohere's types; signed ones are the unsigned less 128."""
    if kind in ("float", "base64"):
        yield from write_vectors(vectors, kind)
        return
    precision: Precision = "binary" if kind in ("binary", "ubinary") else "int8"
    codes = to_precision(normalize(vectors), precision).astype(np.int16)
    for row in codes + {"binary": -128, "uint8": 128}.get(kind, 0):
        yield row.tolist()


async def rerank(state: AppState, request: VendorRerankRequest) -> Response:
    """Sort texts by how well they answer a query: vLLM's shape for `documents`, TEI's `texts`."""
    if (request.texts is None) == (request.documents is None):
        message = "the body has both of `documents` and `texts`, or none. Send one of them."
        raise APIError(400, "no_texts", message, param="documents")
    if (request.truncation_direction or "").lower() == "left":
        message = "texts that are too long are cut at their end. Leave the field out."
        raise APIError(400, "unknown_truncation", message, param="truncation_direction")
    if request.truncate is False:
        await _check_uncut(state, request)
    read = state.resources.find_reranker().max_tokens
    check_tokens(request.truncate_prompt_tokens, read, param="truncate_prompt_tokens")
    if request.texts is None:
        return json_response(await rank(state, request))
    if request.raw_scores:
        message = "scores are given as the model's last step makes them. Leave the field out."
        raise APIError(400, "no_raw_scores", message, param="raw_scores")
    asked = RerankRequest(
        query=request.query,
        documents=[*request.texts],
        model=request.model,
        top_n=request.top_n,
        max_tokens_per_doc=request.max_tokens_per_doc,
    )
    found = await rank(state, asked)
    return json_response(
        [
            {"index": one["index"], "score": one["relevance_score"]}
            | ({"text": request.texts[one["index"]]} if request.return_text else {})
            for one in found["results"]
        ]
    )


async def _check_uncut(state: AppState, request: VendorRerankRequest) -> None:
    """Refuse pairs that the reranker would cut."""
    reranker, texts = state.resources.find_reranker(), request.texts or texts_of(request)
    check_pairs(state, [request.query], texts, param="texts")
    pairs = [(request.query, text) for text in texts]
    cut = await state.engine.call(lambda: reranker.count_cut(pairs))
    if cut:
        message = (
            f"{counted(cut, 'pair')} of this request is longer than the {reranker.max_tokens:,}"
        )
        remedy = "tokens that the model reads. Cut it, or allow that it is cut."
        raise APIError(413, "text_too_long", f"{message} {remedy}", param="truncate")


async def score(state: AppState, request: ScoreRequest) -> Response:
    """Score pairs of texts, by the reranker, or by the encoder's cosine where it is named."""
    left, right = as_list(request.text_1), as_list(request.text_2)
    if len(left) not in (1, len(right)):
        message = f"text_1 has {len(left):,} texts and text_2 {len(right):,}; expected one, or as"
        raise APIError(400, "unequal_lists", f"{message} many as text_2.", param="text_1")
    check_pairs(state, left, right, param="text_2")
    resources = state.resources
    reranker, encoder = resources.reranker, resources.encoder
    by_encoder = reranker is None or request.model == encoder.name
    read = encoder.max_tokens if reranker is None or by_encoder else reranker.max_tokens
    check_tokens(request.truncate_prompt_tokens, read, param="truncate_prompt_tokens")
    if reranker is None or by_encoder:
        state.check_model(request.model, encoder.name)
        found = await embed_texts(state, [*left, *right], param="text_2")
        vectors = normalize(found.vectors)
        scores = (vectors[: len(left)] * vectors[len(left) :]).sum(axis=1).tolist()
        name, tokens = encoder.name, found.tokens
    else:
        state.check_model(request.model, reranker.name)
        pairs = zip(itertools.cycle(left) if len(left) == 1 else left, right, strict=False)
        scores = await state.engine.score_pairs([*pairs])
        name, tokens = reranker.name, 0
    data = [
        {"index": i, "object": "score", "score": round(float(one), 7)}
        for i, one in enumerate(scores)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    own = {"id": "", "object": "list", "created": 0, "model": name}
    return json_response(own | {"data": data, "usage": usage})


async def embed(state: AppState, request: TEIEmbedRequest) -> Response:
    """Turn texts into vectors; TEI's shape."""
    check_normalized(state, request.normalize, param="normalize")
    found = await _tei(state, as_list(request.inputs), request)
    vectors = shorten(state, found.vectors, request.dimensions)
    if request.normalize is not False:
        vectors = normalize(vectors)
    rows = write_vectors(vectors, "float")
    return await write_response(state, rows, numbers=vectors.size, cut=found.cut)


async def similarity(state: AppState, request: TEISimilarityRequest) -> Response:
    """Compare one text with others by the cosine of their vectors; TEI's shape."""
    texts = [request.inputs.source_sentence, *request.inputs.sentences]
    found = await _tei(state, texts, request.parameters or TEIParameters())
    vectors = normalize(found.vectors)
    scores = (vectors[1:] @ vectors[0]).astype(np.float64).round(7)
    return json_response(scores.tolist(), cut=found.cut)


async def _tei(
    state: AppState, texts: list[str], request: TEIEmbedRequest | TEIParameters
) -> Embedded:
    prompt = state.check_prompt(request.prompt_name, param="prompt_name")
    left = request.truncate and (request.truncation_direction or "").lower() == "left"
    truncate: bool | str | None = "START" if left else request.truncate
    return await embed_texts(state, texts, prompt=prompt, truncate=truncate, param="inputs")


async def info(state: AppState) -> Response:
    """Describe the encoder and the limits; TEI's shape."""
    encoder, settings = state.resources.encoder, state.settings
    pooling = encoder.manifest.pooling if isinstance(encoder, Encoder) else "mean"
    return json_response(
        {
            "model_id": encoder.name,
            "model_sha": None,
            "model_dtype": "float32",
            "model_type": {"embedding": {"pooling": pooling}},
            "max_concurrent_requests": settings.limits.requests,
            "max_input_length": encoder.max_tokens,
            "max_batch_tokens": settings.batching.budget,
            "max_batch_requests": None,
            "max_client_batch_size": settings.limits.texts,
            "auto_truncate": True,
            "tokenization_workers": 1,
            "version": __version__,
        }
    )


async def ollama_embed(state: AppState, request: OllamaEmbedRequest) -> Response:
    """Turn texts into vectors; Ollama's shape."""
    began, name = time.perf_counter_ns(), state.resources.encoder.name
    state.check_model(request.model, name)
    found = await embed_texts(state, as_list(request.input), truncate=request.truncate)
    vectors = shorten(state, found.vectors, request.dimensions)
    answer = {
        "model": name,
        "embeddings": write_vectors(vectors, "float"),
        "total_duration": time.perf_counter_ns() - began,
        "load_duration": 0,
        "prompt_eval_count": found.tokens,
    }
    return await write_response(state, answer, numbers=vectors.size, cut=found.cut)


async def ollama_tags(state: AppState) -> Response:
    """List the models that are served; Ollama's shape."""
    details = {"format": "onnx", "families": None, "parameter_size": "", "quantization_level": ""}
    found = [
        {
            "name": one.name,
            "model": one.name,
            "modified_at": _EPOCH,
            "size": 0,
            "digest": "",
            "details": details | {"parent_model": "", "family": one.manifest.kind},
        }
        for one in state.resources.models.values()
    ]
    return json_response({"models": found})
