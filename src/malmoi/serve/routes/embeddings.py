"""Vectors, and what is computed from texts at once: /v1/embeddings, /v1/similarity, /v1/rerank."""

from functools import partial
from typing import Any

import numpy as np
from starlette.responses import Response

from ...encoders import Encoder
from ...errors import counted
from ...runtime.pooling import normalize
from ...types import Floats
from ..engine import Embedded
from ..errors import APIError
from ..schemas import EmbeddingsRequest, RerankRequest, SimilarityRequest
from ..state import AppState
from . import as_list, json_response, run_if_large, write_response, write_vectors

_READ = 20_000_000  # characters of a query, as often as it is read


async def embeddings(state: AppState, request: EmbeddingsRequest) -> Response:
    """Turn texts, or token ids of the model, into vectors; OpenAI's shape."""
    name = state.resources.encoder.name
    state.check_model(request.model, name)
    check_tokens(
        request.truncate_prompt_tokens,
        state.resources.encoder.max_tokens,
        param="truncate_prompt_tokens",
    )
    wanted = {request.normalize, request.normalized}
    for one in wanted:
        check_normalized(state, one, param="normalize")
    found = await _embed(state, request)
    vectors = shorten(state, found.vectors, request.dimensions)
    vectors = normalize(vectors) if True in wanted else vectors
    encoding = request.embedding_type or request.encoding_format
    data = (
        {"object": "embedding", "index": i, "embedding": row}
        for i, row in enumerate(write_vectors(vectors, encoding))
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
    others = vectors[len(left) :].T
    scores = (row @ others for row in vectors[: len(left)])  # while they are written
    rounded = (row.astype(np.float64).round(6).tolist() for row in scores)
    answer = {"model": name, "scores": rounded}
    numbers = len(left) * len(right)
    return await write_response(state, answer, numbers=numbers, cut=found.cut)


async def rerank(state: AppState, request: RerankRequest) -> Response:
    """Sort texts by how well they answer a query, the best first; Cohere's and Jina's shape."""
    return json_response(await rank(state, request))


async def rank(state: AppState, request: RerankRequest) -> dict[str, Any]:
    """Score the texts of a request and sort them."""
    reranker = state.resources.find_reranker()
    state.check_model(request.model, reranker.name)
    check_tokens(request.max_tokens_per_doc, reranker.max_tokens, param="max_tokens_per_doc")
    texts = texts_of(request)
    check_pairs(state, [request.query], texts, param="documents")
    scores = await state.engine.score(request.query, texts)
    order = sorted(range(len(texts)), key=lambda i: -scores[i])[: request.top_n]
    results = [
        {"index": i, "relevance_score": round(float(scores[i]), 7)}
        | ({"document": {"text": texts[i]}} if request.return_documents else {})
        for i in order
    ]
    return {"model": reranker.name, "results": results}


def texts_of(request: RerankRequest) -> list[str]:
    """Give the documents of a request as texts: of an object, the fields that are to be read."""
    fields, found = request.rank_fields or ["text"], []
    if len({*fields}) < len(fields):  # a few bytes more would make texts many times as long
        message = "rank_fields names a field twice. Name each once."
        raise APIError(400, "repeated_field", message, param="rank_fields")
    for i, one in enumerate(request.documents or ()):
        if isinstance(one, dict) and (missing := [name for name in fields if name not in one]):
            message = f"document {i} has no field {missing[0]!r}. Add it, or set rank_fields."
            raise APIError(400, "no_such_field", message, param="documents")
        found.append(one if isinstance(one, str) else "\n".join(one[name] for name in fields))
    return found


def check_normalized(state: AppState, asked: bool | None, *, param: str) -> None:
    """Refuse vectors of another length than one where the model gives no others."""
    if asked is False and state.resources.encoder.manifest.normalize:
        message = "the model's vectors have length one. Leave the field out."
        raise APIError(400, "normalized", message, param=param)


def check_pairs(state: AppState, queries: list[str], texts: list[str], *, param: str) -> None:
    """Refuse too many texts, and a query so long that it cannot be read with each of them."""
    state.check_texts([*queries, *texts], param=param)
    # A single query is read again with each text.
    if len(queries) == 1 and len(queries[0]) * len(texts) > _READ:
        message = f"the query has {len(queries[0]):,} characters and goes with {len(texts):,}"
        remedy = f"texts; at most {_READ:,} characters are read. Shorten it, or send fewer texts."
        raise APIError(413, "text_too_long", f"{message} {remedy}", param="query")


def check_tokens(asked: int | None, read: int, *, param: str) -> None:
    """Refuse a bound below what the model reads: texts are cut there and nowhere else; -1 is it."""
    if asked is not None and -1 < asked < read:
        message = f"texts are cut to the {read:,} tokens that the model reads, not to fewer."
        raise APIError(400, "too_few_tokens", f"{message} Leave the field out.", param=param)


async def embed_texts(
    state: AppState,
    texts: list[str],
    *,
    prompt: str | None = None,
    on_long: str = "cut",
    truncate: bool | str | None = None,
    param: str = "input",
) -> Embedded:
    """Turn checked texts into vectors; refuse what is too long where nothing may be cut."""
    state.check_texts(texts, param=param)
    if truncate == "START":
        message = "texts that are too long are cut at their end. Send END or NONE."
        raise APIError(400, "unknown_truncation", message, param="truncate")
    found = await state.engine.embed(texts, prompt=prompt, on_long=on_long)
    if truncate is False or truncate == "NONE":
        check_uncut(found.cut, "text", state.resources.encoder.max_tokens, param=param)
    return found


def check_uncut(cut: int, kind: str, read: int, *, param: str) -> None:
    """Refuse texts or pairs that were cut, where nothing may be."""
    if cut:
        message = f"{counted(cut, kind)} of this request is longer than the {read:,}"
        remedy = "tokens that the model reads. Cut it, or allow that it is cut."
        raise APIError(413, "text_too_long", f"{message} {remedy}", param=param)


async def _embed(state: AppState, request: EmbeddingsRequest) -> Embedded:
    given: list[Any] = request.input if isinstance(request.input, list) else [request.input]
    prompt = _prompt(state, request)
    if not isinstance(given[0], str):  # token ids: one list of them, or several
        ids: list[list[int]] = [given] if isinstance(given[0], int) else given
        if prompt:
            message = "a prompt cannot be put in front of token ids. Send text instead."
            raise APIError(400, "no_prompt_for_ids", message, param="input")
        check = partial(_check_ids, state, ids, own=request.tokenizer == "own")
        count = sum(map(len, ids))
        return await state.engine.embed_ids(await run_if_large(state, check, numbers=count))
    options: dict[str, Any] = {"on_long": request.on_long, "truncate": request.truncate}
    return await embed_texts(state, given, prompt=prompt, **options)


def _prompt(state: AppState, request: EmbeddingsRequest) -> str | None:
    named = {request.prompt, request.input_type, request.task} - {None}
    if len(named) > 1:
        message = "`prompt`, `input_type` and `task` say different things. Send one of them."
        raise APIError(400, "two_prompts", message, param="prompt")
    if request.prompt is not None:
        return state.check_prompt(request.prompt, param="prompt")
    return state.prompt_for(request.input_type or request.task)


def _check_ids(state: AppState, ids: list[list[int]], *, own: bool) -> list[list[int]]:
    """Refuse ids that are not said to be this model's: those of others would be wrong vectors.

    No look at the numbers can tell them apart: any tokenizer may begin and end a list with what are
    this model's special tokens, and its ids in between may spell words here too.
    """
    encoder = state.resources.encoder
    if not isinstance(encoder, Encoder):
        raise APIError(400, "no_token_ids", f"{encoder.name} reads text only.", param="input")
    state.check_count(len(ids), param="input")
    if not own:
        message = "the input has token ids that are not marked as this model's. Send text (in"
        remedy = "LangChain's OpenAIEmbeddings: check_embedding_ctx_length=False), or, for ids of"
        last = 'this model\'s tokenizer, "tokenizer": "own".'
        raise APIError(400, "foreign_tokens", f"{message} {remedy} {last}", param="input")
    ids, rows = [encoder.with_special_ids(one) for one in ids], encoder.vocabulary
    longest = max(map(len, ids))
    if longest > encoder.max_tokens:
        message = f"a list has {longest:,} ids; the model reads {encoder.max_tokens}. Cut it."
        raise APIError(400, "too_many_tokens", message, param="input")
    if max(map(max, ids)) >= rows:
        message = f"an id is not among the {rows:,} of the model's tokenizer. Send text instead."
        raise APIError(400, "unknown_token", message, param="input")
    return ids


def shorten(state: AppState, vectors: Floats, dimensions: int | None) -> Floats:
    """Keep the first dimensions of vectors, renormalised where the model's have length one."""
    encoder = state.resources.encoder
    if dimensions is None or dimensions == encoder.dimension:
        return vectors
    if dimensions > encoder.dimension:
        most = f"the model's vectors have {encoder.dimension} dimensions. Ask for at most as many."
        raise APIError(400, "too_many_dimensions", most, param="dimensions")
    cut = vectors[:, :dimensions]
    return normalize(cut) if encoder.manifest.normalize else cut
