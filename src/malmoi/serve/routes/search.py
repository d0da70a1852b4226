"""The corpora that were named at the start, searched and drawn: /v1/search and /v1/map."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from starlette.responses import Response

from ...corpus import Corpus, DocumentHits, Hit, PassageKey, StoredDocument, group_hits
from ...mining.clusters import cluster, name_topics
from ...mining.maps import flatten
from ...runtime.pooling import normalize
from ...types import Floats
from ..api_keys import access
from ..engine import BatchedReranker, check_stopped
from ..errors import APIError
from ..schemas import MapRequest, SearchRequest
from ..settings import ON_MAP
from ..state import AppState
from . import json_response, write_response

_STAGES = ("fused", "late", "dense", "keyword")  # before a reranker, the last one first
_AT_ONCE = 100  # passages that are looked at for documents, and for few; as many keep the order
_MOST_PASSAGES = 6400
_LAST_OFFSET = 1000
# Identifiers such as SLN-2113 and v2.1 are words of their own; the look ahead is bounded.
_WORD = re.compile(
    r"(?=[A-Za-z._/-]{0,40}\d)[0-9A-Za-z]+(?:[._/-][0-9A-Za-z]+)*|[A-Za-z]+|[가-힣]+"
)
_SHORTEST = 2  # a Korean word's stem; its endings and particles differ
_TOPIC_WORDS = 3  # of a group's name
_NUMBERS = 100  # that take as long to write as a passage


async def search(state: AppState, request: SearchRequest) -> Response:
    """Find passages, or documents with theirs, by meaning, by words or by both; rerank them."""
    name, corpus = state.resources.corpus(request.corpus)
    state.check_texts([request.query], param="query")
    if not request.query.strip():
        message = "the query is empty; expected some text. Say what to look for."
        raise APIError(400, "empty_query", message, param="query")
    reranker = vector = None
    if request.rerank:
        state.resources.check_cross_encoder()
        reranker = BatchedReranker(state.engine)
    if request.mode != "keyword":
        found = await state.engine.embed([request.query], prompt=corpus.query_prompt)
        [vector] = found.vectors
    work = partial(_search, corpus, request, reranker, vector)
    answer = await state.engine.call(work, lane="search")
    about = {"corpus": name, "mode": request.mode, "reranked": request.rerank}
    access().hits = len(answer["hits"]) + len(answer["groups"])
    passages = len(answer["hits"]) + sum(len(one["hits"]) for one in answer["groups"])
    return await write_response(state, about | answer, numbers=_NUMBERS * passages)


def _filters(corpus: Corpus, request: SearchRequest) -> dict[str, Any]:
    """All conditions of a request; the folder and the type are fields of a file's document."""
    filters: dict[str, Any] = dict(request.filter)
    for name in ("folder", "type"):
        if value := getattr(request, name):
            filters[name] = value.strip("/")
    known = corpus.store.fields() if filters else []
    for name in filters:
        if name not in known:
            message = "a filter names a field that no document has; they have:"
            param = "filter" if name in request.filter else name
            raise APIError(400, "unknown_field", f"{message} {', '.join(known)}.", param=param)
    return filters


def _search(
    corpus: Corpus,
    request: SearchRequest,
    reranker: BatchedReranker | None,
    vector: Floats | None,
) -> dict[str, Any]:
    filters = _filters(corpus, request)
    depth, last = max(request.depth, request.k), request.offset + request.k
    ask = partial(
        corpus.search,
        request.query,
        mode=request.mode,
        filter=filters or None,
        depth=depth,
        vector=vector,
        late=request.late,
        min_relevance=request.min_relevance,
        explain=False,
    )
    hits = _find(ask, last + 1, group=request.group)
    before: list[DocumentHits] = []
    if reranker is not None:
        hits = ask(max(len(hits), depth), reranker=reranker)
        before = _rows(_before_reranking(hits[:depth]), group=request.group)
    rows = _rows(hits, group=request.group)
    rank_before = {_key(row, request.group): rank for rank, row in enumerate(before, start=1)}
    rank_after = {_key(row, request.group): rank for rank, row in enumerate(rows, start=1)}
    shown = rows[request.offset : last]
    if request.late and request.mode != "keyword":
        shown = _explained(corpus, request, shown)
    found: list[dict[str, Any]] = [
        {
            "id": row.id,
            "title": row.title,
            "type": row.hits[0].type,
            "score": round(float(row.score), 6),
            "rank_before": (rank := rank_before.get(_key(row, request.group))),
            "hits": [_hit(request.query, hit, rank) for hit in row.hits[: request.passages]],
        }
        for row in shown
    ]
    return {
        "documents": len(corpus),
        "hits": [] if request.group else [hit for row in found for hit in row["hits"]],
        "groups": found if request.group else [],
        "before": [
            {
                "id": row.id,
                "number": row.hits[0].number,
                "title": row.title,
                "text": row.hits[0].text,
                "score": round(_stage_score(row.hits[0]), 6),
                "rank_after": rank_after[_key(row, request.group)],
            }
            for row in before[: request.k]
        ],
        "next_offset": last if len(rows) > last and last <= _LAST_OFFSET else None,
    }


def _find(ask: Callable[[int], list[Hit]], rows: int, *, group: bool) -> list[Hit]:
    """This many passages, or passages of this many documents if there are as many."""
    wanted = _AT_ONCE if group else rows
    while True:
        check_stopped()
        hits = ask(wanted)
        documents = len({hit.id for hit in hits})
        if not group or documents >= rows or len(hits) < wanted or wanted >= _MOST_PASSAGES:
            return hits
        wanted *= 4


def _explained(
    corpus: Corpus, request: SearchRequest, rows: list[DocumentHits]
) -> list[DocumentHits]:
    """The rows with the words by which those of their passages were found that are shown."""
    shown = [row.hits[: request.passages] for row in rows]
    hits = iter(corpus.explain(request.query, [hit for own in shown for hit in own]))
    return [DocumentHits(tuple(next(hits) for _ in own)) for own in shown]


def _rows(hits: list[Hit], *, group: bool) -> list[DocumentHits]:
    """The hits by their documents, or each alone."""
    return group_hits(hits) if group else [DocumentHits((hit,)) for hit in hits]


def _key(row: DocumentHits, group: bool) -> PassageKey:
    return PassageKey(row.id, -1 if group else row.hits[0].number)


def _hit(query: str, hit: Hit, rank_before: int | None) -> dict[str, Any]:
    return {
        "id": hit.id,
        "number": hit.number,
        "text": hit.text,
        "score": round(float(hit.score), 6),
        "scores": {name: round(float(score), 6) for name, score in hit.scores.items()},
        "metadata": dict(hit.metadata),
        "matches": matches(query, hit.text),
        "rank_before": rank_before,
        "title": hit.title,
        "headings": list(hit.headings),
        "page": hit.page,
        "type": hit.type,
        "modified": hit.modified,
        "snippet": hit.snippet,
        "snippet_matches": matches(query, hit.snippet),
        "relevance": round(float(hit.relevance), 4),
        "met": [one._asdict() for one in hit.matches],
    }


def _before_reranking(hits: list[Hit]) -> list[Hit]:
    """The hits in the order of the stage before the reranker."""
    return sorted(hits, key=lambda hit: -_stage_score(hit))


def _stage_score(hit: Hit) -> float:
    """The score before a reranker's."""
    return float(next((hit.scores[name] for name in _STAGES if name in hit.scores), 0.0))


def matches(query: str, text: str) -> list[tuple[int, int]]:
    """Give the stretches of a text that begin like words of the query, in order.

    Good enough to mark; it is not what the text was found by.

    >>> text = "환불은 며칠 걸리나요?"
    >>> [text[start:end] for start, end in matches("환불 언제 걸려요", text)]
    ['환불']
    >>> matches("refund", "How are Refunds paid?")
    [(8, 14)]
    >>> matches("SLN-2113", "SLN-2114, SLN-2113")  # an identifier marks only itself
    [(10, 18)]
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
    if any(letter.isdigit() for letter in other):
        return len(word) if word == other else 0
    pairs = enumerate(zip(word, other, strict=False))
    size = next((i for i, (a, b) in pairs if a != b), min(len(word), len(other)))
    hangul = word[0] >= "가"
    needed = min(len(other), _SHORTEST) if hangul else max(min(len(other), len(word)), 3)
    return size if size >= needed else 0


async def draw(state: AppState, request: MapRequest) -> Response:
    """Lay a corpus out flat, near in meaning near by, in groups with their words."""
    name, corpus = state.resources.corpus(request.corpus)
    found = await state.engine.call(partial(_draw, corpus, request.groups))
    return json_response({"corpus": name} | found)


def _draw(corpus: Corpus, groups: int | None) -> dict[str, Any]:
    stored = []
    for one in itertools.islice(corpus.store.scan(), ON_MAP):
        check_stopped()
        # Fields may be long, and are not shown.
        stored.append(replace(one, document=replace(one.document, metadata={})))
    texts = [one.document.text for one in stored]
    vectors = _vectors(corpus, stored)
    count = groups or max(2, min(10, round((len(texts) / 8) ** 0.5 * 2)))
    labels = cluster(vectors, method="kmeans", count=count).labels
    points = 2 * flatten(vectors, labels) - 1 if texts else np.zeros((0, 2))
    return {
        "documents": len(corpus),
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


def _vectors(corpus: Corpus, stored: list[StoredDocument]) -> Floats:
    """The documents' unit vectors (n, dim), as they are kept where they are kept whole."""
    if not stored:
        return np.zeros((0, 1), dtype=np.float32)
    if corpus.store.about.precision != "float32":
        return corpus.vectors_of([one.document.text for one in stored])
    return normalize(np.stack([one.vector for one in stored]).astype(np.float32))
