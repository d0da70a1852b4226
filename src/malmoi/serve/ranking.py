"""Texts put in order by a cross-encoder: /v1/rerank, in the shape that Cohere and Jina share."""

from fastapi import APIRouter, Response

from ..reranker.reranker import Reranker
from .embedding import json_response
from .house import House
from .refusals import Refusal
from .shapes import RerankAsked, RerankGiven


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["ranking"])

    @routes.post("/v1/rerank", response_model=RerankGiven, response_model_exclude_none=True)
    async def rerank(asked: RerankAsked) -> Response:
        """Sort texts by how well they answer a query, the best first."""
        reranker = served(house)
        house.check_model(asked.model, reranker.name)
        texts = [text if isinstance(text, str) else text.text for text in asked.documents]
        house.check_texts([asked.query, *texts], param="documents")
        scores = await house.desk.score(asked.query, texts)
        order = sorted(range(len(texts)), key=lambda i: -scores[i])[: asked.top_n]
        results = [
            {"index": i, "relevance_score": round(float(scores[i]), 7)}
            | ({"document": {"text": texts[i]}} if asked.return_documents else {})
            for i in order
        ]
        return json_response({"model": reranker.name, "results": results})

    return routes


def served(house: House) -> Reranker:
    """Give the reranker, or say that there is none."""
    if house.stock.reranker is None:
        raise Refusal(
            404,
            "no_reranker",
            "no reranker is served here. Start the server with: malmoi serve --reranker MODEL",
        )
    return house.stock.reranker
