"""The corpora that were named at the start, searched and drawn: /v1/search and /v1/map."""

import itertools
import re
from functools import partial
from typing import Any

import numpy as np
from starlette.responses import Response

from ...corpus import Corpus, Hit, Stored
from ...mining.clusters import cluster
from ...mining.topics import name_topics
from ...plots.maps import flatten
from ...runtime.pooling import normalize
from ...types import Floats
from ..engine import BatchedReranker
from ..errors import APIError
from ..schemas import MapRequest, SearchRequest
from ..settings import ON_MAP
from ..state import AppState
from . import json_response

_STAGES = ("fused", "dense", "keyword")  # before a reranker, the last one first
_WORD = re.compile(r"[0-9A-Za-z]+|[가-힣]+")
_SHORTEST = 2  # a Korean word's stem; its endings and particles differ
_TOPIC_WORDS = 3  # of a group's name


async def search(state: AppState, request: SearchRequest) -> Response:
    """Find documents by meaning, by words or by both, and rerank them when asked."""
    name, corpus = state.resources.corpus(request.corpus)
    state.check_texts([request.query], param="query")
    known = corpus.store.fields() if request.filter else []
    if not set(request.filter) <= set(known):
        message = f"a filter names a field that no document has; they have: {', '.join(known)}."
        raise APIError(400, "unknown_field", message, param="filter")
    reranker = vector = None
    if request.rerank and state.resources.find_reranker():
        reranker = BatchedReranker(state.engine)
    if request.mode != "keyword":
        embedded = await state.engine.embed([request.query], prompt=corpus.query_prompt)
        [vector] = embedded.vectors
    work = partial(_search, corpus, request, reranker, vector)
    found = await state.engine.call(work, lane="search")
    about = {"corpus": name, "mode": request.mode, "reranked": request.rerank}
    return json_response(about | {"documents": len(corpus)} | found)


def _search(
    corpus: Corpus, request: SearchRequest, reranker: BatchedReranker | None, vector: Floats | None
) -> dict[str, Any]:
    depth = max(request.depth, request.k)
    hits = corpus.search(
        request.query,
        depth if reranker else request.k,
        mode=request.mode,
        filter=request.filter or None,
        reranker=reranker,
        depth=depth,
        vector=vector,
    )
    before = _before_reranking(hits) if reranker else []
    rank_before = {hit.key: rank for rank, (hit, _) in enumerate(before, start=1)}
    after = {hit.key: rank for rank, hit in enumerate(hits, start=1)}
    return {
        "hits": [
            {
                "id": hit.id,
                "text": hit.text,
                "score": round(float(hit.score), 6),
                "scores": {name: round(float(score), 6) for name, score in hit.scores.items()},
                "metadata": dict(hit.metadata),
                "matches": matches(request.query, hit.text),
                "rank_before": rank_before.get(hit.key),
            }
            for hit in hits[: request.k]
        ],
        "before": [
            {"id": hit.id, "text": hit.text, "score": round(score, 6), "rank_after": after[hit.key]}
            for hit, score in before[: request.k]
        ],
    }


def _before_reranking(hits: list[Hit]) -> list[tuple[Hit, float]]:
    """The hits in the order of the stage before the reranker, with its scores."""
    stage = next((name for name in _STAGES if hits and name in hits[0].scores), "dense")
    scored = [(hit, float(hit.scores.get(stage, 0.0))) for hit in hits]
    return sorted(scored, key=lambda one: -one[1])


def matches(query: str, text: str) -> list[tuple[int, int]]:
    """Give the stretches of a text that begin like words of the query, in order.

    Good enough to mark; it is not what the text was found by.

    >>> text = "환불은 며칠 걸리나요?"
    >>> [text[start:end] for start, end in matches("환불 언제 걸려요", text)]
    ['환불']
    >>> matches("refund", "How are Refunds paid?")
    [(8, 14)]
    """
    wanted = {word.lower() for word in _WORD.findall(query)}
    found = []
    for word in _WORD.finditer(text):
        size = max((_shared(word[0].lower(), one) for one in wanted), default=0)
        if size:
            found.append((word.start(), word.start() + size))
    return found


def _shared(word: str, other: str) -> int:
    """How many letters two words share from the start, 0 unless that means something."""
    pairs = enumerate(zip(word, other, strict=False))
    size = next((i for i, (a, b) in pairs if a != b), min(len(word), len(other)))
    hangul = word[0] >= "가"
    needed = min(len(other), _SHORTEST) if hangul else max(min(len(other), len(word)), 3)
    return size if size >= needed else 0


async def draw(state: AppState, request: MapRequest) -> Response:
    """Lay a corpus out flat, near in meaning near by, in groups with their words."""
    name, corpus = state.resources.corpus(request.corpus)
    found = await state.engine.call(partial(_draw, corpus, request.groups))
    return json_response({"corpus": name, "documents": len(corpus)} | found)


def _draw(corpus: Corpus, groups: int | None) -> dict[str, Any]:
    stored = list(itertools.islice(corpus.store.scan(), ON_MAP))
    texts = [one.document.text for one in stored]
    vectors = _vectors(corpus, stored)
    count = groups or max(2, min(10, round((len(texts) / 8) ** 0.5 * 2)))
    labels = cluster(vectors, method="kmeans", count=count).labels
    points = 2 * flatten(vectors, labels) - 1 if texts else np.zeros((0, 2))
    return {
        "shown": len(texts),
        "groups": [
            {"size": topic.size, "words": list(topic.terms[:_TOPIC_WORDS])}
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
        return corpus.vectors_of([one.document.text for one in stored], query=False)
    return normalize(np.stack([one.vector for one in stored]).astype(np.float32))
