"""The short way from a body to its route: FastAPI declares the routes, and this calls them.

FastAPI's own way (its middleware, the matching of paths, what it calls dependencies) takes a
processor about as long as a short text's vector. All routes that take JSON have one body and
nothing else, so a dictionary of paths and pydantic's own reader do the same.
"""

import typing
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from .refusals import Refusal, refusal_of, refusal_of_shape

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """A route, the shape of its body, and the function behind it."""

    route: APIRoute
    shape: type[BaseModel]
    answer: Callable[[BaseModel], Awaitable[Response]]


class Direct:
    """An ASGI application that answers the routes with a body, and passes on everything else."""

    def __init__(self, app: App, routers: Iterable[APIRouter]) -> None:
        self._app = app
        self.ways = {
            route.path: _way(route)
            for router in routers
            for route in router.routes
            if isinstance(route, APIRoute) and route.methods == {"POST"}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whose body comes in one message."""
        way = self.ways.get(scope["path"]) if scope.get("method") == "POST" else None
        if way is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = way.route
        response = await answer(way, (await receive())["body"])
        await send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": response.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": response.body})


def _way(route: APIRoute) -> Way:
    [shape] = [
        kind for name, kind in typing.get_type_hints(route.endpoint).items() if name != "return"
    ]
    return Way(route, shape, route.endpoint)


async def answer(way: Way, body: bytes) -> Response:
    """Read a body in its shape and call the route; what is wrong with it is told."""
    try:
        return await way.answer(way.shape.model_validate_json(body))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return refused(refusal_of_shape(found))
    except Exception as error:
        refusal = refusal_of(error)
        if refusal.status >= 500 and not isinstance(error, Refusal):
            raise  # the guard logs its place, and answers
        return refused(refusal)


def refused(refusal: Refusal) -> Response:
    """Make the answer that says no."""
    return Response(refusal.body(), status_code=refusal.status, headers=refusal.headers())
