"""A corpus: documents that are stored as passages, and found by meaning, by words, or by both."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ..documents import Passage, Splitter
from ..encoders import TextEncoder
from ..errors import DataError, OptionError, TextError, counted
from ..heads.answerer import Answer, Answerer
from ..runtime.pooling import Precision, normalize
from ..text import morphemes
from ..text.cleanup import as_text
from ..types import Floats
from .filters import Filter, as_filters, check_fields
from .ingest import IngestReport, sync_files
from .ranking import (
    WEIGHTS,
    DocumentHits,
    Hit,
    Scorer,
    check_weights,
    fuse,
    group_hits,
    make_snippet,
    rerank_within,
)
from .sqlite import open_store
from .store import Document, PassageKey, ScoredPassage, context_of
from .writer import CorpusWriter, new_info

Mode = Literal["dense", "keyword", "hybrid"]
MODES = ("dense", "keyword", "hybrid")
DEPTH = 100  # passages that each side of a hybrid search contributes
_MATCHED = 1000  # passages whose keyword scores are known to the fusion
RERANKED = 50  # passages that a reranker scores
# Passages of about 200 tokens that an answer is read from. More take longer and rarely bring it.
ANSWERED = 8


class Corpus(CorpusWriter):
    """Documents with their vectors and keywords. Open one with `malmoi.Corpus.open`."""

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
            create = partial(new_info, encoder, precision, dim, words)
        store = open_store(path, create=create, engine=engine)
        try:
            return cls(store, encoder, splitter=splitter)
        except BaseException:
            store.close()
            raise

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
    ) -> IngestReport:
        """Add, update and remove documents so that the corpus matches files and folders.

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

    @property
    def query_prompt(self) -> str | None:
        """The name of the encoder's prompt for queries; None for its default prompt."""
        prompts = self.store.about.prompts
        return None if prompts is None else prompts[0]

    def _rankings(
        self,
        query: str,
        k: int,
        mode: Mode,
        filters: list[Filter],
        weights: Mapping[str, float],
        exact: bool,
        vector: Floats | None,
    ) -> dict[str, list[ScoredPassage]]:
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
        self,
        query: str,
        order: Sequence[ScoredPassage],
        rankings: Mapping[str, Sequence[ScoredPassage]],
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


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer, and the passage of a corpus that it is in: hit.text[start:end]."""

    answer: Answer
    hit: Hit


def answer_from(
    corpus: Corpus,
    answerer: Answerer,
    question: str,
    *,
    k: int = 1,
    passages: int = ANSWERED,
    threshold: float | None = None,
    **options: Any,
) -> list[FoundAnswer]:
    """Answer from a corpus: the `k` best answers in the passages that fit best; [] for none.

    `options` are those of `Corpus.search` (mode, filter, reranker, …).
    """
    hits: Sequence[Hit] = corpus.search(question, passages, **options)
    if not hits:
        return []
    found = answerer.answers(question, [hit.text for hit in hits], k=k, threshold=threshold)
    return [FoundAnswer(answer, hits[answer.number]) for answer in found]
