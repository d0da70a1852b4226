"""Mentions and notes linked to codes: /v1/link and /v1/link/note."""

import time

from fastapi import APIRouter, Response

from ..clinical.reader import NoteScan
from .embedding import json_response
from .house import House
from .shapes_tools import LinkAsked, LinkGiven, NoteAsked, NoteGiven

# Of the time a request has, so much is for reading its note; a part of an answer comes in time.
_SHARE = 0.8
_LEAST = 0.001  # seconds for a note that waited for its thread until then


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
        until = time.monotonic() + _SHARE * house.settings.limits.seconds

        def read() -> NoteScan:
            left = max(until - time.monotonic(), _LEAST)
            return terms.notes.scan(asked.text, k=asked.k, within=left)

        found = await house.desk.call(read)
        mentions = [one.to_json() for one in found.mentions]
        answer = {"lexicon": name, "mentions": mentions, "cut": found.cut}
        return json_response(answer, cut=int(found.cut is not None))

    return routes
