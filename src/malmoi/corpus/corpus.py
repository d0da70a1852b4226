"""A corpus: documents that are stored, and found by vectors, by keywords, or by both.

A hybrid search fuses the two rankings by rank, not by score. A corpus remembers the vectors of a
few fixed texts, so that it can refuse a model that is not the one it was made with.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
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
from .sqlite import SqliteStore
from .store import Create, Document, ScoredId, Store, Stored, StoreInfo, Value, Vector, WriteMode

# The constant of the method's paper (Cormack et al. 2009): how little the first ranks differ.
_RANK_CONSTANT = 60


def fuse(
    rankings: Mapping[str, Sequence[ScoredId]], weights: Mapping[str, float]
) -> list[ScoredId]:
    """Sum weight / (60 + rank) over the rankings (reciprocal rank fusion), best first.

    >>> one, two = ScoredId("배", 0.9), ScoredId("차", 0.8)
    >>> [hit.id for hit in fuse({"a": [one, two], "b": [two]}, {"a": 1, "b": 0.5})]
    ['차', '배']
    """
    if any(weight < 0 for weight in weights.values()) or not any(weights.values()):
        raise OptionError(
            f"the weights are {dict(weights)}; expected 0 or more each, and at least one above 0. "
            f"The defaults are {dict(WEIGHTS)}."
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
    """The vectors of a few fixed texts, by which a model is recognised."""
    cut = dim if dim < encoder.dimension else None
    vectors = normalize(encoder.encode(list(_PROBES), dim=cut))
    return tuple(tuple(round(float(value), 6) for value in vector) for vector in vectors)


def check_model(encoder: TextEncoder, about: StoreInfo) -> None:
    """Raise unless an encoder's vectors can be compared with those of the corpus."""
    remedy = f"Open it with {about.model}, or make a new corpus with: malmoi index"
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


def checked_document(given: Document | Mapping[str, Any], number: int) -> Document:
    """Make a Document of what was given, or say what is wrong with document `number`."""
    where = f"document {number}"
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
# Measured in docs/decisions/fusion.md: vectors deserve more weight than keywords.
WEIGHTS: Mapping[str, float] = {"dense": 1.0, "keyword": 0.25}
DEPTH = 100  # documents that each side of a hybrid search contributes
RERANKED = 50  # documents that a reranker scores


@dataclass(frozen=True)
class Hit:
    """A document that was found; the higher the score, the better it fits.

    `score` is that of the last stage that scored it; `scores` keeps those of all stages: "dense"
    is a cosine, "keyword" BM25, "fused" their reciprocal rank fusion, "rerank" the reranker's.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Value] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


class Corpus:
    """Documents with their vectors and keywords. Open one with `malmoi.Corpus.open`."""

    def __init__(self, store: Store, encoder: TextEncoder | None = None) -> None:
        self.store = store
        self._encoder = encoder
        if encoder is not None:
            check_model(encoder, store.about)

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
        """Open a corpus file, or create it when it does not exist and an encoder is given.

        Args:
            path: a file, or an address in Milvus ("milvus://HOST:PORT/NAME", or "milvus:FILE.db"
                for Milvus Lite).
            encoder: without one, the model that made the corpus is loaded when it is needed.
            precision: how vectors are stored; "int8" takes a quarter and "binary" a thirty-second
                of the size. Fixed when the corpus is created, as are `dim` and `words`.
            dim: keep only the first dimensions.
            words: what keyword search counts: "word-morphemes", "morphemes" (of whole texts) or
                "bigrams".
            engine: "flat", "hnsw", or "auto", which uses the graph from two million documents on.
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
        """The encoder; loaded by the name stored in the corpus if none was given."""
        if self._encoder is None:
            encoder = load(self.store.about.model)
            check_model(encoder, self.store.about)
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

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; what was added is on the disk without this too."""
        self.store.close()

    def add(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Add documents with new ids, all of them or none; returns how many.

        A document is a `Document`, or a mapping with "id", "text" and any other fields.
        """
        return self._write(documents, "insert")

    def update(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Replace documents whose ids exist, all of them or none; returns how many."""
        return self._write(documents, "update")

    def put(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Add documents, replacing those whose ids exist, all of them or none (upsert)."""
        return self._write(documents, "upsert")

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete documents; returns how many of the ids existed."""
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

        Args:
            mode: "dense" searches by vectors, "keyword" by words, "hybrid" by both.
            filter: a mapping of fields to values, or conditions as text ("year>=2020").
            weights: those of the two sides of a hybrid search.
            exact: compare with every vector.
            reranker: scores the first `depth` documents again and sorts them by that score.
            within: seconds from the call on; the reranker scores as many as there is time for.
            vector: the query's vector (dim,), if this corpus's encoder has made it already.
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
                _reranked(hits[row], score)
                for row, score in rerank_within(
                    reranker, query, [hit.text for hit in hits], depth=depth, limit=limit
                )
            ]
        return hits[:k]

    def vectors_of(self, texts: Sequence[str]) -> Floats:
        """Encode texts into unit vectors (n, dim), as the corpus compares them."""
        about = self.store.about
        dim = about.dimension if about.dimension < self.encoder.dimension else None
        vectors: Floats = normalize(self.encoder.encode(list(texts), dim=dim))
        return vectors

    def stored_vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Vectors in the store's precision; a text that is in the corpus is not encoded again."""
        known = self.store.vectors_for(texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known |= dict(zip(new, self.new_vectors(new), strict=True))
        return [known[text] for text in texts]

    def new_vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Encode texts into vectors in the store's precision."""
        if not texts:
            return []
        return list(to_precision(self.vectors_of(texts), self.store.about.precision))

    def _write(self, documents: Iterable[Document | Mapping[str, Any]], mode: WriteMode) -> int:
        if isinstance(documents, str | bytes | Mapping | Document):
            documents = [documents]
        checked = [checked_document(one, i) for i, one in enumerate(documents)]
        vectors = self.stored_vectors([document.text for document in checked])
        batch = [Stored(*pair) for pair in zip(checked, vectors, strict=True)]
        if batch:
            self.store.write(batch, mode=mode)
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
            found = self.store.vector_search(own, wanted, filters=filters, exact=exact)
            rankings["dense"] = found
        if mode != "dense":
            words = query_words(query, self.store.about.words)
            rankings["keyword"] = self.store.keyword_search(words, wanted, filters=filters)
        return rankings

    def _query_vector(self, query: str, given: Floats | None) -> Floats:
        """The query's unit vector (dim,) as the corpus compares it, encoded unless given."""
        if given is None:
            encoded: Floats = self.vectors_of([query])[0]
            return encoded
        width = self.store.about.dimension
        whole = width if self._encoder is None else self._encoder.dimension
        given = np.asarray(given, dtype=np.float32)
        if given.shape not in ((width,), (whole,)) or not np.isfinite(given).all():
            raise OptionError(
                f"vector has the shape {given.shape}, or numbers that are not finite; expected "
                f"({width},) or ({whole},). Encode the query with the encoder of this corpus, or "
                "leave it out."
            )
        unit: Floats = normalize(given[None, :width])[0]
        return unit

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
            raise OptionError(f"within is {within}; expected seconds above 0, as in 0.2.")


def _about(encoder: TextEncoder, precision: str, dim: int | None, words: str | None) -> StoreInfo:
    """The StoreInfo of a new corpus."""
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


def open_store(path: str | Path, *, create: Create | None = None, engine: str = "auto") -> Store:
    """Open the store of a corpus: a SQLite file, or a collection in Milvus.

    A store that does not exist is created when `create` is given.
    """
    if str(path).startswith(("milvus:", "milvus+https:")):
        from .milvus import MilvusStore  # here, so that a corpus file opens without it

        return MilvusStore(str(path), create=create)
    return SqliteStore(path, create=create, engine=engine)


def check_recall(corpus: Corpus, *, queries: int = 100, k: int = 10) -> dict[str, object]:
    """Compare approximate with exact vector search; returns one row of figures.

    The queries are documents from all over the corpus, with a little noise added to their
    vectors, so that a query is near a document without being one.
    """
    texts = corpus.store.sample(queries)
    if not texts:
        raise DataError("the corpus is empty; expected documents to search for. Add some first.")
    vectors = corpus.vectors_of(texts)
    noise = np.random.default_rng(0).standard_normal(vectors.shape).astype(np.float32)
    times: dict[bool, list[float]] = {False: [], True: []}
    found: dict[bool, list[set[str]]] = {False: [], True: []}
    for vector in normalize(vectors + 0.3 * normalize(noise)):
        for exact in (False, True):
            started = time.perf_counter()
            hits = corpus.store.vector_search(vector, k, exact=exact)
            times[exact].append(time.perf_counter() - started)
            found[exact].append({hit.id for hit in hits})
    shared = sum(len(a & b) for a, b in zip(found[False], found[True], strict=True))
    return {
        "documents": len(corpus),
        "model": corpus.store.about.model,
        "dimension": corpus.store.about.dimension,
        "precision": corpus.store.about.precision,
        "queries": len(vectors),
        f"recall@{k}": round(shared / sum(len(one) for one in found[True]), 4),
        "p50_ms": round(1000 * float(np.median(times[False])), 2),
        "exact_p50_ms": round(1000 * float(np.median(times[True])), 2),
    }
