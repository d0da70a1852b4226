"""What a search gives: passages with their scores, gathered by document, and snippets of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..documents import Passage
from .store import PassageKey, Value, sentence_spans

_SNIPPET = 200  # characters
_WORD = re.compile(r"[0-9A-Za-z]+|[가-힣]+")


@dataclass(frozen=True)
class Hit:
    """A passage that was found; the higher the score, the better it fits.

    Attributes:
        id: of its document.
        text: of the passage; a short document is one passage.
        score: that of the last stage that scored it.
        metadata: of its document.
        scores: of all stages: "dense" is a cosine, "keyword" BM25, "fused" both standardised and
            added, "rerank" the reranker's.
        title: of its document.
        headings: the headings above the passage, outermost first.
        page: on which the passage starts, where the document has pages.
        source: where the document is from.
        type: of the file: "pdf", "docx", ...
        modified: when the file was changed, in seconds since the epoch.
        number: of the passage in its document, from 0.
        snippet: the part of the text that fits best.
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

    @property
    def document(self) -> str:
        """The id of the document."""
        return self.id

    @property
    def passage(self) -> str:
        """The text of the passage."""
        return self.text

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


def make_snippet(query: str, passage: Passage, nearest: int = 0) -> str:
    """The sentences of a passage that fit a query best, about 200 characters.

    They are those that share most words with the query, or else start at the sentence whose
    vector, by its number from 1 on, is nearest to the query's.

    >>> make_snippet("연차", Passage("병가다. 연차다.", (), None, ((0, 4), (5, 9))))
    '병가다. 연차다.'
    """
    text, spans = passage.text, sentence_spans(passage)
    if len(text) <= _SNIPPET:
        return text
    words = {word.lower()[: max(2, len(word) * 3 // 4)] for word in _WORD.findall(query)}
    shared = [sum(word in text[start:end].lower() for word in words) for start, end in spans]
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
        places = [text.lower().find(word, start, end) for word in words]
        at = min((place for place in places if place >= 0), default=start)
        start = max(start, min(at - _SNIPPET // 4, end - _SNIPPET))
        end = min(end, start + _SNIPPET)
    before, after = "…" if start > 0 else "", "…" if end < len(text) else ""
    return f"{before}{text[start:end].strip()}{after}"
