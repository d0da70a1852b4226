"""Documents found: /v1/search over the corpora that were named at the start."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from ..corpus import Corpus, Hit
from ..types import Floats
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
        found = await house.desk.call(partial(_search, house, corpus, asked, reranker, known))
        about = {"corpus": name, "mode": asked.mode, "reranked": asked.rerank}
        return json_response(about | {"documents": len(corpus)} | found)

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
) -> dict[str, Any]:
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
    order = _order_before(hits) if reranker else []
    before = {place.hit.id: place.rank for place in order}
    after = {hit.id: rank for rank, hit in enumerate(hits, start=1)}
    return {
        "hits": [_shown(hit, asked.query, before) for hit in hits[: asked.k]],
        "before": [
            {
                "id": one.hit.id,
                "text": one.hit.text,
                "score": round(one.score, 6),
                "rank_after": after[one.hit.id],
            }
            for one in order[: asked.k]
        ],
    }


@dataclass(frozen=True)
class _Place:
    """Where a document stood before it was reranked, counted from 1, and by which score."""

    hit: Hit
    rank: int
    score: float


def _order_before(hits: list[Hit]) -> list[_Place]:
    stage = next((name for name in _FIRST if hits and name in hits[0].scores), "dense")
    scored = [(hit, float(hit.scores.get(stage, 0.0))) for hit in hits]
    scored.sort(key=lambda one: -one[1])
    return [_Place(hit, rank, score) for rank, (hit, score) in enumerate(scored, start=1)]


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
