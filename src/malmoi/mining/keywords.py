"""Keywords: the phrases of a document that are nearest to the whole, and not to each other.

Candidates are noun phrases: in Korean by morphology, so that no particle is left on them; in
English runs of words between stop words, verbs and punctuation. Mixed documents have both.
"""

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..encoders import TextEncoder
from ..errors import DataError, OptionError
from ..io.files import read_lines
from ..runtime.pooling import normalize
from ..text.morphemes import noun_phrases_of
from ..types import Floats

_SHIPPED = read_lines(Path(__file__).parent / "stopwords.txt")
STOPWORDS = frozenset(word for line in _SHIPPED if line[:1] != "#" for word in line.split())


def read_stopwords(path: str | Path | None) -> frozenset[str]:
    """The built-in stop words, changed by a file: one word per line, "-word" removes one.

    Lines that begin with # are comments.
    """
    words = set(STOPWORDS)
    if path is not None:
        for line in read_lines(path):
            word = line.strip().casefold()
            if word.startswith("-") and len(word) > 1:
                words.discard(word[1:].strip())
            elif word and not word.startswith("#"):
                words.add(word)
    return frozenset(words)


_HANGUL = re.compile("[가-힣]")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_ENGLISH = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:['’-][A-Za-z0-9]+)*|[^\sA-Za-z]")
# Endings of words that are not nouns, in place of an English tagger; a phrase ends before them.
_NOT_NOUN = re.compile(r".{3,}(?:ly|ing|ed|ize|izes|ise|ises)$")
_LONGEST = 3  # words in an English phrase
_CANDIDATES = 512  # the earliest phrases of a long document are enough to choose from
_CHOICES = 1_000_000  # sets of phrases that max-sum compares


@dataclass(frozen=True, slots=True)
class Keyword:
    """A phrase, its cosine with the document, and how often it occurs there."""

    text: str
    score: float
    count: int


def keywords(
    encoder: TextEncoder,
    document: str,
    *,
    top: int = 10,
    diversity: float = 0.3,
    max_sum: int = 0,
    stopwords: frozenset[str] = STOPWORDS,
) -> list[Keyword]:
    """The phrases that best describe a document, best first.

    Args:
        diversity: from 0 to 1, how much a phrase loses by its similarity to those already chosen
            (maximal marginal relevance).
        max_sum: instead of that, choose among this many of the nearest phrases those that are least
            similar to each other (KeyBERT's max-sum); 0 for not.

    A document without a noun phrase has no keywords.
    """
    if top < 1:
        raise OptionError(f"top is {top}; expected 1 or more. Ask for at least one keyword.")
    if not 0 <= diversity <= 1:
        raise OptionError(f"diversity is {diversity}; expected 0 to 1. Try 0.3.")
    _check_max_sum(max_sum, top)
    if not document.strip():
        raise DataError("the document is empty; expected text. Give some.")
    counts = candidates(document, stopwords=stopwords)
    if not counts:
        return []
    phrases = list(counts)[:_CANDIDATES]
    vectors = normalize(encoder.encode(phrases))
    whole = normalize(encoder.encode([document], on_long="windows"))[0]
    scores = vectors @ whole
    chosen = (
        choose_max_sum(vectors, scores, top, max_sum)
        if max_sum
        else choose_diverse(vectors, scores, top, diversity)
    )
    return [Keyword(phrases[i], float(scores[i]), counts[phrases[i]]) for i in chosen]


def _check_max_sum(max_sum: int, top: int) -> None:
    if max_sum and max_sum < top:
        raise OptionError(
            f"max_sum is {max_sum}, and {top} keywords are wanted; expected as many phrases or "
            "more to choose from, or 0. Try twice as many as keywords."
        )
    ways = math.comb(max_sum, top)
    if ways > _CHOICES:
        raise OptionError(
            f"{top} of {max_sum} phrases can be chosen in {ways:,} ways; expected "
            f"at most {_CHOICES:,}. Choose a smaller max_sum, or use diversity."
        )


def choose_max_sum(vectors: Floats, scores: Floats, top: int, nearest: int) -> list[int]:
    """Choose the `top` of the nearest rows with the least sum of their similarities.

    >>> rows = np.array([[1, 0], [0.99, 0.14], [0.6, 0.8]], dtype=np.float32)
    >>> choose_max_sum(rows, rows @ rows[0], 2, 3)
    [0, 2]
    """
    best = np.argsort(-scores, kind="stable")[:nearest]
    similarity = vectors[best] @ vectors[best].T
    chosen = np.array(list(itertools.combinations(range(len(best)), min(top, len(best)))))
    sums = np.zeros(len(chosen), dtype=np.float32)
    for a, b in itertools.combinations(range(chosen.shape[1]), 2):
        sums += similarity[chosen[:, a], chosen[:, b]]
    return [int(best[i]) for i in chosen[sums.argmin()]]


def choose_diverse(vectors: Floats, scores: Floats, top: int, diversity: float) -> list[int]:
    """Choose rows one by one, each by its score less its similarity to those chosen before."""
    chosen: list[int] = []
    similarity = np.zeros(len(vectors), dtype=np.float32)
    worth = scores.copy()
    for _ in range(min(top, len(vectors))):
        best = int(np.argmax(worth))
        chosen.append(best)
        similarity = np.maximum(similarity, vectors @ vectors[best])
        worth = (1 - diversity) * scores - diversity * similarity
        worth[chosen] = -np.inf
    return chosen


def candidates(document: str, *, stopwords: frozenset[str] = STOPWORDS) -> dict[str, int]:
    """The noun phrases of a document in their order, and how often each occurs.

    >>> list(candidates("당뇨병 환자의 혈당을 검사했다. It had a diabetic nephropathy."))
    ['당뇨병 환자', '혈당', '검사', 'diabetic nephropathy', 'diabetic', 'nephropathy']
    """
    found: dict[str, tuple[str, int]] = {}
    sentences = _SENTENCE.split(document)
    korean = [sentence for sentence in sentences if _HANGUL.search(sentence)]
    # In a Korean sentence English words count as nouns.
    analysed = iter(noun_phrases_of(korean) if korean else [])
    for sentence in sentences:
        phrases = (
            (phrase.text for phrase in next(analysed))
            if _HANGUL.search(sentence)
            else _english(sentence, stopwords)
        )
        for phrase in phrases:
            if _is_meaningful(phrase, stopwords):
                shown, count = found.get(phrase.casefold(), (phrase, 0))
                found[phrase.casefold()] = (shown, count + 1)
    return dict(found.values())


def _english(sentence: str, stopwords: frozenset[str]) -> Iterator[str]:
    run: list[str] = []
    for token in [*_ENGLISH.findall(sentence), "."]:
        plain = token.casefold()
        if token[0].isalpha() and plain not in stopwords and not _NOT_NOUN.match(plain):
            run.append(token)
            continue
        # Verbs cannot be told from nouns here ("databases store vectors"), so all parts of a run
        # are candidates, and the cosine with the document chooses among them.
        for length in range(min(len(run), _LONGEST), 0, -1):
            for start in range(len(run) - length + 1):
                yield " ".join(run[start : start + length])
        run = []


def _is_meaningful(phrase: str, stopwords: frozenset[str]) -> bool:
    """False for a phrase of stop words only, of digits, or of a single Latin letter."""
    plain = phrase.casefold()
    if plain in stopwords or all(word in stopwords for word in plain.split()):
        return False
    return any(letter.isalpha() for letter in phrase) and (
        len(phrase) > 1 or bool(_HANGUL.match(phrase))
    )
