"""Words in their sentences: /v1/words."""

from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from ..encoder import Encoder
from ..pooling import Floats, normalize
from ..words import Word, find
from .embedding import json_response
from .house import House
from .projection import flat
from .refusals import Refusal
from .shapes_tools import WordsAsked, WordsGiven


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["words"])

    @routes.post("/v1/words", response_model=WordsGiven)
    async def words(asked: WordsAsked) -> Response:
        """Cut texts into words, and compare the occurrences of one of them in a layer."""
        encoder = _layered(house)
        house.check_texts(asked.texts, param="texts")
        top = encoder.reader.layers - 1
        layer = top if asked.layer is None else asked.layer
        if layer > top:
            raise Refusal(
                400, "unknown_layer", f"the model has the layers 0 to {top}.", param="layer"
            )
        return json_response(await house.desk.call(partial(_look, encoder, asked, layer, top)))

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


def _look(encoder: Encoder, asked: WordsAsked, layer: int, top: int) -> dict[str, Any]:
    cut = list(encoder.words_of(asked.texts, layers=layer, by=asked.by))
    places = [(owner, word) for owner, own in enumerate(cut) for word in _wanted(own, asked.word)]
    vectors = _unit([word for _, word in places])
    return {
        "model": encoder.name,
        "layer": layer,
        "layers": top + 1,
        "texts": [[_shown(word) for word in own] for own in cut],
        "occurrences": [{"text": owner} | _shown(word) for owner, word in places],
        "scores": (vectors @ vectors.T).astype(np.float64).round(5).tolist(),
        "points": flat(vectors).round(5).tolist(),
    }


def _wanted(words: list[Word], word: str | None) -> list[Word]:
    return find(words, word) if word else []


def _unit(words: list[Word]) -> Floats:
    if not words:
        return np.zeros((0, 1), dtype=np.float32)
    return normalize(np.stack([word.vector for word in words]))


def _shown(word: Word) -> dict[str, Any]:
    return {"word": word.text, "start": word.start, "end": word.end, "pieces": list(word.pieces)}
