"""Keywords: the phrases of a document that are nearest to the whole of it, and not to each other.

Candidates are noun phrases: in Korean by morphology, so that no particle dangles; in English runs
of words between stop words, verbs and signs. Mixed documents have both, and phrases that mix.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..encoder import TextEncoder
from ..errors import DataError, OptionError
from ..morphemes import noun_phrases
from ..pooling import Floats, normalize
from .stopwords import STOPWORDS

_HANGUL = re.compile("[가-힣]")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_ENGLISH = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:['’-][A-Za-z0-9]+)*|[^\sA-Za-z]")
# Endings of words that are no nouns; a chunk ends before them. There is no English tagger here.
_NOT_NOUN = re.compile(r".{3,}(?:ly|ing|ed|ize|izes|ise|ises)$")
_LONGEST = 3  # words of an English phrase
_CANDIDATES = 512  # the earliest phrases of a long document are enough to choose from


@dataclass(frozen=True, slots=True)
class Keyword:
    """A phrase, how near it is to its document, and how often it stands there."""

    text: str
    score: float
    count: int


def keywords(
    encoder: TextEncoder,
    document: str,
    *,
    top: int = 10,
    diversity: float = 0.3,
    stopwords: frozenset[str] = STOPWORDS,
) -> list[Keyword]:
    """Give the phrases that tell best what a document is about, best first.

    `diversity` from 0 to 1 is how much a phrase loses by its likeness to those already chosen
    (maximal marginal relevance). A document without a noun phrase has no keywords.
    """
    if top < 1:
        raise OptionError(f"top is {top}; expected 1 or more. Ask for at least one keyword.")
    if not 0 <= diversity <= 1:
        raise OptionError(f"diversity is {diversity}; expected 0 to 1. Try 0.3.")
    if not document.strip():
        raise DataError("the document is empty; expected text. Check the file.")
    counts = candidates(document, stopwords=stopwords)
    if not counts:
        return []
    phrases = list(counts)[:_CANDIDATES]
    vectors = normalize(encoder.encode(phrases))
    whole = normalize(encoder.encode([document], on_long="windows"))[0]
    nearness = vectors @ whole
    return [
        Keyword(phrases[i], float(nearness[i]), counts[phrases[i]])
        for i in choose_diverse(vectors, nearness, top, diversity)
    ]


def choose_diverse(vectors: Floats, nearness: Floats, top: int, diversity: float) -> list[int]:
    """Choose rows one by one, each by its nearness less its likeness to those chosen before."""
    chosen: list[int] = []
    likeness = np.zeros(len(vectors), dtype=np.float32)
    worth = nearness.copy()
    for _ in range(min(top, len(vectors))):
        best = int(np.argmax(worth))
        chosen.append(best)
        likeness = np.maximum(likeness, vectors @ vectors[best])
        worth = (1 - diversity) * nearness - diversity * likeness
        worth[chosen] = -np.inf
    return chosen


def candidates(document: str, *, stopwords: frozenset[str] = STOPWORDS) -> dict[str, int]:
    """Give the noun phrases of a document in their order, and how often each stands there.

    >>> list(candidates("당뇨병 환자의 혈당을 검사했다. It had a diabetic nephropathy."))
    ['당뇨병 환자', '혈당', '검사', 'diabetic nephropathy', 'diabetic', 'nephropathy']
    """
    found: dict[str, tuple[str, int]] = {}
    for sentence in _SENTENCE.split(document):
        phrases = _korean(sentence) if _HANGUL.search(sentence) else _english(sentence, stopwords)
        for phrase in phrases:
            key = phrase.casefold()
            if _stands(phrase, stopwords):
                shown, count = found.get(key, (phrase, 0))
                found[key] = (shown, count + 1)
    return dict(found.values())


def _korean(sentence: str) -> Iterator[str]:
    """Noun phrases by morphology; foreign words stand in them as nouns do."""
    for phrase in noun_phrases(sentence):
        yield phrase.text


def _english(sentence: str, stopwords: frozenset[str]) -> Iterator[str]:
    run: list[str] = []
    for token in [*_ENGLISH.findall(sentence), "."]:
        plain = token.casefold()
        if token[0].isalpha() and plain not in stopwords and not _NOT_NOUN.match(plain):
            run.append(token)
            continue
        # Verbs cannot be told from nouns here ("databases store vectors"), so all parts of a run
        # are candidates, and nearness to the document chooses among them.
        for length in range(min(len(run), _LONGEST), 0, -1):
            for start in range(len(run) - length + 1):
                yield " ".join(run[start : start + length])
        run = []


def _stands(phrase: str, stopwords: frozenset[str]) -> bool:
    """A phrase of stop words alone, of digits or of one letter says nothing."""
    words = phrase.casefold().split()
    if all(word in stopwords for word in words) or phrase.casefold() in stopwords:
        return False
    return any(letter.isalpha() for letter in phrase) and (
        len(phrase) > 1 or bool(_HANGUL.match(phrase))
    )


def best_sentences(texts: Sequence[str], vectors: Floats, centre: Floats, count: int) -> list[str]:
    """Give the texts nearest to a centre, nearest first."""
    order = np.argsort(-(vectors @ centre), kind="stable")[:count]
    return [texts[i] for i in order]
