"""The application: routes, the one place that turns errors into answers, and the guard around."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from .. import __version__
from ..errors import MalmoiError
from ..runtime.session import usable_cores
from . import assets, atlas, embedding, finding, keying, looking, ranking, status, terms
from .direct import App, Direct, refused
from .guard import Guard
from .house import House, Stock
from .keys import KeyRing, read_keys
from .refusals import Refusal, refusal_of, refusal_of_shape
from .settings import Settings
from .shapes import Errors

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Errors, "description": "an option that does not fit the model"},
    401: {"model": Errors, "description": "no known API key"},
    403: {"model": Errors, "description": "another site's page, or a foreign Host"},
    404: {"model": Errors, "description": "something that is not served here"},
    408: {"model": Errors, "description": "a body that came too slowly"},
    413: {"model": Errors, "description": "too much at once"},
    415: {"model": Errors, "description": "a body that is not JSON"},
    422: {"model": Errors, "description": "a body of another shape"},
    429: {"model": Errors, "description": "too many requests; Retry-After says when"},
    431: {"model": Errors, "description": "headers that are too long"},
    503: {"model": Errors, "description": "starting or stopping"},
}


def make_app(stock: Stock, settings: Settings, *, workers: int | None = None) -> Guard:
    """Make the ASGI application that serves a stock of models, corpora and lexicons."""
    house = House(stock, settings)
    ring = KeyRing(read_keys(settings.keys)) if settings.keys is not None else None
    page = assets.read_assets()
    app = FastAPI(
        title="malmoi",
        version=__version__,
        summary="Korean, English and mixed text made comparable.",
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=_ERRORS,
        lifespan=_living(house, workers),
    )
    modules = (embedding, ranking, finding, terms, looking, keying, atlas, status)
    routers = [module.router(house) for module in modules]
    for router in (*routers, assets.router(page)):
        app.include_router(router)
    app.add_exception_handler(RequestValidationError, _answer_shape)
    app.add_exception_handler(HTTPException, _answer_http)
    for kind in (Refusal, MalmoiError, Exception):
        app.add_exception_handler(kind, _answer_error)
    direct = Direct(app, routers)
    inner: App = direct
    if settings.cors:
        inner = CORSMiddleware(
            inner,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    public = frozenset(page) | {"/openapi.json"}
    # With CORS every answer needs headers of the page that asks, which the middleware adds.
    ways = {} if settings.cors else direct.ways
    return Guard(inner, settings, ring=ring, house=house, public=public, ways=ways)


def _living(house: House, workers: int | None) -> Any:
    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        house.open(workers=workers or usable_cores())
        yield
        await anyio.to_thread.run_sync(house.close)

    return living


async def _answer_shape(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refused(refusal_of_shape(error.errors()))


async def _answer_http(request: Request, error: Exception) -> Response:
    """Say what FastAPI itself refuses: an unknown path, a wrong method, a body that is no JSON."""
    assert isinstance(error, HTTPException)
    messages = {
        400: ("no_json", "the body cannot be read as JSON. See /openapi.json."),
        404: ("not_found", "there is nothing at this path. See /openapi.json."),
        405: ("wrong_method", "this path takes another method. See /openapi.json."),
    }
    code, message = messages.get(error.status_code, ("refused", "the request was refused."))
    response = refused(Refusal(error.status_code, code, message))
    if error.headers and "allow" in {name.lower() for name in error.headers}:
        response.headers.update(error.headers)
    return response


async def _answer_error(request: Request, error: Exception) -> Response:
    return refused(refusal_of(error))
