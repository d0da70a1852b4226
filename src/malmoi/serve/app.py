"""The application: the table of routes, the OpenAPI document made from it, and the lifespan."""

import hashlib
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..runtime.session import usable_cores
from . import schemas
from .api_keys import access
from .errors import APIError, parse_body
from .middleware import Gateway
from .routes import corpora, embeddings, info, search, vendors, words
from .schemas import Schema
from .settings import UPLOAD_PATH
from .state import AppState

_LONG = 16 * 1024  # bytes of a body that is parsed outside the event loop
PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_ERRORS = {
    400: "an option that does not fit the model",
    401: "no known API key",
    403: "another site's page, a foreign Host, or what the key may not call",
    404: "something that is not served here",
    408: "a body that came too slowly",
    413: "too much at once",
    415: "a body that is not JSON",
    422: "a body of another shape",
    429: "too many requests; Retry-After says when",
    431: "headers that are too long",
    503: "starting or stopping",
}


@dataclass(frozen=True)
class Endpoint:
    """A path, its heading in the OpenAPI document, the function that answers, and its schema."""

    path: str
    tag: str
    answer: Callable[..., Awaitable[Response]]
    response: type[BaseModel] | None = None  # none for what is not JSON

    @property
    def request(self) -> type[Schema] | None:
        """The schema of the body, as the function takes it; none for GET."""
        return self.answer.__annotations__.get("request")

    @property
    def method(self) -> str:
        """GET, or POST where there is a body."""
        return "GET" if self.request is None else "POST"


# The paths that are asked most come first: the router tries them in order.
ROUTES = (
    Endpoint("/v1/embeddings", "vectors", embeddings.embeddings, schemas.EmbeddingsResponse),
    Endpoint("/v1/search", "search", search.search, schemas.SearchResponse),
    Endpoint("/v1/link", "terms", words.link, schemas.LinkResponse),
    Endpoint("/v1/link/note", "terms", words.note, schemas.NoteResponse),
    Endpoint("/v1/redact", "terms", words.redact, schemas.RedactResponse),
    Endpoint("/v1/rerank", "ranking", embeddings.rerank, schemas.RerankResponse),
    Endpoint("/v1/similarity", "vectors", embeddings.similarity, schemas.SimilarityResponse),
    Endpoint("/v1/words", "words", words.words, schemas.WordsResponse),
    Endpoint("/v1/keywords", "words", words.find, schemas.KeywordsResponse),
    Endpoint("/v1/passages", "search", corpora.passages, schemas.PassagesResponse),
    Endpoint("/v1/corpus", "search", corpora.describe, schemas.CorpusResponse),
    Endpoint("/v1/map", "search", search.draw, schemas.MapResponse),
    Endpoint(UPLOAD_PATH, "search", corpora.upload, schemas.UploadResponse),
    Endpoint("/v1/embed", "vendors", vendors.cohere_v1, vendors.CohereEmbedResponse),
    Endpoint("/v2/embed", "vendors", vendors.cohere_v2, vendors.CohereEmbedResponse),
    Endpoint("/v2/rerank", "vendors", embeddings.rerank, schemas.RerankResponse),
    Endpoint("/rerank", "vendors", vendors.rerank, vendors.VendorRerankResponse),
    Endpoint("/embed", "vendors", vendors.embed, vendors.TEIEmbedResponse),
    Endpoint("/api/embed", "vendors", vendors.ollama_embed, vendors.OllamaEmbedResponse),
    Endpoint("/health", "status", info.health, schemas.HealthResponse),
    Endpoint("/ready", "status", info.ready, schemas.HealthResponse),
    Endpoint("/metrics", "status", info.metrics),
    Endpoint("/v1/models", "status", info.models, schemas.ModelsResponse),
    Endpoint("/v1/models/{id}", "status", info.model, schemas.ModelInfo),
    Endpoint("/v1/info", "status", info.info, schemas.InfoResponse),
)


# What a key must be allowed to call, by the headings of endpoints.
_RIGHTS = {
    **dict.fromkeys(("vectors", "ranking", "words", "vendors"), "embeddings"),
    "search": "search",
    "terms": "notes",
}


_OWN_RIGHTS = {UPLOAD_PATH: "upload", "/metrics": "metrics"}  # no key is given the second


def check_right(right: str) -> None:
    """Refuse what the key of this request may not call."""
    allow = access().rights.allow
    if right and allow is not None and right not in allow:
        message = f"this key may call {', '.join(allow) or 'nothing'}, and this is {right}."
        raise APIError(403, "not_allowed", f"{message} Ask whoever runs this server.")


class _Bound:
    """An endpoint with the state it works on: checks the body, which comes whole, and answers."""

    def __init__(self, endpoint: Endpoint, state: AppState, **values: str) -> None:
        self.path, self._state, self._values = endpoint.path, state, values
        self._right = _OWN_RIGHTS.get(endpoint.path) or _RIGHTS.get(endpoint.tag, "")
        self._answer, self._schema, self.method = endpoint.answer, endpoint.request, endpoint.method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_right(self._right)
        if self._schema is None:
            response = await self._answer(self._state, **self._values)
            await response(scope, receive, send)
        else:
            await self._answer_body(self._schema, scope, receive, send)

    async def _answer_body(
        self, schema: type[Schema], scope: Scope, receive: Receive, send: Send
    ) -> None:
        state, body = self._state, (await receive())["body"]
        read = partial(parse_body, schema, body)
        request = read() if len(body) <= _LONG else await state.engine.convert(read)
        response = await self._answer(state, request)
        await response(scope, receive, send)


class _File:
    """A file that is sent as it was read at the start: no path of a request is ever opened."""

    def __init__(self, path: str, body: bytes, media_type: str) -> None:
        self.path, self._body, self._type = path, body, media_type
        self._tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"etag": self._tag, "cache-control": "no-cache"}
        if dict(scope["headers"]).get(b"if-none-match") == self._tag.encode():
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(self._body, headers=headers, media_type=self._type)
        await response(scope, receive, send)


def make_app(state: AppState, *, workers: int | None = None) -> ASGIApp:
    """Make the ASGI application that serves models, corpora and lexicons."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        state.open(workers=workers or usable_cores())
        yield
        await anyio.to_thread.run_sync(state.close)

    settings, files = state.settings, _read_files()
    bound = dict(_bind(state))
    routes = [Route(path, one, methods=[one.method]) for path, one in bound.items()]
    routes += [Route(file.path, file, methods=["GET"]) for file in files]
    router = Router(routes, redirect_slashes=False, lifespan=lifespan)
    methods = {path: one.method for path, one in bound.items()}
    methods |= {file.path: "GET" for file in files}
    public = frozenset(file.path for file in files)
    app: ASGIApp = Gateway(router, state, public=public, methods=methods)
    if settings.cors:  # outside, so that errors too can be read by the pages that may call
        app = CORSMiddleware(
            app,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    return app


def _bind(state: AppState) -> Iterator[tuple[str, _Bound]]:
    """The endpoints with their paths; one that names a model has a path for each that is served."""
    for one in ROUTES:
        if "{id}" not in one.path:
            yield one.path, _Bound(one, state)
            continue
        for name in state.resources.models:
            yield one.path.replace("{id}", name), _Bound(one, state, id=name)


def _read_files() -> list[_File]:
    """The page's files and the OpenAPI document."""
    document = json.dumps(openapi(), ensure_ascii=False).encode()
    files = [_File("/openapi.json", document, _TYPES[".json"])]
    for file in sorted(PAGE.rglob("*")):
        if file.suffix in _TYPES:
            name = file.relative_to(PAGE).as_posix()
            path = "/" if name == "index.html" else f"/page/{name}"
            files.append(_File(path, file.read_bytes(), _TYPES[file.suffix]))
    return files


def openapi() -> dict[str, Any]:
    """Describe all routes and their schemas, as OpenAPI 3.1 has it."""
    used = [one.request for one in ROUTES] + [one.response for one in ROUTES]
    models = [model for model in (*used, schemas.ErrorResponse) if model is not None]
    _, found = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)],
        ref_template="#/components/schemas/{model}",
    )
    for schema in found["$defs"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False  # dataclasses do not say so by themselves
        for one in schema.get("properties", {}).values():
            if one.get("default", 0) is None:  # a field that may be left out, which says enough
                del one["default"]
    summary = "Korean, English and mixed text made comparable."
    return {
        "openapi": "3.1.0",
        "info": {"title": "malmoi", "summary": summary, "version": __version__},
        "paths": {one.path: {one.method.lower(): _operation(one)} for one in ROUTES},
        "components": {"schemas": found["$defs"]},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    name = endpoint.answer.__name__
    stem = "".join(c if c.isalnum() else "_" for c in f"{name}{endpoint.path}")
    found: dict[str, Any] = {
        "tags": [endpoint.tag],
        "summary": name.title(),
        "description": inspect.getdoc(endpoint.answer),
        "operationId": f"{stem}_{endpoint.method.lower()}",
        "responses": {"200": {"description": "Successful Response"} | _content(endpoint.response)},
    }
    if "{id}" in endpoint.path:
        schema = {"type": "string"}
        found["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": schema}]
    if endpoint.request is not None:
        found["requestBody"] = {"required": True} | _content(endpoint.request)
    for status, description in _ERRORS.items():
        error = _content(schemas.ErrorResponse)
        found["responses"][str(status)] = {"description": description} | error
    return found


def _content(schema: type[BaseModel] | None) -> dict[str, Any]:
    if schema is None:
        return {}
    reference = {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {"content": {"application/json": {"schema": reference}}}
