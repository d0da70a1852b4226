"""What is found in texts: /v1/words, /v1/keywords, /v1/link, /v1/link/note and /v1/redact."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from starlette.responses import Response

from ...clinical.redact import Redactor
from ...encoders import Encoder
from ...encoders.words import Word
from ...encoders.words import find as find_word
from ...errors import OptionError
from ...mining.keywords import keywords
from ...mining.maps import Points, project
from ...runtime.pooling import normalize
from ...terms import Linked
from ...types import Floats
from ..engine import WordOptions, check_stopped
from ..errors import APIError
from ..schemas import KeywordsRequest, LinkRequest, NoteRequest, RedactRequest, WordsRequest
from ..state import AppState
from . import as_list, json_response, make_response, write_response, write_vectors

# The share of a request's time for reading its note, so that a part of an answer comes in time.
_SHARE = 0.8
_LEAST = 0.001  # seconds for a note that waited for its thread until then


async def find(state: AppState, request: KeywordsRequest) -> Response:
    """Give the phrases nearest to a whole text, and not to each other, best first."""
    state.check_texts([request.text], param="text")
    if not request.text.strip():
        return json_response({"keywords": []})
    found = await state.engine.call(
        lambda: keywords(state.batched, request.text, top=request.top, diversity=request.diversity)
    )
    rounded = [replace(one, score=round(one.score, 6)) for one in found]
    return json_response({"keywords": rounded})


async def words(state: AppState, request: WordsRequest) -> Response:
    """Cut texts into words with their vectors, and compare the occurrences of one of them."""
    encoder = state.resources.encoder
    if not isinstance(encoder, Encoder) or not encoder.reader.layers:
        message = f"{encoder.name} shows none of its layers."
        command = "malmoi model export --layers all"
        raise APIError(404, "no_layers", f"{message} Export it with: {command}")
    state.check_texts(request.texts, param="texts")
    top = encoder.reader.layers - 1
    state.check_answer(_estimate(encoder, request))
    try:
        found = await state.engine.words(request.texts, _options(request, top))
    except OptionError:
        raise _no_such_layer(top) from None
    # Only a word's occurrences are compared here, which is little; all else was done before.
    answer = await state.engine.call(partial(_compare, encoder, request, found, top))
    numbers = len(answer["occurrences"]) ** 2
    if request.vectors:
        numbers += sum(word.vector.size * (1 + len(word.tokens)) for own in found for word in own)
    return await write_response(state, answer, numbers=numbers)


def _estimate(encoder: Encoder, request: WordsRequest) -> int:
    """The bytes that the vectors of words and tokens take, and the cosines of occurrences."""
    tokens = sum(min(len(text), encoder.max_tokens) + 2 for text in request.texts)
    count = len(request.layer) if isinstance(request.layer, list) else 1
    if isinstance(request.layer, str) and request.layer.startswith("concat"):
        count = encoder.reader.layers
    found = sum(text.count(request.word) for text in request.texts) if request.word else 0
    numbers = 2 * tokens * count * encoder.dimension
    return numbers * (24 if request.vectors else 4) + min(found, tokens) ** 2 * 32


def _options(request: WordsRequest, top: int) -> WordOptions:
    layer = top if request.layer is None else request.layer
    numbers = [layer] if isinstance(layer, int) else layer if isinstance(layer, list) else []
    if any(number > top for number in numbers):
        raise _no_such_layer(top)
    layers = tuple(layer) if isinstance(layer, list) else layer
    return WordOptions(layers, request.merge, request.by, request.special)


def _no_such_layer(top: int) -> APIError:
    numbers = f"the model has the layers 0 to {top}"
    names = "the names last, second-to-last, and sum-, mean- and concat- with last-N or all"
    message = f"{numbers}; besides numbers there are {names}."
    return APIError(400, "unknown_layer", message, param="layer")


def _compare(
    encoder: Encoder, request: WordsRequest, texts: list[list[Word]], top: int
) -> dict[str, Any]:
    occurrences = [
        (i, word)
        for i, own in enumerate(texts)
        for word in (find_word(own, request.word) if request.word else ())
    ]
    vectors = np.zeros((0, 1), dtype=np.float32)
    if occurrences:
        vectors = normalize(np.stack([word.vector for _, word in occurrences]))
    form = request.encoding_format if request.vectors else None
    return {
        "model": encoder.name,
        "layer": top if request.layer is None else request.layer,
        "layers": top + 1,
        "texts": ([_word(word, form) for word in own] for own in texts),
        "occurrences": [{"text": i} | _word(word, None) for i, word in occurrences],
        "scores": (row.astype(np.float64).round(5).tolist() for row in vectors @ vectors.T),
        "points": _points(vectors).astype(np.float64).round(5).tolist(),
    }


def _word(word: Word, form: str | None) -> dict[str, Any]:
    found = {"word": word.text, "start": word.start, "end": word.end, "pieces": list(word.pieces)}
    if form is None:
        return found
    vectors = np.stack([word.vector, *(token.vector for token in word.tokens)])
    vector, *others = write_vectors(vectors, form)
    tokens = [
        {"text": one.text, "start": one.start, "end": one.end, "special": one.special, "vector": v}
        for one, v in zip(word.tokens, others, strict=True)
    ]
    return found | {"vector": vector, "tokens": tokens}


def _points(vectors: Floats) -> Points:
    """Lay vectors (n, dim) out in the plane; (n, 2), within -1 to 1."""
    points = project(vectors)
    longest = float(np.abs(points).max(initial=0))
    return points / longest if longest > 1e-6 else np.zeros_like(points)


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


async def redact(state: AppState, request: RedactRequest) -> Response:
    """Hide who a note is about: names, numbers, addresses and dates, by rules."""
    state.check_texts([request.text], param="text")
    redactor = Redactor(dates=request.dates)
    found = await state.engine.call(lambda: redactor.redact(request.text), lane="note")
    spans = [{"start": one.start, "end": one.end, "kind": one.kind} for one in found.spans]
    return json_response({"text": found.text, "spans": spans})
