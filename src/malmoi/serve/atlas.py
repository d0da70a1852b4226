"""A corpus laid out flat in groups that have names: /v1/map."""

import itertools
import re
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Response
from numpy.typing import NDArray

from ..corpus import Corpus, Stored
from ..pooling import Floats, normalize
from .embedding import json_response
from .house import House
from .projection import flat
from .shapes_tools import MapAsked, MapGiven

_MOST = 3000  # documents on a map; more cannot be told apart on a screen
_ROUNDS = 25
_WORD = re.compile(r"[A-Za-z]{3,}|[가-힣]{2,}")


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
    stored = list(itertools.islice(corpus.store.everything(), _MOST))
    texts = [one.document.text for one in stored]
    vectors = _vectors(corpus, stored)
    count = wanted or max(2, min(10, round((len(texts) / 8) ** 0.5 * 2)))
    groups = gather(vectors, count)
    points = flat(vectors)
    return {
        "corpus": name,
        "documents": len(corpus),
        "shown": len(texts),
        "groups": [
            {"size": int((groups == group).sum()), "words": words}
            for group, words in enumerate(telling_words(texts, groups))
        ],
        "points": [
            {"id": one.document.id, "text": text[:300], "x": x, "y": y, "group": int(group)}
            for one, text, (x, y), group in zip(
                stored, texts, points.round(4).tolist(), groups, strict=True
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


def gather(vectors: Floats, count: int) -> NDArray[np.int64]:
    """Put unit vectors (n, dim) into at most `count` groups by k-means; (n,), always the same."""
    if not len(vectors):
        return np.zeros(0, dtype=np.int64)
    centres = _seeds(vectors, min(count, len(vectors)))
    groups = np.argmax(vectors @ centres.T, axis=1)
    for _ in range(_ROUNDS):
        sums = np.stack([vectors[groups == one].sum(axis=0) for one in range(len(centres))])
        moved = np.argmax(vectors @ normalize(sums).T, axis=1)
        if (moved == groups).all():
            break
        groups = moved
    order = [one for one, _ in Counter(groups.tolist()).most_common()]  # the largest first
    return np.array([order.index(one) for one in groups], dtype=np.int64)


def _seeds(vectors: Floats, count: int) -> Floats:
    """Begin with the most central vector, then each time with the one farthest from all before."""
    chosen = [int(np.argmax(vectors @ vectors.mean(axis=0)))]
    nearest = vectors @ vectors[chosen[0]]
    while len(chosen) < count:
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return vectors[chosen]


def telling_words(texts: list[str], groups: NDArray[np.int64], *, most: int = 3) -> list[list[str]]:
    """Name each group by the words that it has and the others do not.

    >>> telling_words(["환불 방법", "환불 기간", "배송 기간"], np.array([0, 0, 1]), most=1)
    [['환불'], ['배송']]
    """
    size = int(groups.max()) + 1 if len(groups) else 0
    counts = [Counter[str]() for _ in range(size)]
    for text, group in zip(texts, groups, strict=True):
        counts[group].update({word.lower() for word in _WORD.findall(text)})
    everywhere = sum(counts, Counter[str]())
    return [
        [
            word
            for word, _ in sorted(own.items(), key=lambda one: -(one[1] ** 2) / everywhere[one[0]])
        ][:most]
        for own in counts
    ]
