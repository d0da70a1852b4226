"""What the server says of itself: /health, /ready, /metrics, /v1/models and /v1/info."""

from starlette.responses import Response

from ... import __version__
from ...bundle.manifest import Manifest
from ...encoders import Encoder
from ..errors import APIError
from ..metrics import CONTENT_TYPE
from ..schemas import LimitsInfo
from ..state import AppState
from . import json_response

_OF_MANIFEST = ("kind", "dimension", "max_tokens", "languages", "licence")


async def health(state: AppState) -> Response:
    """Say that the process lives."""
    return json_response({"status": "ok"})


async def ready(state: AppState) -> Response:
    """Say that requests are taken; 503 while starting or stopping."""
    if not state.ready:
        raise APIError(503, "stopping", "the server takes no requests now. Try again.", wait=1)
    return json_response({"status": "ok"})


async def metrics(state: AppState) -> Response:
    """Give counters and times in Prometheus' form."""
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


async def models(state: AppState) -> Response:
    """List the models that are served, in OpenAI's shape."""
    data = [_model(one.manifest) for one in state.resources.models.values()]
    return json_response({"object": "list", "data": data})


async def model(state: AppState, id: str) -> Response:
    """Describe one model that is served, in OpenAI's shape."""
    return json_response(_model(state.resources.models[id].manifest))


async def info(state: AppState) -> Response:
    """Say what is served and within which limits: what the page and the client begin with."""
    resources, limits = state.resources, state.settings.limits
    encoder, uploads, seen = resources.encoder, state.settings.uploads, resources.seen_corpora

    def describe() -> list[dict[str, object]]:
        return [
            {"name": name, "documents": len(corpus), "fields": corpus.store.fields()}
            for name, corpus in seen.items()
        ]

    corpora = await state.engine.call(describe, lane="search")  # they are read from files
    return json_response(
        {
            "version": __version__,
            "encoder": _model(encoder.manifest),
            "reranker": _model(resources.reranker.manifest) if resources.reranker else None,
            "layers": encoder.reader.layers if isinstance(encoder, Encoder) else 0,
            "corpora": corpora,
            "lexicons": [
                {"name": name, "names": len(reader.linker.lexicon)}
                for name, reader in resources.seen_lexicons.items()
            ],
            "limits": {name: getattr(limits, name) for name in LimitsInfo.model_fields},
            "uploads": uploads and {"files": uploads.files, "bytes": uploads.bytes},
        }
    )


def _model(manifest: Manifest) -> dict[str, object]:
    own = {"id": manifest.name, "object": "model", "created": 0, "owned_by": "malmoi"}
    return own | {name: getattr(manifest, name) for name in _OF_MANIFEST}
