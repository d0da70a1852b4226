"""Mentions and notes linked to codes: /v1/link and /v1/link/note."""

import time

from starlette.responses import Response

from ...clinical.reader import NoteScan
from ...linking import Linked
from ..engine import check_stopped
from ..schemas import LinkRequest, NoteRequest
from ..state import AppState
from . import as_list, write_response

# Of the time a request has, so much is for reading its note; a part of an answer comes in time.
_SHARE = 0.8
_NUMBERS = 100  # that take as long to write as a candidate with its names and reasons
_LEAST = 0.001  # seconds for a note that waited for its thread until then


async def link(state: AppState, request: LinkRequest) -> Response:
    """Rank the concepts that each mention may mean, with the names that speak for them."""
    name, reader = state.resources.lexicon(request.lexicon)
    mentions = state.check_texts(as_list(request.mentions), param="mentions")

    def work() -> list[Linked]:
        results = []
        for one in reader.linker.link_iter(mentions, k=request.k):
            check_stopped()
            results.append(one)
        return results

    found = await state.engine.call(work, lane="link")
    names = sum(len(one.candidates) for one in found)
    answer = {"lexicon": name, "results": found}
    return await write_response(state, answer, numbers=_NUMBERS * names)


async def note(state: AppState, request: NoteRequest) -> Response:
    """Find the mentions in a note, what is said of them, and the concepts they may mean."""
    name, reader = state.resources.lexicon(request.lexicon)
    state.check_texts([request.text], param="text")
    until = time.monotonic() + _SHARE * state.settings.limits.seconds

    def scan() -> NoteScan:
        left = max(until - time.monotonic(), _LEAST)
        return reader.scan(request.text, k=request.k, within=left)

    found = await state.engine.call(scan, lane="note")
    names = sum(len(one.linked.candidates) for one in found.mentions)
    mentions = (one.to_json() for one in found.mentions)
    answer = {"lexicon": name, "mentions": mentions, "cut": found.cut}
    was_cut = int(found.cut is not None)
    return await write_response(state, answer, numbers=_NUMBERS * names, cut=was_cut)
