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
from ..encoders.token_vectors import TokenVectors, interact
from ..errors import DataError, OptionError, TextError, counted
from ..heads.answerer import Answerer
from ..runtime.pooling import Precision, normalize
from ..text import morphemes
from ..text.cleanup import as_text
from ..types import Floats
from .answers import ANSWERED, FoundAnswer, answer_spans, chosen, sentence_cosines, vector_cosines
from .context import join_passages
from .explain import MatchReader
from .filters import Filter, as_filters, check_dates, check_fields
from .ingest import IngestReport, sync_files
from .ranking import (
    WEIGHTS,
    DocumentHits,
    Hit,
    Reranked,
    Scorer,
    check_weights,
    fuse,
    group_hits,
    make_snippet,
    rerank_within,
)
from .relevance import RELEVANT, RELEVANT_ALONE, Met, relevance
from .sqlite import open_store
from .store import Document, PassageKey, ScoredPassage, context_of
from .writer import CorpusWriter, new_info

Mode = Literal["dense", "keyword", "hybrid"]
MODES = ("dense", "keyword", "hybrid")
DEPTH = 100  # passages that each side of a hybrid search contributes
_MATCHED = 1000  # passages whose keyword scores are known to the fusion
RERANKED = 50  # passages that a reranker scores
_LOOKED_AT = 50  # documents by which a field's values are known for dates
_MET = 200  # of each side's candidates that are compared by token vectors


class Corpus(CorpusWriter):
    """Documents with their vectors and keywords. Open one with `malmoi.Corpus.open`."""

    _asked: "_Asked | None" = None  # the last query

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

        >>> corpus
        <Corpus of 3 documents: ko-en-small, 384 dimensions, float32, word-morphemes>
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
        """Delete documents; returns how many of the ids existed.

        >>> corpus.delete("nobody")
        0
        """
        listed = [ids] if isinstance(ids, str) else list(ids)
        return self.store.delete([as_text(one, where="an id") for one in listed])

    def get(self, id: str) -> Document | None:
        """The document under an id, or None.

        >>> corpus.get("refund").text
        '환불은 7일 안에 됩니다.'
        """
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
        late: bool = True,
        explain: bool = True,
        min_relevance: float = 0.0,
    ) -> list[Hit]:
        """Find the `k` passages that fit a query best.

        Args:
            mode: "dense" searches by vectors, "keyword" by words, "hybrid" by both.
            filter: a mapping of fields to values, or conditions as text ("year>=2020"). Documents
                of files have the fields "type" and "folder".
            weights: those of the two sides of a hybrid search.
            exact: compare with every vector.
            reranker: scores the first `depth` passages again, with their titles, and sorts them
                by that score, weighed with the search's where the reranker has weights for it.
            within: seconds from the call on, without the time to open models; the reranker scores
                as many as there is time for.
            vector: the query's vector (dim,), if this corpus's encoder has made it already.
            late: compare the words of the query with those of the best passages by their token
                vectors, where the corpus has them.
            explain: give hits the words by which token vectors found them (`Hit.matches`).
            min_relevance: leave out hits below it; malmoi.corpus.RELEVANT is a good one.

        >>> corpus.search("how long does the delivery take?", k=1)[0].id
        'delivery'
        """
        self._check(query, k, mode, depth, within, min_relevance)
        check_weights(weights)
        filters = as_filters(filter)
        check_fields(filters, self.store.fields() if filters else ())
        if filters:
            some = self.store.documents(limit=_LOOKED_AT)
            check_dates(filters, (one.document.fields for one in some))
        if mode != "keyword" and vector is None and len(self.store):
            _ = self.encoder  # opening it is not part of the time
        started = time.perf_counter()
        wanted = max(k, depth) if reranker else k
        asked = None
        if late and mode != "keyword":
            asked = self._asked_tokens(query)
            if vector is None and asked is not None and self._asked is not None:
                vector = self._asked.vector
        found = self._rankings(query, wanted, mode, filters, weights, exact, vector, asked)
        hits = self._hits(query, found.order(mode, min_relevance)[:wanted], found)
        if reranker is not None:
            limit = None if within is None else started + within
            texts = [_read_by_reranker(hit) for hit in hits]
            scores = [hit.score for hit in hits]
            again = rerank_within(reranker, query, texts, scores, depth=depth, limit=limit)
            hits = [_reranked(hits[one.place], one) for one in again]
        return self.explain(query, hits[:k]) if explain and asked is not None else hits[:k]

    def explain(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Give hits of a query the words by which token vectors found them, and snippets there."""
        asked, tokens = self._asked_tokens(query), self.token_encoder
        if asked is None or tokens is None:
            return list(hits)
        keys = [hit.key for hit in hits]
        packed, passages = self.store.tokens_of(keys), self.store.passages(keys)
        prompts, last = self.store.about.prompts, self._asked
        weights = last.weights if last is not None and last.tokens is asked else None
        prompt = None if prompts is None else prompts[1]
        reader = MatchReader(tokens, query, asked, weights, prompt)
        return [
            reader.explained(hit, passages[hit.key].passage, packed[hit.key])
            if packed.get(hit.key) and hit.key in passages
            else hit
            for hit in hits
        ]

    def search_documents(
        self, query: str, k: int = 10, *, passages: int = 3, **options: Any
    ) -> list[DocumentHits]:
        """Find the `k` documents that fit a query best, with up to `passages` passages each.

        The other options are those of `search`.

        >>> [one.id for one in corpus.search_documents("비밀번호를 까먹었어요", k=1)]
        ['password']
        """
        _check_counts(k=k, passages=passages)
        explain = options.pop("explain", True) and options.get("late", True)
        found = self.search(query, max(5 * k, RERANKED), **options, explain=False)
        groups = group_hits(found, passages=passages)[:k]
        if not explain or options.get("mode") == "keyword":
            return groups
        hits = iter(self.explain(query, [hit for own in groups for hit in own.hits]))
        return [DocumentHits(tuple(next(hits) for _ in own.hits)) for own in groups]

    def answer(
        self,
        question: str,
        k: int = 1,
        *,
        answerer: Answerer | None = None,
        passages: int = ANSWERED,
        threshold: float | None = None,
        **options: Any,
    ) -> list[FoundAnswer]:
        """Answer a question: the `k` best answers, [] for none.

        Without an answerer an answer is the sentence, row of a table or item of a list that is
        nearest to the question, one of each passage, in the order of the passages.

        Args:
            answerer: marks the span that answers, out of the passages that fit best.
            passages: how many of these are read.
            threshold: the least relevance of a passage (malmoi.corpus.RELEVANT if left out; 0.02
                in a corpus of one document), or with an answerer the least score.
            options: those of `search` (mode, filter, reranker, …).
        """
        _check_counts(k=k, passages=passages)
        options.setdefault("explain", False)
        hits = self.search(question, passages, **options)
        if answerer is not None and hits:
            texts = [hit.text for hit in hits]
            spans = answerer.answers(question, texts, k=k, threshold=threshold)
            return [FoundAnswer(one, hits[one.number]) for one in spans]
        least = RELEVANT if len(self) > 1 else RELEVANT_ALONE
        least = least if threshold is None else threshold
        relevant = [hit for hit in hits if hit.relevance >= least]
        if relevant and relevant[0] != hits[0]:
            relevant.insert(0, hits[0])  # the first is what the search decided for
        return self._sentences(question, relevant[:k])

    def context(self, query: str, tokens: int = 1000, **options: Any) -> str:
        """The passages that fit a query best, with their sources, joined for a prompt.

        Each passage is there once, and neighbours are one text. Empty for no passage.

        Args:
            query: what to look for.
            tokens: how long the text may be, by the estimate that splits documents.
            options: those of `search` (mode, filter, min_relevance, …).
        """
        _check_counts(tokens=tokens)
        options.setdefault("explain", False)
        k = options.pop("k", max(10, tokens // 50))
        return join_passages(self.search(query, k, **options), tokens)

    def _sentences(self, question: str, hits: Sequence[Hit]) -> list[FoundAnswer]:
        """The nearest sentence of each hit."""
        asked, tokens, about = self._asked_tokens(question), self.token_encoder, self.store.about
        last, prompt = self._asked, None if about.prompts is None else about.prompts[1]
        keys = [hit.key for hit in hits]
        stored = self.store.passages(keys)
        packed = {} if asked is None else self.store.tokens_of(keys)
        found = []
        for hit in hits:
            if hit.key not in stored:
                continue  # deleted in the meantime
            passage, cosines = stored[hit.key].passage, dict[tuple[int, int], float]()
            if tokens is not None and asked is not None and packed.get(hit.key):
                weights = last.weights if last is not None and last.tokens is asked else None
                cosines = sentence_cosines(
                    tokens, asked.vectors, weights, hit, passage, packed[hit.key], prompt
                )
            if not cosines:
                spans = answer_spans(passage)
                vectors = self.vectors_of([hit.text[slice(*one)] for one in spans], query=False)
                cosines = vector_cosines(spans, vectors, self.vectors_of([question])[0])
            found.append(FoundAnswer(chosen(hit.text, cosines), hit))
        return found

    def neighbours(self, id: str, number: int, count: int = 1) -> dict[int, Passage]:
        """A passage of a document with those before and after it, by their numbers.

        >>> [one.text for one in corpus.neighbours("refund", 0).values()]
        ['환불은 7일 안에 됩니다.']
        """
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
        asked: TokenVectors | None,
    ) -> "_Rankings":
        both, store = mode == "hybrid", self.store
        wanted = max(k, DEPTH if both or asked is not None else 2)
        rankings: dict[str, list[ScoredPassage]] = {}
        dense: list[ScoredPassage] = []
        words: list[str] = []
        if mode != "keyword":
            own_vector = self._query_vector(query, vector)
            vectors = store.vector_search(own_vector, wanted, filters=filters, exact=exact)
            dense = rankings["dense"] = vectors
        if mode != "dense":
            words, more = store.query_terms(query)
            if not both:
                keyword = store.keyword_search([*words, *more], max(k, 2), filters=filters)
                rankings["keyword"] = keyword
        if both:
            known = {one.key for one in dense}
            keyword = rankings["keyword"] = store.keyword_candidates(
                [*words, *more], wanted, known, depth=_MATCHED, filters=filters
            )
            missing = [one.key for one in keyword[:wanted] if one.key not in known]
            dense = rankings["dense"] = dense + store.vector_scores(own_vector, missing)
        best = store.best_keyword_score(words) if rankings.get("keyword") else 0.0
        met: dict[PassageKey, Met] = {}
        if asked is not None:
            met = self._late(asked, rankings["dense"], rankings.get("keyword", ()))
        if met:
            late = (replace(one, score=met[one.key].score) for one in dense if one.key in met)
            rankings["late"] = sorted(late, key=lambda one: -one.score)
        if both:
            scores = {key: one.score for key, one in met.items()}
            rankings["fused"] = fuse(query, dense, keyword, weights, best=best, late=scores)
        own = relevance(dense, rankings.get("keyword", ()), met, best=best)
        return _Rankings(rankings, own)

    def _asked_tokens(self, query: str) -> TokenVectors | None:
        """The token vectors of a query; None where there are none to compare with."""
        tokens = self.token_encoder if self.store.about.tokens else None
        if tokens is None:
            return None
        known = self._asked
        if known is None or known.query != query:
            vectors, found = tokens.encode_both([query], prompt=self.query_prompt)
            known = self._asked = _Asked(query, self._cut(vectors)[0], found[0])
        return known.tokens if len(known.tokens.vectors) else None

    def _late(
        self,
        asked: TokenVectors,
        dense: Sequence[ScoredPassage],
        keyword: Sequence[ScoredPassage],
    ) -> dict[PassageKey, Met]:
        """Compare the best of both sides with a query by their token vectors."""
        best = {one.key for one in (*dense[:_MET], *keyword[:_MET])}
        candidates = [one for one in dense if one.key in best]
        packed = self.store.tokens_of([one.key for one in candidates])
        found = [one for one in candidates if packed.get(one.key)]
        if not found:
            return {}
        size = asked.vectors.shape[1]
        met = interact(asked.vectors, [packed[one.key] for one in found], size=size)
        if (known := self._asked) is not None and known.tokens is asked:
            self._asked = replace(known, weights=met.weights)
        means = met.best.mean(axis=0).tolist()
        return {
            one.key: Met(score, mean)
            for one, score, mean in zip(found, met.scores.tolist(), means, strict=True)
        }

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
        ranked: "_Rankings",
    ) -> list[Hit]:
        rankings = ranked.stages
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
                        relevance=ranked.relevance[one.key],
                    )
                )
        return hits

    def _check(
        self,
        query: str,
        k: int,
        mode: str,
        depth: int,
        within: float | None,
        min_relevance: float,
    ) -> None:
        if not as_text(query, where="query").strip():
            raise TextError("the query is empty; expected some text. Say what to look for.")
        _check_counts(k=k, depth=depth)
        if mode not in MODES:
            raise OptionError(f"mode is {mode!r}; known are {', '.join(MODES)}. Choose one.")
        if within is not None and not 0 < within < np.inf:
            raise OptionError(f"within is {within}; expected seconds above 0, as in 0.2.")
        if not 0 <= min_relevance <= 1:
            raise OptionError(
                f"min_relevance is {min_relevance}; expected a share from 0 to 1. Leave it out for "
                "all hits."
            )


@dataclass(frozen=True)
class _Asked:
    """A query as its model read it, and what its tokens weighed in the last search."""

    query: str
    vector: Floats
    tokens: TokenVectors
    weights: Floats | None = None


@dataclass(frozen=True)
class _Rankings:
    """The candidates of a query by each stage that scored them, and how relevant they are."""

    stages: Mapping[str, Sequence[ScoredPassage]]
    relevance: Mapping[PassageKey, float]

    def order(self, mode: Mode, least: float) -> list[ScoredPassage]:
        """The candidates by the last stage, without those below a relevance."""
        late = mode == "dense" and "late" in self.stages
        stage = self.stages["fused" if mode == "hybrid" else "late" if late else mode]
        return [one for one in stage if self.relevance[one.key] >= least]


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise OptionError(f"{name} is {value}; expected 1 or more. Ask for at least one.")


def _read_by_reranker(hit: Hit) -> str:
    above = context_of(hit.title, Passage("", hit.headings))
    return f"{above}\n{hit.text}" if above else hit.text


def _reranked(hit: Hit, found: Reranked) -> Hit:
    if found.own is None:
        return hit
    blended = {} if found.blended is None else {"blended": found.blended}
    score = found.own if found.blended is None else found.blended
    return replace(hit, score=score, scores={**hit.scores, "rerank": found.own, **blended})


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
