"""Words in their sentences: /v1/words."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from ..encoder import Encoder
from ..errors import OptionError
from ..runtime.pooling import normalize
from ..types import Floats
from ..words import PieceVector, Word, find
from .desk import Reading
from .embedding import json_response, written
from .house import House
from .projection import flat
from .refusals import Refusal
from .shapes_tools import WordsAsked, WordsGiven

# The most numbers that one answer's vectors may have: some tens of megabytes.
_NUMBERS = 8_000_000


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["words"])

    @routes.post("/v1/words", response_model=WordsGiven, response_model_exclude_none=True)
    async def words(asked: WordsAsked) -> Response:
        """Cut texts into words with their vectors, and compare the occurrences of one of them."""
        encoder = _layered(house)
        house.check_texts(asked.texts, param="texts")
        top = encoder.reader.layers - 1
        reading = _reading(asked, top)
        try:
            cut = await house.desk.words(asked.texts, reading)
        except OptionError:
            raise _no_such_layer(top) from None
        if asked.vectors:
            _check_numbers(cut)
        # Only a word's occurrences are compared here, which is little; all else was done before.
        return json_response(await house.desk.call(lambda: _look(encoder, asked, cut, top)))

    return routes


def _layered(house: House) -> Encoder:
    encoder = house.stock.encoder
    if not isinstance(encoder, Encoder) or not encoder.reader.layers:
        raise Refusal(
            404,
            "no_layers",
            f"{encoder.name} shows none of its layers. Export it with: malmoi export --layers all",
        )
    return encoder


def _reading(asked: WordsAsked, top: int) -> Reading:
    layer = top if asked.layer is None else asked.layer
    numbers = [layer] if isinstance(layer, int) else layer if isinstance(layer, list) else []
    if any(number > top for number in numbers):
        raise _no_such_layer(top)
    layers = tuple(layer) if isinstance(layer, list) else layer
    return Reading(layers, asked.merge, asked.by, asked.special)


def _no_such_layer(top: int) -> Refusal:
    return Refusal(
        400,
        "unknown_layer",
        f"the model has the layers 0 to {top}; besides numbers there are the names last, "
        "second-to-last, and sum-, mean- and concat- with last-N or all.",
        param="layer",
    )


def _check_numbers(cut: list[list[Word]]) -> None:
    held = sum(word.vector.size * (1 + len(word.tokens)) for own in cut for word in own)
    if held > _NUMBERS:
        raise Refusal(
            413,
            "too_many_numbers",
            f"the vectors have {held:,} numbers; at most {_NUMBERS:,} go into one answer. "
            "Send fewer texts, or ask for fewer layers.",
            param="texts",
        )


def _look(encoder: Encoder, asked: WordsAsked, cut: list[list[Word]], top: int) -> dict[str, Any]:
    places = [(owner, word) for owner, own in enumerate(cut) for word in _wanted(own, asked.word)]
    vectors = _unit([word for _, word in places])
    form = asked.encoding_format if asked.vectors else None
    return {
        "model": encoder.name,
        "layer": top if asked.layer is None else asked.layer,
        "layers": top + 1,
        "texts": [[_shown(word, form) for word in own] for own in cut],
        "occurrences": [{"text": owner} | _shown(word, None) for owner, word in places],
        "scores": (vectors @ vectors.T).astype(np.float64).round(5).tolist(),
        "points": flat(vectors).round(5).tolist(),
    }


def _wanted(words: list[Word], word: str | None) -> list[Word]:
    return find(words, word) if word else []


def _unit(words: list[Word]) -> Floats:
    if not words:
        return np.zeros((0, 1), dtype=np.float32)
    return normalize(np.stack([word.vector for word in words]))


def _shown(word: Word, form: str | None) -> dict[str, Any]:
    found = {"word": word.text, "start": word.start, "end": word.end, "pieces": list(word.pieces)}
    if form is None:
        return found
    [vector] = written(word.vector[None], form)
    return found | {"vector": vector, "tokens": [_token(token, form) for token in word.tokens]}


def _token(token: PieceVector, form: str) -> dict[str, Any]:
    [vector] = written(token.vector[None], form)
    return {
        "text": token.text,
        "start": token.start,
        "end": token.end,
        "special": token.special,
        "vector": vector,
    }
