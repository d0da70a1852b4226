"""Mentions and notes linked to codes: /v1/link and /v1/link/note."""

import time
from collections.abc import Iterator
from functools import partial

from starlette.responses import Response

from ...terms import Linked
from ..engine import check_stopped
from ..schemas import LinkRequest, NoteRequest
from ..state import AppState
from . import as_list, make_response

# Of the time a request has, so much is for reading its note; a part of an answer comes in time.
_SHARE = 0.8
_LEAST = 0.001  # seconds for a note that waited for its thread until then


async def link(state: AppState, request: LinkRequest) -> Response:
    """Rank the concepts that each mention may mean, with the names that speak for them."""
    name, reader = state.resources.lexicon(request.lexicon)
    mentions = state.check_texts(as_list(request.mentions), param="mentions")

    def results() -> Iterator[Linked]:
        for one in reader.linker.link_iter(mentions, k=request.k):
            check_stopped()
            yield one

    work = partial(make_response, state, {"lexicon": name, "results": results()})
    return await state.engine.call(work, lane="link")


async def note(state: AppState, request: NoteRequest) -> Response:
    """Find the mentions in a note, what is said of them, and the concepts they may mean."""
    name, reader = state.resources.lexicon(request.lexicon)
    state.check_texts([request.text], param="text")
    until = time.monotonic() + _SHARE * state.settings.limits.seconds

    def work() -> Response:
        left = max(until - time.monotonic(), _LEAST)
        found = reader.scan(request.text, k=request.k, within=left)
        mentions = (one.to_json() for one in found.mentions)
        answer = {"lexicon": name, "mentions": mentions, "cut": found.cut}
        return make_response(state, answer, cut=int(found.cut is not None))

    return await state.engine.call(work, lane="note")
