"""Documents found: /v1/search over the corpora that were named at the start."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from ..corpus import Corpus, Hit
from ..pooling import Floats
from .embedding import json_response
from .highlights import matches
from .house import House
from .ranking import served
from .refusals import Refusal
from .shapes_tools import SearchAsked, SearchGiven
from .shared import SharedReranker

_FIRST = ("fused", "dense", "keyword")  # the stages before a reranker, the last one first


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["search"])

    @routes.post("/v1/search", response_model=SearchGiven)
    async def search(asked: SearchAsked) -> Response:
        """Find documents by meaning, by words or by both, and rerank them when asked."""
        name, corpus = house.stock.corpus(asked.corpus)
        house.check_texts([asked.query], param="query")
        _check_fields(corpus, asked)
        reranker = SharedReranker(house.desk) if asked.rerank and served(house) else None
        known = await house.shared.prepare([asked.query]) if asked.mode != "keyword" else {}
        hits = await house.desk.call(partial(_search, house, corpus, asked, reranker, known))
        return json_response(
            {
                "corpus": name,
                "mode": asked.mode,
                "reranked": asked.rerank,
                "documents": len(corpus),
                "hits": hits,
            }
        )

    return routes


def _check_fields(corpus: Corpus, asked: SearchAsked) -> None:
    known = corpus.store.fields() if asked.filter else []
    if asked.filter and not set(asked.filter) <= set(known):
        raise Refusal(
            400,
            "unknown_field",
            f"a filter names a field that no document has; they have: {', '.join(known)}.",
            param="filter",
        )


def _search(
    house: House,
    corpus: Corpus,
    asked: SearchAsked,
    reranker: SharedReranker | None,
    known: Mapping[str, Floats],
) -> list[dict[str, Any]]:
    depth = max(asked.depth, asked.k)
    with house.shared.knowing(known):
        hits = corpus.search(
            asked.query,
            depth if reranker else asked.k,
            mode=asked.mode,
            filter=asked.filter or None,
            reranker=reranker,
            depth=depth,
        )
    before = _ranks_before(hits) if reranker else {}
    return [_shown(hit, asked.query, before) for hit in hits[: asked.k]]


def _ranks_before(hits: list[Hit]) -> dict[str, int]:
    """The place that each document had before it was reranked, from 1."""
    stage = next((name for name in _FIRST if hits and name in hits[0].scores), "dense")
    order = sorted(hits, key=lambda hit: -hit.scores.get(stage, float("-inf")))
    return {hit.id: place for place, hit in enumerate(order, start=1)}


def _shown(hit: Hit, query: str, before: dict[str, int]) -> dict[str, Any]:
    return {
        "id": hit.id,
        "text": hit.text,
        "score": round(float(hit.score), 6),
        "scores": {name: round(float(score), 6) for name, score in hit.scores.items()},
        "metadata": dict(hit.metadata),
        "matches": matches(query, hit.text),
        "rank_before": before.get(hit.id),
    }
