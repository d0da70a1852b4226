"""Mentions and notes linked to codes: /v1/link and /v1/link/note."""

from fastapi import APIRouter, Response

from .embedding import json_response
from .house import House
from .shapes_tools import LinkAsked, LinkGiven, NoteAsked, NoteGiven


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["terms"])

    @routes.post("/v1/link", response_model=LinkGiven)
    async def link(asked: LinkAsked) -> Response:
        """Rank the concepts that each mention may mean, with the names that speak for them."""
        name, terms = house.stock.lexicon(asked.lexicon)
        mentions = [asked.mentions] if isinstance(asked.mentions, str) else asked.mentions
        house.check_texts(mentions, param="mentions")
        found = await house.desk.call(lambda: terms.linker.link(mentions, k=asked.k))
        return json_response({"lexicon": name, "results": [one.to_json() for one in found]})

    @routes.post("/v1/link/note", response_model=NoteGiven)
    async def note(asked: NoteAsked) -> Response:
        """Find the mentions in a note, what is said of them, and the concepts they may mean."""
        name, terms = house.stock.lexicon(asked.lexicon)
        house.check_texts([asked.text], param="text")
        found = await house.desk.call(lambda: terms.notes.read(asked.text, k=asked.k))
        return json_response({"lexicon": name, "mentions": [one.to_json() for one in found]})

    return routes
