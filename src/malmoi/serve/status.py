"""What the server says of itself: /health, /ready, /metrics, /v1/models and /v1/info."""

from fastapi import APIRouter, Response

from .. import __version__
from ..bundle.manifest import Manifest
from .embedding import json_response
from .house import House
from .metrics import TYPE
from .refusals import Refusal
from .shapes import Health, Info, Models


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["status"])

    @routes.get("/health", response_model=Health)
    async def health() -> Response:
        """Say that the process lives."""
        return json_response({"status": "ok"})

    @routes.get("/ready", response_model=Health)
    async def ready() -> Response:
        """Say that requests are taken; 503 while starting or stopping."""
        if not house.ready:
            raise Refusal(503, "stopping", "the server takes no requests now. Try again.", wait=1)
        return json_response({"status": "ok"})

    @routes.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Give counters and times in Prometheus' form."""
        return Response(house.metrics.text(), media_type=TYPE)

    @routes.get("/v1/models", response_model=Models)
    async def models() -> Response:
        """List the models that are served, in OpenAI's shape."""
        stock = house.stock
        manifests = [stock.encoder.manifest]
        if stock.reranker is not None:
            manifests.append(stock.reranker.manifest)
        return json_response({"object": "list", "data": [_card(one) for one in manifests]})

    @routes.get("/v1/info", response_model=Info)
    async def info() -> Response:
        """Say what is served and within which limits: what the page and the client begin with."""
        return json_response(describe(house))

    return routes


def describe(house: House) -> dict[str, object]:
    """Sum up what is served."""
    stock, limits = house.stock, house.settings.limits
    return {
        "version": __version__,
        "encoder": _card(stock.encoder.manifest),
        "reranker": _card(stock.reranker.manifest) if stock.reranker else None,
        "layers": stock.layers,
        "corpora": [
            {"name": name, "documents": len(corpus), "fields": corpus.store.fields()}
            for name, corpus in stock.corpora.items()
        ],
        "lexicons": [
            {"name": name, "names": len(terms.linker.lexicon)}
            for name, terms in stock.lexicons.items()
        ],
        "limits": {
            "texts": limits.texts,
            "characters": limits.characters,
            "body_bytes": limits.body_bytes,
        },
    }


def _card(manifest: Manifest) -> dict[str, object]:
    return {
        "id": manifest.name,
        "object": "model",
        "created": 0,
        "owned_by": "malmoi",
        "kind": manifest.kind,
        "dimension": manifest.dimension,
        "max_tokens": manifest.max_tokens,
        "languages": list(manifest.languages),
        "licence": manifest.licence,
    }
