"""Phrases that tell what a text is about: /v1/keywords."""

from fastapi import APIRouter, Response

from ..mining.keywords import keywords
from .embedding import json_response
from .house import House
from .shapes_tools import KeywordsAsked, KeywordsGiven


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["words"])

    @routes.post("/v1/keywords", response_model=KeywordsGiven)
    async def find(asked: KeywordsAsked) -> Response:
        """Give the phrases nearest to a whole text, and not to each other, best first."""
        house.check_texts([asked.text], param="text")
        encoder = house.shared
        if not asked.text.strip():
            return json_response({"keywords": []})
        found = await house.desk.call(
            lambda: keywords(encoder, asked.text, top=asked.top, diversity=asked.diversity)
        )
        return json_response(
            {
                "keywords": [
                    {"text": one.text, "score": round(one.score, 6), "count": one.count}
                    for one in found
                ]
            }
        )

    return routes
