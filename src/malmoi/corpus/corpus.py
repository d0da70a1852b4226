"""A corpus: documents that are stored as passages, and found by meaning, by words, or by both.

A corpus remembers the vectors of a few fixed texts, so that it can refuse a model that is not the
one it was made with, and the prompts that the model asks for.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ..documents import Block, Passage, SourceDocument, Splitter, split_document
from ..encoders import TextEncoder, load
from ..encoders.base import OnLong
from ..errors import CorpusError, DataError, OptionError, TextError, counted
from ..runtime.pooling import Precision, normalize, to_precision
from ..text import morphemes
from ..text.cleanup import as_text
from ..text.sentences import split_sentences
from ..types import Floats
from .filters import Filter, as_filters, check_fields
from .fusion import WEIGHTS, check_weights, fuse
from .hits import DocumentHits, Hit, group_hits, make_snippet
from .keywords import check_words, default_words
from .rerank import Scorer, rerank_within
from .sqlite import open_store
from .store import (
    Document,
    EncodedPassage,
    PassageKey,
    ScoredId,
    Store,
    Stored,
    StoreInfo,
    Vector,
    WriteMode,
    checked_document,
    context_of,
    passage_digest,
    vector_texts,
)
from .sync import SyncReport, sync_files

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


Mode = Literal["dense", "keyword", "hybrid"]
MODES = ("dense", "keyword", "hybrid")
DEPTH = 100  # passages that each side of a hybrid search contributes
_MATCHED = 1000  # passages whose keyword scores are known to the fusion
RERANKED = 50  # passages that a reranker scores


class Corpus:
    """Documents with their vectors and keywords. Open one with `malmoi.Corpus.open`."""

    def __init__(
        self, store: Store, encoder: TextEncoder | None = None, *, splitter: Splitter | None = None
    ) -> None:
        self.store = store
        self.splitter: Splitter = splitter or split_document
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
        splitter: Splitter | None = None,
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
            engine: "flat", "hnsw", or "auto", which uses the graph from two million vectors on.
            splitter: makes passages of a document; by default `malmoi.documents.split_document`,
                which makes passages of about 200 tokens.
        """
        create = None
        if encoder is not None:
            create = partial(_about, encoder, precision, dim, words)
        store = open_store(path, create=create, engine=engine)
        try:
            return cls(store, encoder, splitter=splitter)
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

    def sync(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        keep_missing: bool = False,
        progress: bool = False,
    ) -> SyncReport:
        """Make the corpus hold what files and folders hold now.

        New files are added, changed ones replaced, and what is gone from a folder is removed.
        Only what has changed is encoded.

        Args:
            paths: files and folders, with their sub-folders.
            include: patterns of names or paths; other files are left alone.
            exclude: patterns of names or paths to leave out.
            keep_missing: keep documents whose files are gone.
            progress: show how far it is.
        """
        return sync_files(
            self,
            paths,
            include=include,
            exclude=exclude,
            keep_missing=keep_missing,
            progress=progress,
        )

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
        """Find the `k` passages that fit a query best.

        Args:
            mode: "dense" searches by vectors, "keyword" by words, "hybrid" by both.
            filter: a mapping of fields to values, or conditions as text ("year>=2020"). Documents
                of files have the fields "type" and "folder".
            weights: those of the two sides of a hybrid search.
            exact: compare with every vector.
            reranker: scores the first `depth` passages again, with their titles, and sorts them
                by that score.
            within: seconds from the call on, without the time to open models; the reranker scores
                as many as there is time for.
            vector: the query's vector (dim,), if this corpus's encoder has made it already.
        """
        self._check(query, k, mode, depth, within)
        check_weights(weights)
        filters = as_filters(filter)
        check_fields(filters, self.store.fields() if filters else ())
        if mode != "keyword" and vector is None and len(self.store):
            _ = self.encoder  # opening it is not part of the time
        started = time.perf_counter()
        wanted = max(k, depth) if reranker else k
        rankings = self._rankings(query, wanted, mode, filters, weights, exact, vector)
        hits = self._hits(query, rankings["fused" if mode == "hybrid" else mode][:wanted], rankings)
        if reranker is not None:
            limit = None if within is None else started + within
            texts = [_read_by_reranker(hit) for hit in hits]
            scores = [hit.score for hit in hits]
            order = rerank_within(reranker, query, texts, scores, depth=depth, limit=limit)
            hits = [_reranked(hits[row], score) for row, score in order]
        return hits[:k]

    def search_documents(
        self, query: str, k: int = 10, *, passages: int = 3, **options: Any
    ) -> list[DocumentHits]:
        """Find the `k` documents that fit a query best, with up to `passages` passages each.

        The other options are those of `search`.
        """
        _check_counts(k=k, passages=passages)
        found = self.search(query, max(5 * k, RERANKED), **options)
        return group_hits(found, passages=passages)[:k]

    def neighbours(self, id: str, number: int, count: int = 1) -> dict[int, Passage]:
        """A passage of a document with those before and after it, by their numbers."""
        numbers = range(max(0, number - count), number + count + 1)
        found = self.store.passages([PassageKey(id, one) for one in numbers])
        return {key.number: found[key].passage for key in sorted(found)}

    def warm(self) -> None:
        """Open what a first search would have to open: the vector index and the analyser."""
        zeros = np.zeros(self.store.about.dimension, dtype=np.float32)
        self.store.vector_search(zeros, 1)
        if self.store.about.words != "bigrams" and morphemes.available():
            list(morphemes.forms_of(["가"]))

    def vectors_of(self, texts: Sequence[str], *, query: bool = True) -> Floats:
        """Encode texts into unit vectors (n, dim), as the corpus compares them.

        Queries and passages have different prompts in some models.
        """
        about, encoder = self.store.about, self.encoder
        dim = about.dimension if about.dimension < encoder.dimension else None
        prompt = None if about.prompts is None else about.prompts[0 if query else 1]
        found = np.empty((len(texts), about.dimension), dtype=np.float32)
        # A passage that is longer than the model reads is covered by windows, so that nothing is
        # cut; shorter texts are spared the counting.
        long = np.array([len(text) > encoder.max_tokens for text in texts], dtype=np.bool_)
        ways: tuple[OnLong, ...] = ("cut", "windows")
        for rows, on_long in zip((~long, long), ways, strict=True):
            some = [text for text, wanted in zip(texts, rows, strict=True) if wanted]
            if some:
                found[rows] = encoder.encode(some, dim=dim, prompt=prompt, on_long=on_long)
        vectors: Floats = normalize(found)
        return vectors

    @property
    def query_prompt(self) -> str | None:
        """The name of the encoder's prompt for queries; None for its default prompt."""
        prompts = self.store.about.prompts
        return None if prompts is None else prompts[0]

    def split(self, document: Document) -> tuple[Passage, ...]:
        """Split a document's text into passages; a short one is a passage as it is."""
        text = document.text
        source = SourceDocument(
            document.id,
            document.title,
            tuple(Block(part) for part in re.split(r"\n\s*\n", text) if part.strip()),
            document.source,
            document.type,
            document.modified or 0.0,
            document.metadata,
        )
        found = tuple(self.splitter(source))
        if len(found) > 1:
            return found
        # Whole, with the space that the splitter leaves out.
        return (Passage(text, (), None, tuple(split_sentences(text))),)

    def encode_passages(self, passages: Sequence[tuple[str, Passage]]) -> list[Vector]:
        """Give the vectors (n, width) of passages with their titles, in the store's precision."""
        if not passages:
            return []
        texts = [vector_texts(title, passage) for title, passage in passages]
        flat = list(dict.fromkeys(text for own in texts for text in own))
        stored = to_precision(self.vectors_of(flat, query=False), self.store.about.precision)
        rows = {text: row for row, text in enumerate(flat)}
        return [stored[[rows[text] for text in own]] for own in texts]

    def _write(self, documents: Iterable[Document | Mapping[str, Any]], mode: WriteMode) -> int:
        if isinstance(documents, str | bytes | Mapping | Document):
            documents = [documents]
        checked = [checked_document(one, i) for i, one in enumerate(documents)]
        batch = self._encoded([(one, self.split(one)) for one in checked])
        if batch:
            self.store.write(batch, mode=mode)
        return len(batch)

    def _encoded(self, documents: Sequence[tuple[Document, tuple[Passage, ...]]]) -> list[Stored]:
        """Documents with the vectors of their passages; those that are there are not made again."""
        pairs = {
            passage_digest(document.title, passage): (document.title, passage)
            for document, passages in documents
            for passage in passages
        }
        known = self.store.vectors_for(list(pairs))
        new = [digest for digest in pairs if digest not in known]
        made = self.encode_passages([pairs[digest] for digest in new])
        known |= dict(zip(new, made, strict=True))
        return [
            Stored(
                document,
                tuple(
                    EncodedPassage(one, known[passage_digest(document.title, one)])
                    for one in passages
                ),
            )
            for document, passages in documents
        ]

    def _rankings(
        self,
        query: str,
        k: int,
        mode: Mode,
        filters: list[Filter],
        weights: Mapping[str, float],
        exact: bool,
        vector: Floats | None,
    ) -> dict[str, list[ScoredId]]:
        both, store = mode == "hybrid", self.store
        wanted = max(k, DEPTH) if both else k
        rankings = {}
        if mode != "keyword":
            own = self._query_vector(query, vector)
            rankings["dense"] = store.vector_search(own, wanted, filters=filters, exact=exact)
        if mode != "dense":
            words, more = store.query_terms(query)
            if not both:
                rankings["keyword"] = store.keyword_search([*words, *more], k, filters=filters)
        if both:
            dense = rankings["dense"]
            known = {one.key for one in dense}
            keyword = rankings["keyword"] = store.keyword_candidates(
                [*words, *more], wanted, known, depth=_MATCHED, filters=filters
            )
            missing = [one.key for one in keyword[:wanted] if one.key not in known]
            rankings["dense"] = dense + store.vector_scores(own, missing)
            best = store.best_keyword_score(words) if keyword else 0.0
            rankings["fused"] = fuse(query, rankings["dense"], keyword, weights, best=best)
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
        self, query: str, order: Sequence[ScoredId], rankings: Mapping[str, Sequence[ScoredId]]
    ) -> list[Hit]:
        found = self.store.passages([one.key for one in order])
        shown = found.keys()
        scores: dict[PassageKey, dict[str, float]] = {key: {} for key in shown}
        nearest = {one.key: one.best for one in rankings.get("dense", ()) if one.key in shown}
        for name, ranking in rankings.items():
            for one in ranking:
                if one.key in scores:
                    scores[one.key][name] = one.score
        hits = []
        for one in order:
            if one.key in found:  # not deleted in the meantime
                passage, document = found[one.key].passage, found[one.key].document
                hits.append(
                    Hit(
                        document.id,
                        passage.text,
                        one.score,
                        document.metadata,
                        scores[one.key],
                        document.title,
                        passage.headings,
                        passage.page,
                        document.source,
                        document.type,
                        document.modified,
                        one.number,
                        make_snippet(query, passage, nearest.get(one.key, 0)),
                    )
                )
        return hits

    def _check(self, query: str, k: int, mode: str, depth: int, within: float | None) -> None:
        if not as_text(query, where="query").strip():
            raise TextError("the query is empty; expected some text. Say what to look for.")
        _check_counts(k=k, depth=depth)
        if mode not in MODES:
            raise OptionError(f"mode is {mode!r}; known are {', '.join(MODES)}. Choose one.")
        if within is not None and not 0 < within < np.inf:
            raise OptionError(f"within is {within}; expected seconds above 0, as in 0.2.")


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise OptionError(f"{name} is {value}; expected 1 or more. Ask for at least one.")


def _read_by_reranker(hit: Hit) -> str:
    above = context_of(hit.title, Passage("", hit.headings))
    return f"{above}\n{hit.text}" if above else hit.text


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
    prompts = prompts_of(encoder)
    return StoreInfo(encoder.name, size, precision, kind, probe(encoder, size), prompts)


# By these names models have prompts for passages, in sentence-transformers' order.
PASSAGE_PROMPTS = ("document", "passage", "corpus")


def prompts_of(encoder: TextEncoder) -> tuple[str, str] | None:
    """The names of a model's prompts for queries and for passages; None if it has neither.

    A model that has only one of them reads the other texts with its default prompt or none.
    """
    known, default = encoder.manifest.prompts, encoder.manifest.default_prompt or ""
    query = "query" if "query" in known else default
    passage = next((name for name in PASSAGE_PROMPTS if name in known), default)
    return (query, passage) if query or passage else None


def _reranked(hit: Hit, score: float | None) -> Hit:
    if score is None:
        return hit
    return replace(hit, score=score, scores={**hit.scores, "rerank": score})


def check_recall(corpus: Corpus, *, queries: int = 100, k: int = 10) -> dict[str, object]:
    """Compare approximate with exact vector search; returns one row of figures.

    The queries are documents from all over the corpus, with a little noise added to their
    vectors, so that a query is near a document without being one.
    """
    texts = corpus.store.sample(queries)
    if not texts:
        raise DataError("the corpus is empty; expected documents to search for. Add some first.")
    vectors = corpus.vectors_of(texts, query=False)
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
