"""A corpus laid out flat in groups that have names: /v1/map."""

import itertools
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from ..corpus import Corpus, Stored
from ..mining.clusters import cluster
from ..mining.topics import name_topics
from ..plots.maps import flatten
from ..runtime.pooling import normalize
from ..types import Floats
from .embedding import json_response
from .house import House
from .shapes_tools import MapAsked, MapGiven

_MOST = 3000  # documents on a map; more cannot be told apart on a screen
_WORDS = 3  # of a group's name


def router(house: House) -> APIRouter:
    """Make the routes over a house."""
    routes = APIRouter(tags=["search"])

    @routes.post("/v1/map", response_model=MapGiven)
    async def draw(asked: MapAsked) -> Response:
        """Lay a corpus out flat, near in meaning near by, in groups with their words."""
        name, corpus = house.stock.corpus(asked.corpus)
        return json_response(await house.desk.call(partial(_draw, name, corpus, asked.groups)))

    return routes


def _draw(name: str, corpus: Corpus, wanted: int | None) -> dict[str, Any]:
    stored = list(itertools.islice(corpus.store.scan(), _MOST))
    texts = [one.document.text for one in stored]
    vectors = _vectors(corpus, stored)
    count = wanted or max(2, min(10, round((len(texts) / 8) ** 0.5 * 2)))
    labels = cluster(vectors, method="kmeans", count=count).labels
    points = 2 * flatten(vectors, labels) - 1 if texts else np.zeros((0, 2))
    return {
        "corpus": name,
        "documents": len(corpus),
        "shown": len(texts),
        "groups": [
            {"size": topic.size, "words": list(topic.terms[:_WORDS])}
            for topic in name_topics(texts, vectors, labels)
        ],
        "points": [
            {"id": one.document.id, "text": text[:300], "x": x, "y": y, "group": int(group)}
            for one, text, (x, y), group in zip(
                stored, texts, points.round(4).tolist(), labels, strict=True
            )
        ],
    }


def _vectors(corpus: Corpus, stored: list[Stored]) -> Floats:
    """The documents' unit vectors (n, dim), as they are kept where they are kept whole."""
    if not stored:
        return np.zeros((0, 1), dtype=np.float32)
    if corpus.store.about.precision != "float32":
        return corpus.vectors_of([one.document.text for one in stored])
    return normalize(np.stack([one.vector for one in stored]).astype(np.float32))
