"""From scores to hits: fusion of the two sides, reranking within a time limit, and snippets.

Fusion adds scores on a common scale, not ranks: both sides' scores of all candidates are
standardised for each query. How much words count depends on how well any passage matches the
query's words: an identifier or a rare word that is found decides, and the common words that a
paraphrase shares with many passages hardly count. A passage in the other language cannot have the
query's words; the keyword score it would have had is estimated from its meaning. The figures are
fitted in docs/decisions/fusion.md.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..documents import Passage
from ..encoders.token_vectors import BY_VECTOR
from ..errors import OptionError
from ..heads.reranker import Reranker
from ..runtime.tokenizer import Pair
from ..text.cleanup import as_text
from ..types import Floats
from .store import PassageKey, ScoredPassage, Value, hangul_share, sentence_spans

WEIGHTS: Mapping[str, float] = {"dense": 1.0, "keyword": 0.8}
# Up to this share of the best possible keyword score words do not count, from that on fully.
_UNTRUSTED, _TRUSTED = 0.1, 0.4
# A passage in the other language: its keyword score is estimated as so much of its standardised
# cosine and so much of the keyword score that it has, and not below that score.
_BY_MEANING, _BY_WORDS = 1.4, 0.5
# Percent of Hangul letters: a query with more than the first is Korean, and one with less than
# the second is not; passages likewise.
_KOREAN_QUERY, _OTHER_QUERY = 30, 5
_KOREAN_PASSAGE, _OTHER_PASSAGE = 40, 10
# Whether a search is reranked when nobody says so; measured in docs/decisions/fusion.md. This is
# the one place where it is decided, for the command line and the server.
# Small enough that a batch too many costs a few milliseconds, large enough to be efficient.
_FIRST = 4
_LARGEST = 32
# A batch's time is predicted from those before; some of the time left is kept as a margin.
_CAUTION = 0.8
_SNIPPET = 200  # characters
_WORD = re.compile(r"[0-9A-Za-z]+|[가-힣]+")


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise for weights below zero, or without one above."""
    if any(weight < 0 for weight in weights.values()) or not any(weights.values()):
        raise OptionError(
            f"the weights are {dict(weights)}; expected 0 or more each, and at least one above 0. "
            f"The defaults are {dict(WEIGHTS)}."
        )


def fuse(
    query: str,
    dense: Sequence[ScoredPassage],
    keyword: Sequence[ScoredPassage],
    weights: Mapping[str, float] = WEIGHTS,
    *,
    best: float,
    late: Mapping[PassageKey, float] | None = None,
) -> list[ScoredPassage]:
    """Add the standardised scores of both sides, best first.

    Args:
        query: its language matters.
        dense: every candidate with its cosine.
        keyword: passages with their BM25 scores; candidates that are not here match no word.
        weights: of the two sides.
        best: the most that BM25 can give for this query.
        late: the scores by token vectors of candidates that have them.

    >>> found = [ScoredPassage("a", 0.5), ScoredPassage("b", 0.45), ScoredPassage("c", 0.3)]
    >>> [one.id for one in fuse("PX-40", found, [ScoredPassage("b", 4.0)], best=9.0)]
    ['b', 'a', 'c']
    """
    check_weights(weights)
    if not dense:
        return []
    matched: dict[PassageKey, float] = {one.key: one.score for one in keyword}
    meaning = _meaning(dense, late or {})
    words = _standardised(np.array([matched.get(one.key, 0.0) for one in dense]))
    of_other = _in_other_language(query, dense)
    estimated = np.maximum(words, _BY_MEANING * meaning + _BY_WORDS * words)
    words = np.where(of_other, estimated, words)
    trust = _trust(max(matched.values(), default=0.0), best)
    by_meaning, by_words = weights.get("dense", 1.0), weights.get("keyword", 1.0)
    scores = by_meaning * meaning + by_words * (trust if by_meaning else 1.0) * words
    order = np.argsort(-scores, kind="stable").tolist()
    return [
        ScoredPassage(dense[i].id, float(scores[i]), dense[i].number, dense[i].hangul)
        for i in order
    ]


def _meaning(dense: Sequence[ScoredPassage], late: Mapping[PassageKey, float]) -> Floats:
    """The standardised scores by vectors, mostly those by token vectors where there are any."""
    cosines = _standardised(np.array([one.score for one in dense]))
    rows = [i for i, one in enumerate(dense) if one.key in late]
    if not rows:
        return cosines
    met = cosines.copy()
    met[rows] = _standardised(np.array([late[dense[i].key] for i in rows]))
    mean: Floats = np.average([met, cosines], axis=0, weights=[1, BY_VECTOR])
    return mean


def _trust(found: float, best: float) -> float:
    """How much words count: from 0 to 1 by the share of the query's words that were found."""
    share = found / best if best > 0 else 0.0
    return float(np.clip((share - _UNTRUSTED) / (_TRUSTED - _UNTRUSTED), 0, 1))


def _standardised(scores: Floats) -> Floats:
    spread = scores.std()
    centred: Floats = scores - scores.mean()
    return centred / spread if spread > 1e-9 else np.zeros_like(centred)


def _in_other_language(query: str, found: Sequence[ScoredPassage]) -> NDArray[np.bool_]:
    share = hangul_share(query)
    shares = np.array([-1 if one.hangul is None else one.hangul for one in found])
    if share is not None and share > _KOREAN_QUERY:
        return (shares >= 0) & (shares < _OTHER_PASSAGE)
    if share is not None and share < _OTHER_QUERY:
        return shares > _KOREAN_PASSAGE
    return np.zeros(len(found), dtype=np.bool_)


class Reranked(NamedTuple):
    """A text by its place in a list, with a reranker's own score, and that with the search's.

    Both are None for a text that was not scored, and `blended` for a reranker without weights.
    """

    place: int
    own: float | None = None
    blended: float | None = None


class Scorer(Protocol):
    """Scores pairs of texts, higher for more similar ones; a Reranker, for example."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; (n,)."""
        ...


def rerank_within(
    reranker: Scorer,
    query: str,
    texts: Sequence[str],
    found: Sequence[float],
    *,
    depth: int,
    limit: float | None,
) -> list[Reranked]:
    """Sort the first `depth` texts by the reranker's scores; the others follow in their order.

    `found` are the search's scores, which a reranker may weigh with its own (`FoundBlend`). `limit`
    is when to stop, on `time.perf_counter`'s clock.
    """
    as_text(query, where="query")
    head = texts[:depth]
    blend = reranker.found_blend if isinstance(reranker, Reranker) else None
    score = reranker.own_scores if blend and isinstance(reranker, Reranker) else reranker.score
    if limit is None:
        scores = score([(query, text) for text in head]) if head else np.empty(0, np.float32)
    else:
        scores = _score_until(limit, score, query, head)
    final = scores
    if blend and len(scores):
        final = blend.of(scores, np.asarray(found[: len(scores)], dtype=np.float32))
    order = np.argsort(-final, kind="stable").tolist()
    first = [Reranked(i, float(scores[i]), float(final[i]) if blend else None) for i in order]
    return [*first, *map(Reranked, range(len(scores), len(texts)))]


def _score_until(
    limit: float, score: Callable[[list[Pair]], Floats], query: str, texts: Sequence[str]
) -> Floats:
    found: list[float] = []
    characters = seconds = 0.0
    while len(found) < len(texts):
        size = _FIRST if not found else _LARGEST
        now = time.perf_counter()
        if found:
            size = _fitting(texts[len(found) :], _CAUTION * (limit - now), characters / seconds)
        if now >= limit or not size:
            break
        part = texts[len(found) : len(found) + size]
        found += score([(query, text) for text in part]).tolist()
        seconds += time.perf_counter() - now
        characters += sum(len(text) + len(query) for text in part)
    return np.array(found, dtype=np.float32)


def _fitting(texts: Sequence[str], seconds: float, rate: float) -> int:
    """How many of the next texts fit into `seconds`, at `rate` characters a second."""
    lengths = np.cumsum([len(text) for text in texts[:_LARGEST]])
    return int((lengths <= seconds * rate).sum())


class Match(NamedTuple):
    """A word of the query, and the word of the passage that it met, in any language.

    Attributes:
        query: where the query has it, (start, end).
        passage: where the passage's text has it.
        cosine: how alike they are, where they stand.
    """

    query: tuple[int, int]
    passage: tuple[int, int]
    cosine: float


@dataclass(frozen=True)
class Hit:
    """A passage that was found; the higher the score, the better it fits.

    Attributes:
        id: of its document.
        text: of the passage; a short document is one passage.
        score: that of the last stage that scored it.
        metadata: of its document.
        scores: of all stages: "dense" is a cosine, "keyword" BM25, "fused" both standardised and
            added, "late" by token vectors, "rerank" the reranker's own, "blended" that weighed
            with the search's.
        title: of its document.
        headings: the headings above the passage, outermost first.
        page: on which the passage starts, where the document has pages.
        source: where the document is from.
        type: of the file: "pdf", "docx", ...
        modified: when the file was changed, in seconds since the epoch.
        number: of the passage in its document, from 0.
        snippet: the part of the text that fits best.
        matches: words of the query with the words of the text that they met, best first; only
            where token vectors found it.
        relevance: how likely it is right, from 0 to 1; unlike scores the same for every query.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Value] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    title: str = ""
    headings: tuple[str, ...] = ()
    page: int | None = None
    source: str = ""
    type: str = ""
    modified: float | None = None
    number: int = 0
    snippet: str = ""
    matches: tuple[Match, ...] = ()
    relevance: float = 0.0

    @property
    def document(self) -> str:
        """The id of the document."""
        return self.id

    @property
    def passage(self) -> str:
        """The text of the passage."""
        return self.text

    @property
    def place(self) -> str:
        """The file with its page, as "leave.pdf#page=3"; the document's id without a file.

        >>> Hit("a", "", 1, source="leave.pdf", page=3).place
        'leave.pdf#page=3'
        """
        return (self.source or self.id) + (f"#page={self.page}" if self.page is not None else "")

    @property
    def key(self) -> PassageKey:
        """What the passage is known by: its document and its number."""
        return PassageKey(self.id, self.number)


@dataclass(frozen=True)
class DocumentHits:
    """A document with its passages that were found, best first."""

    hits: tuple[Hit, ...]

    @property
    def id(self) -> str:
        """The document's id."""
        return self.hits[0].id

    @property
    def title(self) -> str:
        """The document's title."""
        return self.hits[0].title

    @property
    def source(self) -> str:
        """Where the document is from."""
        return self.hits[0].source

    @property
    def score(self) -> float:
        """The score of the best passage."""
        return self.hits[0].score


def group_hits(hits: Sequence[Hit], *, passages: int | None = None) -> list[DocumentHits]:
    """Gather hits by their documents, which keep the order of their best passages.

    >>> [(one.id, len(one.hits)) for one in group_hits([Hit("a", "", 2), Hit("b", "", 1)])]
    [('a', 1), ('b', 1)]
    """
    found: dict[str, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.id, []).append(hit)
    return [DocumentHits(tuple(own[:passages])) for own in found.values()]


def make_snippet(
    query: str, passage: Passage, nearest: int = 0, matches: Sequence[Match] = ()
) -> str:
    """The sentences of a passage that fit a query best, about 200 characters.

    They are those whose words met most of the query's, or that share most words with it, or else
    start at the sentence whose vector, by its number from 1 on, is nearest to the query's.

    >>> make_snippet("연차", Passage("병가다. 연차다.", (), None, ((0, 4), (5, 9))))
    '병가다. 연차다.'
    """
    text, spans = passage.text, sentence_spans(passage)
    if len(text) <= _SNIPPET:
        return text
    words = {word.lower()[: max(2, len(word) * 3 // 4)] for word in _WORD.findall(query)}
    shared = [
        sum(one.cosine for one in matches if start <= one.passage[0] < end)
        if matches
        else sum(word in text[start:end].lower() for word in words)
        for start, end in spans
    ]
    if any(shared):
        first = last = max(range(len(spans)), key=lambda i: shared[i])
    else:
        first = last = min(max(nearest - 1, 0), len(spans) - 1)
    # Grow by what follows, then by what comes before, as far as there is room.
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= _SNIPPET:
        last += 1
    while first > 0 and spans[last][1] - spans[first - 1][0] <= _SNIPPET:
        first -= 1
    start, end = spans[first][0], spans[last][1]
    if end - start > _SNIPPET:  # one long sentence: around the first word that is shared
        places = [one.passage[0] for one in matches if start <= one.passage[0] < end]
        places = places or [text.lower().find(word, start, end) for word in words]
        at = min((place for place in places if place >= 0), default=start)
        start = max(start, min(at - _SNIPPET // 4, end - _SNIPPET))
        end = min(end, start + _SNIPPET)
    before, after = "…" if start > 0 else "", "…" if end < len(text) else ""
    return f"{before}{text[start:end].strip()}{after}"
