"""Korean morphology by kiwipiepy: the morphemes, nouns and noun phrases of a text.

One analyser is made when it is first needed (about two seconds and 300 MB) and shared by all
threads; it reads about a thousand sentences a second. Offsets are those of the text as given.

Tags are Sejong's: NNG and NNP are nouns, SL foreign words, J… particles, E… endings, VV and VA
stems of verbs and adjectives.
"""

import functools
import importlib.util
import itertools
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import require
from .aligned import Aligned, align
from .cleanup import as_text, clean

NOUNS = ("NNG", "NNP", "SL", "SH")
STEMS = ("VV", "VA", "XR", "MAG")
# What may stand inside a noun phrase other than nouns: prefixes, suffixes, numbers, units.
_INSIDE = (*NOUNS, "XPN", "XSN", "SN", "NNB", "NR")
_ENDS = (*NOUNS, "XSN")
_VERSION = re.compile(r"v(?:er)?\.?\d[\d.]*", re.IGNORECASE)
_LETTER = re.compile(r"[A-Za-z]")
_STEPS = ("surrogates", "compose")
_LONGEST = 4000  # characters that are analysed at once
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
    aligned, kiwi = align(as_text(text), _STEPS), _kiwi()
    return [
        one
        for start, piece in _pieces(aligned.text)
        for one in _found(aligned, kiwi.tokenize(piece), start)
    ]


def morphemes_of(texts: Iterable[str]) -> Iterator[list[Morpheme]]:
    """Split many texts, on all cores; one list a text, in their order."""
    kept: list[tuple[Aligned, int, bool]] = []  # kiwi reads ahead of what has been yielded

    def read() -> Iterator[str]:
        for text in texts:
            aligned = align(as_text(text), _STEPS)
            pieces = list(_pieces(aligned.text))
            for number, (start, piece) in enumerate(pieces, start=1):
                kept.append((aligned, start, number == len(pieces)))
                yield piece

    found: list[Morpheme] = []
    for tokens in _kiwi().tokenize(read()):
        aligned, start, last = kept.pop(0)
        found += _found(aligned, tokens, start)
        if last:
            yield found
            found = []


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

    Nouns with one space between them make one phrase. Of a run of more than `longest` morphemes,
    a title for example, every two neighbouring words are a phrase.

    >>> [phrase.text for phrase in noun_phrases("당뇨병성 신병증 환자의 신장 기능을 검사했다")]
    ['당뇨병성 신병증 환자', '신장 기능', '검사']
    """
    [found] = noun_phrases_of([text], longest=longest)
    return found


def noun_phrases_of(texts: Sequence[str], *, longest: int = 5) -> list[list[Phrase]]:
    """Give the noun phrases of each text; what one text shows of a word holds for all of them.

    >>> [[one.text for one in own] for own in noun_phrases_of(["문장 유사도", "유사도를 잰다"])]
    [['문장 유사도'], ['유사도']]
    """
    return phrases_in(texts, list(morphemes_of(texts)), longest=longest)


def phrases_in(
    texts: Sequence[str], analysed: Sequence[list[Morpheme]], *, longest: int = 5
) -> list[list[Phrase]]:
    """Give the noun phrases of texts whose morphemes are known already."""
    known = frozenset(_suffixed(analysed))
    return [
        _phrases(text, _nominal(text, found, known), longest)
        for text, found in zip(texts, analysed, strict=True)
    ]


def _suffixed(analysed: Iterable[list[Morpheme]]) -> Iterator[str]:
    """Words of a noun and one more syllable that is part of it: 유사도 in 유사도를."""
    for found in analysed:
        for one, following in itertools.pairwise(found):
            whole = one.is_noun and following.tag in _ENDS and one.end == following.start
            if whole and len(following.text) == 1:
                yield one.text + following.text


def _nominal(text: str, found: list[Morpheme], known: frozenset[str]) -> list[Morpheme]:
    """Correct particles that are the last syllable of a noun, and hyphens inside a name.

    도 may be a particle or make a noun (度). It is no particle where the text shows elsewhere that
    it is part of that word, nor at the end of a title, where no predicate follows.
    """
    corrected = list(found)
    for i, one in enumerate(found):
        before = found[i - 1] if i else None
        after = found[i + 1] if i + 1 < len(found) else None
        if before is None or before.end != one.start:
            continue
        if one.tag.startswith("J") and before.is_noun:
            last = one.text == "도" and after is None and not text[one.end :].strip()
            if before.text + one.text in known or last:
                corrected[i] = replace(one, tag="XSN")
        beside = after is not None and after.start == one.end and after.tag in ("SL", "SN")
        if one.text == "-" and before.tag == "SL" and beside:
            corrected[i] = replace(one, tag="SL")
    return corrected


def _phrases(text: str, found: list[Morpheme], longest: int) -> list[Phrase]:
    phrases: list[Phrase] = []
    run: list[Morpheme] = []
    for one in [*found, None]:
        joined = not run or (one is not None and text[run[-1].end : one.start] in ("", " "))
        if one is not None and one.tag in _INSIDE and joined:
            run.append(one)
            continue
        phrases += _of_run(text, run, longest)
        run = [one] if one is not None and one.tag in _INSIDE else []
    return phrases


def _of_run(text: str, run: list[Morpheme], longest: int) -> list[Phrase]:
    """The phrase of a run, or those of neighbouring words where it is too long."""
    words: list[list[Morpheme]] = []
    for one in run:
        if words and words[-1][-1].end == one.start:
            words[-1].append(one)
        else:
            words.append([one])
    whole = _trimmed(text, words)
    if len(whole) <= longest:
        return _phrase(text, whole)
    pairs = [_trimmed(text, [one, following]) for one, following in itertools.pairwise(words)]
    found = [phrase for pair in pairs if len(pair) <= longest for phrase in _phrase(text, pair)]
    both = [phrase for phrase in found if " " in phrase.text]
    return both or list(dict.fromkeys(found))  # two pairs may be trimmed to the same word


def _trimmed(text: str, words: list[list[Morpheme]]) -> list[Morpheme]:
    """Leave out at both ends what no phrase begins or ends with."""
    while words and _is_marginal(text, words[-1], last=True):
        words = words[:-1]
    while words and _is_marginal(text, words[0], last=False):
        words = words[1:]
    run = [one for word in words for one in word]
    # 12 of B12 ends a phrase, 3 of 연구3 does not.
    while run and run[-1].tag not in _ENDS and not _is_attached(run):
        run = run[:-1]
    while run and run[0].tag in ("XSN", "NNB"):
        run = run[1:]
    return run


def _phrase(text: str, run: list[Morpheme]) -> list[Phrase]:
    """The phrase of a trimmed run; none if it has no noun."""
    if not any(one.is_noun for one in run):
        return []
    start, end = run[0].start, run[-1].end
    return [Phrase(text[start:end], start, end, tuple(run))]


def _is_marginal(text: str, word: list[Morpheme], *, last: bool) -> bool:
    """Whether a word adds nothing at the edge of a phrase: 2024년, a lone letter, a last v1.0."""
    written = text[word[0].start : word[-1].end]
    if last and _VERSION.fullmatch(written):
        return True
    return not any(one.is_noun for one in word) or bool(_LETTER.fullmatch(written))


def _is_attached(run: list[Morpheme]) -> bool:
    """Whether a run ends with a number that belongs to the Latin letters before it."""
    return (
        len(run) > 1
        and run[-1].tag == "SN"
        and run[-2].tag == "SL"
        and run[-2].end == run[-1].start
    )


def _kiwi() -> Any:
    with _lock:  # two threads must not both make one
        return _make()


@functools.cache
def _make() -> Any:
    kiwi = require("kiwipiepy", extra="korean", purpose="Korean morphology").Kiwi()
    kiwi.tokenize("가")  # what it prepares on its first call must be ready before threads share it
    return kiwi


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Cut a long text where a sentence, a line or a word ends, with the offsets of its parts.

    The analyser's time grows with the square of a text's length.

    >>> [len(piece) for _, piece in _pieces("배가 왔다. " * 1000)]
    [3996, 3004]
    """
    start = 0
    while len(text) - start > _LONGEST:
        latest = start + _LONGEST
        found = (text.rfind(mark, start, latest) for mark in (".", "\n", " "))
        end = next((at + 1 for at in found if at > start), latest)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _found(aligned: Aligned, tokens: Iterable[Any], offset: int) -> list[Morpheme]:
    return [
        Morpheme(
            token.form,
            *aligned.span(offset + token.start, offset + token.end),
            token.tag.partition("-")[0],  # VA-I is an irregular VA; nothing needs the difference
        )
        for token in tokens
    ]
