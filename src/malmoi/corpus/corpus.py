"""Several rankings made into one by the places, not the scores, that documents have in them.

What goes into a corpus, checked; and whether a model is the one it was made with.

Documents that last and can be found: by meaning, by words, or by both, and reranked.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from ..encoder import TextEncoder, load
from ..errors import CorpusError, DataError, OptionError, counted
from ..runtime.pooling import normalize
from ..runtime.precision import Precision, to_precision
from ..text.cleanup import as_text, mend_surrogates
from ..types import Floats
from .filters import Filter, as_filters, check_fields
from .keywords import check_words, default_words, query_words
from .rerank import Scorer, rerank_within
from .store import Document, ScoredId, Store, Stored, StoreInfo, Value, Vector, WriteMode
from .stores import open_store

# The constant of the method's paper (Cormack et al. 2009): how little the first places differ.
_RANK_CONSTANT = 60


def fuse(
    rankings: Mapping[str, Sequence[ScoredId]], weights: Mapping[str, float]
) -> list[ScoredId]:
    """Reciprocal rank fusion: each ranking gives weight / (60 + rank), and the sums decide.

    >>> one, two = Scored("배", 0.9), Scored("차", 0.8)
    >>> [hit.id for hit in fuse({"a": [one, two], "b": [two]}, {"a": 1, "b": 0.5})]
    ['차', '배']
    """
    if any(weight < 0 for weight in weights.values()) or not any(weights.values()):
        raise OptionError(
            f"the weights are {dict(weights)}; expected none below 0 and one above. Correct them."
        )
    sums: dict[str, float] = {}
    for name, ranking in rankings.items():
        for rank, one in enumerate(ranking, start=1):
            sums[one.id] = sums.get(one.id, 0.0) + weights.get(name, 1.0) / (_RANK_CONSTANT + rank)
    ordered = sorted(sums.items(), key=lambda item: -item[1])  # stable: ties keep their order
    return [ScoredId(id, score) for id, score in ordered]


_PROBES = ("말모이는 낱말을 모은 것이다.", "A gathering of words.", "pt는 DM으로 f/u 중")
# 8-bit and float32 weights of one model, and different processors, agree at least so well …
_SAME = 0.9
# … and a model of another name is the same one renamed only if it agrees this well.
_IDENTICAL = 0.999


def probe(encoder: TextEncoder, dim: int) -> tuple[tuple[float, ...], ...]:
    """The vectors of a few fixed texts, by which a model is known again."""
    cut = dim if dim < encoder.dimension else None
    vectors = normalize(encoder.encode(list(_PROBES), dim=cut))
    return tuple(tuple(round(float(value), 6) for value in vector) for vector in vectors)


def same_model(encoder: TextEncoder, about: StoreInfo) -> None:
    """Raise unless an encoder's vectors can be compared with those of the corpus."""
    remedy = f"Open it with {about.model}, or make a new corpus."
    if encoder.dimension < about.dimension:
        raise CorpusError(
            f"the corpus was made with the model {about.model}, of {about.dimension} dimensions; "
            f"{encoder.name} has {encoder.dimension}. {remedy}"
        )
    if not about.probes:
        return
    agreement = float((np.array(probe(encoder, about.dimension)) * about.probes).sum(axis=1).min())
    least = _SAME if encoder.name == about.model else _IDENTICAL
    if agreement < least:
        raise CorpusError(
            f"the corpus was made with the model {about.model}, whose vectors are not those of "
            f"{encoder.name} (agreement {agreement:.2f}; expected {least}). {remedy}"
        )


def checked_document(given: Document | Mapping[str, Any], place: int) -> Document:
    """Make a document of what was given, or say what is wrong with the one at `place`."""
    where = f"document {place}"
    if isinstance(given, Document):
        id, text, metadata = given.id, given.text, dict(given.metadata)
    elif isinstance(given, Mapping) and {"id", "text"} <= given.keys():
        metadata = {key: value for key, value in given.items() if key not in ("id", "text")}
        id, text = given["id"], given["text"]
    else:
        raise DataError(
            f"{where} is {type(given).__name__} without an id and a text; expected a Document or "
            'a mapping with "id" and "text". Give it both.'
        )
    id = as_text(str(id) if isinstance(id, int) else id, where=f"the id of {where}")
    if not id:
        raise DataError(f"{where} has an empty id; expected some text. Give it one.")
    text = mend_surrogates(as_text(text, where=f"the text of {where}"))
    return Document(mend_surrogates(id), text, _checked_metadata(metadata, where))


def _checked_metadata(metadata: dict[Any, Any], where: str) -> dict[str, Any]:
    if not metadata:  # as in most files of plain text
        return {}
    try:
        written = mend_surrogates(json.dumps(metadata, ensure_ascii=False, allow_nan=False))
        read: dict[str, Any] = json.loads(written)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"the fields of {where} cannot be written as JSON; expected text, finite numbers, "
            "true, false, null and lists of these. Turn other values into text."
        ) from error
    return read


Mode = Literal["dense", "keyword", "hybrid"]
MODES = ("dense", "keyword", "hybrid")
# Measured in docs/decisions/fusion.md: the meaning is worth more than the words.
WEIGHTS: Mapping[str, float] = {"dense": 1.0, "keyword": 0.25}
DEPTH = 100  # documents that each side of a hybrid search brings along
RERANKED = 50  # documents that a reranker is shown


@dataclass(frozen=True)
class Hit:
    """A document that was found; the higher the score, the better it fits.

    `score` is that of the last stage that looked at it; `scores` keeps those of all stages:
    "dense" is a cosine, "keyword" BM25, "fused" what both together gave, "rerank" the reranker's.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Value] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


class Corpus:
    """Documents with their vectors and words. Open one with `malmoi.Corpus.open`."""

    def __init__(self, store: Store, encoder: TextEncoder | None = None) -> None:
        self.store = store
        self._encoder = encoder
        if encoder is not None:
            same_model(encoder, store.about)

    @classmethod
    def open(
        cls,
        path: str | Path,
        encoder: TextEncoder | None = None,
        *,
        precision: Precision = "float32",
        dim: int | None = None,
        words: str | None = None,
        engine: str = "auto",
    ) -> Self:
        """Open a corpus file, or make it when it is not there and there is an encoder.

        An address in Milvus ("milvus://HOST:PORT/NAME", or "milvus:FILE.db" for Milvus Lite) is
        opened in the same way.

        `precision` ("int8" is a quarter, "binary" a thirty-second of the size), `dim` (the first
        dimensions only) and `words` ("word-morphemes", "morphemes" of whole texts, or "bigrams")
        are fixed when a corpus is made.
        `engine` is "flat", "hnsw", or "auto", which takes the graph from two million documents
        on. Without an encoder the one that made the corpus is opened when it is needed.
        """
        create = None
        if encoder is not None:
            create = partial(_about, encoder, precision, dim, words)
        store = open_store(path, create=create, engine=engine)
        try:
            return cls(store, encoder)
        except BaseException:
            store.close()
            raise

    @property
    def encoder(self) -> TextEncoder:
        """What makes vectors of texts; opened by the name in the corpus if none was given."""
        if self._encoder is None:
            encoder = load(self.store.about.model)
            same_model(encoder, self.store.about)
            self._encoder = encoder
        return self._encoder

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        about = self.store.about
        return (
            f"<Corpus of {counted(len(self), 'document')}: {about.model}, {about.dimension} "
            f"dimensions, {about.precision}, {about.words}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what was added is safe without this too."""
        self.store.close()

    def add(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Put in documents whose ids are new, all of them or none; gives how many.

        A document is a `Document`, or a mapping with "id", "text" and any other fields.
        """
        return self._write(documents, "new")

    def update(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Replace documents whose ids are known, all of them or none; gives how many."""
        return self._write(documents, "known")

    def put(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Put in documents, replacing those whose ids are known, all of them or none."""
        return self._write(documents, "any")

    def delete(self, ids: str | Iterable[str]) -> int:
        """Take documents out; gives how many of the ids were there."""
        listed = [ids] if isinstance(ids, str) else list(ids)
        return self.store.delete([as_text(one, where="an id") for one in listed])

    def get(self, id: str) -> Document | None:
        """The document under an id, or None."""
        return self.store.get([as_text(id, where="id")]).get(id)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: Mode = "hybrid",
        filter: Mapping[str, Any] | Iterable[str | Filter] | str | None = None,
        weights: Mapping[str, float] = WEIGHTS,
        exact: bool = False,
        reranker: Scorer | None = None,
        depth: int = RERANKED,
        within: float | None = None,
        vector: Floats | None = None,
    ) -> list[Hit]:
        """Find the `k` documents that fit a query best.

        `filter` is a mapping of fields to values, or conditions as text ("year>=2020"). `weights`
        are those of the two sides of a hybrid search. `exact` compares with every vector. With a
        `reranker` the first `depth` documents are read again and put in its order; `within`
        seconds from the call on, as many of them as there is time for. `vector` is the query's,
        (dim,), where this corpus's encoder has made it already.
        """
        started = time.perf_counter()
        self._check(query, k, mode, depth, within)
        filters = as_filters(filter)
        check_fields(filters, self.store.fields() if filters else ())
        wanted = max(k, depth) if reranker else k
        rankings = self._rankings(query, wanted, mode, filters, exact, vector)
        order = fuse(rankings, weights) if mode == "hybrid" else rankings[mode]
        if mode == "hybrid":
            rankings["fused"] = order
        hits = self._hits(order[:wanted], rankings)
        if reranker is not None:
            limit = None if within is None else started + within
            hits = [
                _reranked(hits[place], score)
                for place, score in rerank_within(
                    reranker, query, [hit.text for hit in hits], depth=depth, limit=limit
                )
            ]
        return hits[:k]

    def vectors_of(self, texts: Sequence[str]) -> Floats:
        """Unit vectors (n, dim) for texts, as the corpus compares them."""
        about = self.store.about
        dim = about.dimension if about.dimension < self.encoder.dimension else None
        vectors: Floats = normalize(self.encoder.encode(list(texts), dim=dim))
        return vectors

    def stored_vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Vectors as the store keeps them; a text that is in the corpus is not encoded again."""
        known = self.store.vectors_for(texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known |= dict(zip(new, self.new_vectors(new), strict=True))
        return [known[text] for text in texts]

    def new_vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Encode texts, and give their vectors as the store keeps them."""
        if not texts:
            return []
        return list(to_precision(self.vectors_of(texts), self.store.about.precision))

    def _write(self, documents: Iterable[Document | Mapping[str, Any]], rule: WriteMode) -> int:
        if isinstance(documents, str | bytes | Mapping | Document):
            documents = [documents]
        checked = [checked_document(one, i) for i, one in enumerate(documents)]
        vectors = self.stored_vectors([document.text for document in checked])
        batch = [Stored(*pair) for pair in zip(checked, vectors, strict=True)]
        if batch:
            self.store.write(batch, rule=rule)
        return len(batch)

    def _rankings(
        self,
        query: str,
        k: int,
        mode: Mode,
        filters: list[Filter],
        exact: bool,
        vector: Floats | None,
    ) -> dict[str, list[ScoredId]]:
        wanted = max(k, DEPTH) if mode == "hybrid" else k
        rankings = {}
        if mode != "keyword":
            own = self._query_vector(query, vector)
            rankings["dense"] = self.store.nearest(own, wanted, filters=filters, exact=exact)
        if mode != "dense":
            words = query_words(query, self.store.about.words)
            rankings["keyword"] = self.store.matching(words, wanted, filters=filters)
        return rankings

    def _query_vector(self, query: str, given: Floats | None) -> Floats:
        """The query's unit vector as the corpus compares it, made unless it is given; (dim,)."""
        if given is None:
            [vector] = self.vectors_of([query])
        else:
            [vector] = normalize(self._check_vector(given)[None])
        unit: Floats = vector
        return unit

    def _check_vector(self, given: Floats) -> Floats:
        width = self.store.about.dimension
        whole = width if self._encoder is None else self._encoder.dimension
        given = np.asarray(given, dtype=np.float32)
        if given.shape not in ((width,), (whole,)) or not np.isfinite(given).all():
            raise OptionError(
                f"vector has the shape {given.shape}, or numbers that are not finite; expected "
                f"({width},) or ({whole},). Encode the query with the encoder of this corpus, or "
                "leave it out."
            )
        return given[:width]

    def _hits(
        self, order: Sequence[ScoredId], rankings: Mapping[str, Sequence[ScoredId]]
    ) -> list[Hit]:
        documents = self.store.get([one.id for one in order])
        scores: dict[str, dict[str, float]] = {}
        for name, ranking in rankings.items():
            for one in ranking:
                scores.setdefault(one.id, {})[name] = one.score
        found = [(documents[one.id], one) for one in order if one.id in documents]
        return [Hit(d.id, d.text, one.score, d.metadata, scores[d.id]) for d, one in found]

    def _check(self, query: str, k: int, mode: str, depth: int, within: float | None) -> None:
        as_text(query, where="query")
        for name, value in (("k", k), ("depth", depth)):
            if value < 1:
                raise OptionError(f"{name} is {value}; expected 1 or more. Ask for at least one.")
        if mode not in MODES:
            raise OptionError(f"mode is {mode!r}; known are {', '.join(MODES)}. Choose one.")
        if within is not None and not 0 < within < np.inf:
            raise OptionError(f"within is {within}; expected seconds above 0. Correct it.")


def _about(encoder: TextEncoder, precision: str, dim: int | None, words: str | None) -> StoreInfo:
    """What a new corpus is made for."""
    kind = words or default_words()
    check_words(kind)
    if dim is not None and not 1 <= dim <= encoder.dimension:
        raise OptionError(
            f"dim is {dim}; the model's vectors have {encoder.dimension} dimensions. "
            f"Choose one from 1 to {encoder.dimension}."
        )
    size = dim or encoder.dimension
    return StoreInfo(encoder.name, size, precision, kind, probe(encoder, size))


def _reranked(hit: Hit, score: float | None) -> Hit:
    if score is None:
        return hit
    return Hit(hit.id, hit.text, score, hit.metadata, {**hit.scores, "rerank": score})
