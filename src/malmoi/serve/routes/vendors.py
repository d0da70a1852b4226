"""The paths of other vendors' servers, in their shapes: Cohere, vLLM, TEI and Ollama.

TEI is Hugging Face's Text Embeddings Inference. Each function maps its fields to what the routes of
`embeddings.py` do, and writes the same vectors and scores in its own shape. Fields that mean
something here are honoured. Some say what is the case here anyway, or mean nothing; they are taken
and not used, and their description says so. All others are refused as everywhere.
"""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, RootModel
from starlette.responses import Response

from ...runtime.pooling import Precision, normalize, to_precision
from ...types import Floats
from ..errors import APIError
from ..schemas import (
    UNUSED,
    Documents,
    InputType,
    ModelName,
    PromptTokens,
    RerankRequest,
    RerankResponse,
    Schema,
    TextOrTexts,
    Texts,
    Tokens,
    example,
    few,
)
from ..settings import MOST_TEXTS
from ..state import AppState
from . import as_list, json_response, write_response, write_vectors
from .embeddings import (
    check_normalized,
    check_pairs,
    check_tokens,
    check_uncut,
    embed_texts,
    rank,
    shorten,
    texts_of,
)

Truncate = Annotated[
    Literal["NONE", "START", "END"] | None,
    Field(description="What is done with texts that are too long: NONE refuses them."),
]
EmbeddingType = Literal["float", "base64", "int8", "uint8", "binary", "ubinary"]
EmbeddingTypes = Annotated[list[EmbeddingType], Field(min_length=1, max_length=6, fail_fast=True)]
Direction = Literal["left", "right", "Left", "Right"] | None
Dimensions = Annotated[int | None, Field(ge=1, le=65536)]


class CohereContent(Schema):
    """A part of an input: a text."""

    type: Literal["text"]
    text: str


class CohereInput(Schema):
    """An input of one text."""

    content: Annotated[list[CohereContent], Field(min_length=1, max_length=1, fail_fast=True)]


class CohereEmbedRequest(Schema):
    """Texts to turn into vectors, in Cohere's shape (v1)."""

    model_config = example(texts=["배가 아파요"], model="ko-en-small", input_type="search_query")

    model: ModelName = None
    input_type: InputType = None
    embedding_types: EmbeddingTypes | None = None
    truncate: Truncate = None
    texts: Texts


class CohereEmbedRequestV2(Schema):
    """Texts to turn into vectors, in Cohere's shape (v2)."""

    model_config = example(
        texts=["배가 아파요"],
        model="ko-en-small",
        input_type="search_query",
        embedding_types=["float"],
    )

    model: ModelName = None
    input_type: InputType = None
    embedding_types: EmbeddingTypes | None = None
    truncate: Truncate = None
    texts: Texts | None = None
    inputs: Annotated[
        list[CohereInput] | None, Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)
    ] = None
    output_dimension: Dimensions = None
    max_tokens: Tokens = None
    priority: Annotated[int, Field(ge=0, le=999, description=UNUSED)] = 0


class CohereEmbedResponse(Schema):
    """The vectors; by their types where types were asked for."""

    id: str
    response_type: Literal["embeddings_floats", "embeddings_by_type"]
    embeddings: list[list[float]] | dict[str, list[Any]]
    texts: list[str]
    meta: dict[str, Any]


class VendorRerankRequest(RerankRequest):
    """A query and `documents` to put in order, as vLLM and Jina say it, or TEI's `texts`."""

    documents: Documents | None = None  # type: ignore[assignment]
    texts: Texts | None = None
    raw_scores: Annotated[bool | None, Field(description="TEI's: true is refused.")] = None
    return_text: Annotated[bool, Field(description="TEI's: give the texts too.")] = False
    truncate: Annotated[
        bool | None, Field(description="TEI's: false refuses pairs that are too long.")
    ] = None
    truncation_direction: Annotated[Direction, Field(description="TEI's: left is refused.")] = None
    truncate_prompt_tokens: PromptTokens = None


class VendorRank(Schema):
    """One text of a ranking, in TEI's shape."""

    index: int
    score: float
    text: str | None = None


class VendorRerankResponse(RootModel[RerankResponse | list[VendorRank]]):
    """The best first: vLLM's shape for `documents`, TEI's for `texts`."""


class TEIEmbedRequest(Schema):
    """Texts to turn into vectors, in TEI's shape."""

    model_config = example(inputs=["배가 아파요", "My stomach hurts"])

    inputs: TextOrTexts
    normalize: bool | None = None
    truncate: Annotated[
        bool | None, Field(description="false refuses texts that are too long.")
    ] = None
    truncation_direction: Direction = None
    prompt_name: Annotated[str | None, Field(max_length=200)] = None
    dimensions: Dimensions = None
    encoding_format: Annotated[
        Literal["float"] | None, Field(description="What huggingface_hub may add.")
    ] = None


class TEIEmbedResponse(RootModel[list[list[float]]]):
    """A vector for each text."""


class OllamaEmbedRequest(Schema):
    """Texts to turn into vectors, in Ollama's shape."""

    model_config = example(model="ko-en-small", input=["배가 아파요"])

    input: TextOrTexts
    model: ModelName = None
    truncate: bool | None = None
    dimensions: Dimensions = None
    options: Annotated[
        dict[str, str | int | float | bool] | None,
        Field(max_length=64, description=UNUSED),
        few(64),
    ] = None
    keep_alive: Annotated[str | int | float | None, Field(description=UNUSED)] = None


class OllamaEmbedResponse(Schema):
    """The vectors; times in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


async def cohere_v2(state: AppState, request: CohereEmbedRequestV2) -> Response:
    """Turn texts into vectors of the types asked for; Cohere's shape of v2."""
    if (request.texts is None) == (request.inputs is None):
        message = "the body has both of `texts` and `inputs`, or none. Send one of them."
        raise APIError(400, "no_texts", message, param="texts")
    check_tokens(request.max_tokens, state.resources.encoder.max_tokens, param="max_tokens")
    texts = request.texts or [one.content[0].text for one in request.inputs or ()]
    return await _cohere(state, request, texts, request.output_dimension)


async def cohere_v1(state: AppState, request: CohereEmbedRequest) -> Response:
    """Turn texts into vectors; Cohere's shape of v1."""
    return await _cohere(state, request, request.texts, None)


async def _cohere(
    state: AppState,
    request: CohereEmbedRequest | CohereEmbedRequestV2,
    texts: list[str],
    dimension: int | None,
) -> Response:
    state.check_model(request.model, state.resources.encoder.name)
    prompt = state.prompt_for(request.input_type)
    found = await embed_texts(state, texts, prompt=prompt, truncate=request.truncate, param="texts")
    vectors, types = shorten(state, found.vectors, dimension), request.embedding_types
    rows: Any = write_vectors(vectors, "float")
    kind = "embeddings_floats"
    if types is not None or isinstance(request, CohereEmbedRequestV2):
        rows = {one: _coded(vectors, one) for one in dict.fromkeys(types or ("float",))}
        kind = "embeddings_by_type"
    units = {"input_tokens": found.tokens}
    meta = {"api_version": {"version": "2"}, "billed_units": units}
    answer = {"id": "", "response_type": kind, "embeddings": rows, "texts": texts, "meta": meta}
    numbers = vectors.size * len(types or (1,))
    return await write_response(state, answer, numbers=numbers, cut=found.cut)


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
    check_uncut(cut, "pair", reranker.max_tokens, param="truncate")


async def embed(state: AppState, request: TEIEmbedRequest) -> Response:
    """Turn texts into vectors; TEI's shape."""
    check_normalized(state, request.normalize, param="normalize")
    prompt = state.check_prompt(request.prompt_name, param="prompt_name")
    left = request.truncate and (request.truncation_direction or "").lower() == "left"
    truncate: bool | str | None = "START" if left else request.truncate
    texts = as_list(request.inputs)
    found = await embed_texts(state, texts, prompt=prompt, truncate=truncate, param="inputs")
    vectors = shorten(state, found.vectors, request.dimensions)
    if request.normalize is not False:
        vectors = normalize(vectors)
    rows = write_vectors(vectors, "float")
    return await write_response(state, rows, numbers=vectors.size, cut=found.cut)


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
