"""The page's files, read once at the start: no path that a request names is ever opened."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

FOLDER = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page as it is sent."""

    body: bytes
    type: str
    tag: str


def read_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Read the page's files by the path at which they are served."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in _TYPES:
            body = file.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            path = "/" if file.name == "index.html" else f"/page/{file.relative_to(folder)}"
            found[path] = Asset(body, _TYPES[file.suffix], tag)
    return found


def router(assets: dict[str, Asset]) -> APIRouter:
    """Make a route for each file."""
    routes = APIRouter(include_in_schema=False)
    for path, asset in assets.items():
        routes.add_api_route(path, _serving(asset), methods=["GET", "HEAD"])
    return routes


def _serving(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    headers = {"etag": asset.tag, "cache-control": "no-cache"}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.type, headers=headers)

    return serve
