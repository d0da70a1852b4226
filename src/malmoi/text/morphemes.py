"""Korean morphology by kiwipiepy: the morphemes, nouns and noun phrases of a text.

One analyser is made when it is first needed (about two seconds and 300 MB) and shared by all
threads; it reads about a thousand sentences a second. Offsets are those of the text as given.

Tags are Sejong's: NNG and NNP are nouns, SL foreign words, J… particles, E… endings, VV and VA
stems of verbs and adjectives.
"""

import functools
import importlib.util
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import require
from .aligned import Aligned, align
from .cleanup import as_text, clean

NOUNS = ("NNG", "NNP", "SL", "SH")
STEMS = ("VV", "VA", "XR", "MAG")
# What may stand inside a noun phrase other than nouns: prefixes, suffixes, numbers, units.
_INSIDE = (*NOUNS, "XPN", "XSN", "SN", "NNB", "NR")
_ENDS = (*NOUNS, "XSN")
_STEPS = ("surrogates", "compose")
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Morpheme:
    """The smallest part of a word with a meaning, and its span in the text.

    `text` is its dictionary form: "왔" is 오 and 었, two morphemes whose spans overlap.
    """

    text: str
    start: int
    end: int
    tag: str

    @property
    def is_noun(self) -> bool:
        """Whether it is a noun or a foreign word."""
        return self.tag in NOUNS


@dataclass(frozen=True, slots=True)
class Phrase:
    """Nouns without a particle between them; `text` is as written."""

    text: str
    start: int
    end: int
    morphemes: tuple[Morpheme, ...]


def available() -> bool:
    """Tell whether kiwipiepy, which does the morphology, is installed."""
    return importlib.util.find_spec("kiwipiepy") is not None


def loaded() -> bool:
    """Tell whether the analyser has been made, so that asking it takes no time."""
    return _make.cache_info().currsize > 0


def morphemes(text: str) -> list[Morpheme]:
    """Split a text into its morphemes.

    >>> [(found.text, found.start, found.end, found.tag) for found in morphemes("배가 왔다")]
    [('배', 0, 1, 'NNG'), ('가', 1, 2, 'JKS'), ('오', 3, 4, 'VV'), ('었', 3, 4, 'EP'), \
('다', 4, 5, 'EF')]
    """
    aligned = align(as_text(text), _STEPS)
    return _found(aligned, _kiwi().tokenize(aligned.text))


def morphemes_of(texts: Iterable[str]) -> Iterator[list[Morpheme]]:
    """Split many texts, on all cores; one list a text, in their order."""
    kept: list[Aligned] = []  # kiwi reads ahead of what has been yielded

    def read() -> Iterator[str]:
        for text in texts:
            kept.append(align(as_text(text), _STEPS))
            yield kept[-1].text

    for tokens in _kiwi().tokenize(read()):
        yield _found(kept.pop(0), tokens)


def forms_of(texts: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """Split many texts, on all cores, into dictionary forms and their tags, without spans.

    >>> list(forms_of(["배를", "여행을"]))
    [[('배', 'NNG'), ('를', 'JKO')], [('여행', 'NNG'), ('을', 'JKO')]]
    """
    for tokens in _kiwi().tokenize(clean(as_text(text), _STEPS) for text in texts):
        yield [(token.form, token.tag.partition("-")[0]) for token in tokens]


def nouns(text: str) -> list[Morpheme]:
    """Give the nouns and foreign words of a text, without particles.

    >>> [noun.text for noun in nouns("배를 타고 여행을 간다")]
    ['배', '여행']
    """
    return [found for found in morphemes(text) if found.is_noun]


def terms(found: Iterable[Morpheme]) -> list[str]:
    """Give the morphemes that carry meaning: nouns in lower case, stems as in a dictionary.

    >>> terms(morphemes("환자는 MRI를 빨리 찍었다"))
    ['환자', 'mri', '빨리', '찍다']
    """
    return [
        one.text + "다" if one.tag in ("VV", "VA") else one.text.lower()
        for one in found
        if one.tag in NOUNS or one.tag in STEMS
    ]


def noun_phrases(text: str, *, longest: int = 5) -> list[Phrase]:
    """Give the runs of nouns in a text, without particles or endings.

    Nouns with one space between them make one phrase. A run of more than `longest` morphemes is
    left out: it is a list or a title.

    >>> [phrase.text for phrase in noun_phrases("당뇨병성 신병증 환자의 신장 기능을 검사했다")]
    ['당뇨병성 신병증 환자', '신장 기능', '검사']
    """
    phrases: list[Phrase] = []
    run: list[Morpheme] = []
    for one in [*morphemes(text), None]:
        joined = not run or (one is not None and text[run[-1].end : one.start] in ("", " "))
        if one is not None and one.tag in _INSIDE and joined:
            run.append(one)
            continue
        phrases += _phrase(text, run, longest)
        run = [one] if one is not None and one.tag in _INSIDE else []
    return phrases


def _phrase(text: str, run: list[Morpheme], longest: int) -> list[Phrase]:
    """Trim a run to a phrase; none if nothing is left or it is too long."""
    while run and run[-1].tag not in _ENDS:
        run = run[:-1]
    while run and run[0].tag in ("XSN", "NNB"):
        run = run[1:]
    if not any(one.is_noun for one in run) or len(run) > longest:
        return []
    start, end = run[0].start, run[-1].end
    return [Phrase(text[start:end], start, end, tuple(run))]


def _kiwi() -> Any:
    with _lock:  # two threads must not both make one
        return _make()


@functools.cache
def _make() -> Any:
    kiwi = require("kiwipiepy", extra="korean", purpose="Korean morphology").Kiwi()
    kiwi.tokenize("가")  # what it prepares on its first call must be ready before threads share it
    return kiwi


def _found(aligned: Aligned, tokens: Iterable[Any]) -> list[Morpheme]:
    return [
        # An irregular stem's tag has a second part (VA-I); nothing here needs the difference.
        Morpheme(token.form, *aligned.span(token.start, token.end), token.tag.partition("-")[0])
        for token in tokens
    ]
