"""Topics: groups of texts with names, saved so that new texts can be assigned later.

A name consists of the terms that are frequent in a group and rare in the others (class-based
TF-IDF): noun phrases, and words counted by morphemes, so that 환불이 and 환불을 are one term.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..encoders import TextEncoder
from ..errors import DataError
from ..io.files import writing
from ..runtime.pooling import normalize
from ..text import morphemes
from ..types import Floats
from .clusters import Labels, assign, centres_of, number_by_size
from .keywords import STOPWORDS

_WORD = re.compile(r"[A-Za-z]{2,}|[가-힣]{2,}")
OTHERS = "others"  # the name of texts in no topic
_TERMS = 5
_FREQUENT = 1.5
_SENTENCES = 3
_BLOCK = 5_000  # texts whose morphemes are held at once


@dataclass(frozen=True)
class Topic:
    """A group of texts: its number, size, typical terms, and the texts nearest to its centre."""

    number: int
    size: int
    terms: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def name(self) -> str:
        """The terms in one line."""
        return ", ".join(self.terms) or (self.sentences[0] if self.sentences else "")


@dataclass(frozen=True)
class Topics:
    """Named groups with their centres (k, dim) and the model that made the vectors."""

    model: str
    topics: tuple[Topic, ...]
    centres: Floats
    least: float

    def assign(self, encoder: TextEncoder, texts: Sequence[str]) -> tuple[Labels, Floats]:
        """The topic of each text, or -1 where none is near, and the cosine with its centre."""
        if encoder.dimension != self.centres.shape[1]:
            raise DataError(
                f"the topics were made with {self.model} of {self.centres.shape[1]} dimensions, "
                f"and {encoder.name} has {encoder.dimension}; expected the same. "
                f"Name the model with --model {self.model}"
            )
        return assign(normalize(encoder.encode(list(texts))), self.centres, least=self.least)

    def save(self, path: str | Path) -> None:
        """Write the topics as JSON."""
        data = {
            "malmoi": "topics",
            "model": self.model,
            "least": self.least,
            "topics": [asdict(topic) for topic in self.topics],
            "centres": [[round(float(value), 6) for value in row] for row in self.centres],
        }
        with writing(path) as file:
            file.write(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> "Topics":
        """Read topics that `save` wrote."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
            topics = tuple(
                Topic(one["number"], one["size"], tuple(one["terms"]), tuple(one["sentences"]))
                for one in data["topics"]
            )
            centres = np.array(data["centres"], dtype=np.float32).reshape(len(topics), -1)
            return cls(str(data["model"]), topics, centres, float(data["least"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"cannot read {path} as topics ({type(error).__name__}); expected JSON that "
                "malmoi cluster --save wrote. Run that command again."
            ) from error


def name_topics(
    texts: Sequence[str], vectors: Floats, labels: Labels, *, stopwords: frozenset[str] = STOPWORDS
) -> list[Topic]:
    """Describe every group by its terms and its nearest texts, sorted by number."""
    counts = _terms_by_group(texts, labels, stopwords)
    centres = centres_of(vectors, labels)
    topics = []
    for group in sorted(counts):
        rows = np.flatnonzero(labels == group)
        near = rows[np.argsort(-(vectors[rows] @ centres[group]), kind="stable")[:_SENTENCES]]
        terms = typical_terms(counts, group)
        topics.append(Topic(group, len(rows), terms, tuple(texts[row] for row in near)))
    return topics


def make_topics(
    model: str, texts: Sequence[str], vectors: Floats, labels: Labels, *, least: float
) -> Topics:
    """Name groups, renumbered without gaps, the largest first, and keep their centres."""
    again = number_by_size(labels)
    topics = name_topics(texts, vectors, again)
    return Topics(model, tuple(topics), centres_of(vectors, again), least)


def typical_terms(
    counts: dict[int, Counter[str]], group: int, *, top: int = _TERMS
) -> tuple[str, ...]:
    """The terms of highest class-based TF-IDF in a group.

    Counts are raised to the power of 1.5: terms of few texts of a group seldom belong together.
    A phrase takes the place of its words where it is nearly as frequent (once is chance), and what
    has a word of a term that is chosen already is left out.

    >>> counts = {0: Counter({"환불": 3, "주문": 1}), 1: Counter({"배송": 3, "주문": 2})}
    >>> typical_terms(counts, 0, top=1)
    ('환불',)
    >>> typical_terms({0: Counter({"문장": 4, "유사도": 4, "문장 유사도": 3})}, 0)
    ('문장 유사도',)
    >>> counts = {0: Counter({"일정": 9, "보고서 제출": 2}), 1: Counter({"일정": 9, "배송": 9})}
    >>> typical_terms(counts, 0, top=1)
    ('일정',)
    """
    totals: Counter[str] = Counter()
    for own in counts.values():
        totals.update(own)
    average = sum(totals.values()) / max(len(counts), 1)
    size = max(sum(counts[group].values()), 1)
    worth = {
        term: count**_FREQUENT / size * math.log(1 + average / totals[term]) * _telling(term)
        for term, count in counts[group].items()
        if count > 1 or " " not in term
    }
    chosen: list[str] = []
    for term in sorted(worth, key=lambda term: (-worth[term], term)):
        words = set(term.split())
        if len(chosen) < top and not any(words & set(one.split()) for one in chosen):
            chosen.append(term)
    return tuple(chosen)


def _telling(term: str) -> float:
    """How much a term says: a phrase, rarer than its words, more, a syllable or a letter less."""
    return 2.0 if " " in term else 0.1 if len(term) == 1 else 1.0


def _terms_by_group(
    texts: Sequence[str], labels: Labels, stopwords: frozenset[str]
) -> dict[int, Counter[str]]:
    groups = np.unique(labels[labels >= 0]).tolist()
    counts: dict[int, Counter[str]] = {group: Counter() for group in groups}
    for terms, label in zip(_terms(texts), labels.tolist(), strict=True):
        if label >= 0:
            counts[label].update(term for term in terms if term not in stopwords)
    return counts


def _terms(texts: Sequence[str]) -> Iterator[list[str]]:
    """Nouns and noun phrases by morphology, or plain words where kiwipiepy is not installed."""
    if not morphemes.available():
        yield from ([word.lower() for word in _WORD.findall(text)] for text in texts)
        return
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        analysed = list(morphemes.morphemes_of(block))
        phrases = morphemes.phrases_in(block, analysed, longest=4)
        for found, own in zip(analysed, phrases, strict=True):
            joined = [phrase.text.lower() for phrase in own if " " in phrase.text]
            yield [one.text.lower() for one in found if one.is_noun] + joined
