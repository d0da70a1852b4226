"""Mention detection: the longest runs of words that are names, abbreviations or lay names.

Every run of a few words is brought to its key and looked up in the index that the linker has
anyway, so there is no second dictionary to load. A Korean name may carry a particle. Abbreviations
that a text defines itself are found too: "congestive heart failure (CHF)".
"""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from ..errors import OptionError
from ..linking.expansion import QueryExpander, positive, result
from ..linking.name_index import NameIndex
from ..linking.normalize import LONGEST, STOP, NormalForms, Normalizer
from ..text.aligned import align

now = time.monotonic


@dataclass(frozen=True)
class Deadline:
    """A time limit, which long work checks between its steps."""

    start: float
    end: float

    @classmethod
    def within(cls, seconds: float | None) -> "Deadline":
        """Give the deadline so many seconds from now; None is no limit.

        >>> Deadline.within(None).passed()
        False
        """
        if seconds is not None and not 0 < seconds < math.inf:
            raise OptionError(
                f"within is {seconds}; expected a number of seconds above 0. "
                "Leave it out for no limit."
            )
        start = now()
        return cls(start, math.inf if seconds is None else start + seconds)

    def half(self) -> "Deadline":
        """Give the deadline for the first half of the work."""
        return Deadline(self.start, (self.start + self.end) / 2)

    def passed(self) -> bool:
        """Tell whether it is time to stop."""
        return now() >= self.end


NEVER = Deadline(0.0, math.inf)


_BRACKETS = re.compile(r"\(([^()]{1,40})\)")
_SHORT = re.compile(r"[A-Za-z0-9][\w/&+.-]{0,9}")


def definitions(text: str) -> dict[str, str]:
    """Find pairs of a long form and its short one in brackets (Schwartz and Hearst 2003).

    >>> definitions("congestive heart failure (CHF)와 심방세동(AF)이 있다")
    {'CHF': 'congestive heart failure', 'AF': '심방세동'}
    >>> definitions("ataxia telangiectasia (A-T), myotonic dystrophy (DM)")
    {'A-T': 'ataxia telangiectasia', 'DM': 'myotonic dystrophy'}
    """
    found: dict[str, str] = {}
    for bracket in _BRACKETS.finditer(text):
        short = re.split(r"[,;:]", bracket.group(1))[0].strip()
        before = text[max(0, bracket.start() - 160) : bracket.start()]
        if _SHORT.fullmatch(short) and any(c.isalpha() and c.isupper() for c in short):
            long_form = _long_form(short, before)
            if long_form:
                found.setdefault(short, long_form)
    return found


def _long_form(short: str, before: str) -> str | None:
    """Give the words before brackets that the short form abbreviates."""
    korean = re.search(r"[가-힣][가-힣 ]*$", before)
    if korean:  # letters cannot be compared across scripts: the last Korean word is taken
        word = korean.group().split()[-1]
        return word if len(word) > 1 else None
    words = re.split(r"[.;:,!?()]\s", before)[-1].split()
    longest = words[-min(len(short) + 5, 2 * len(short)) :]
    joined = " ".join(longest)
    at = _matched(short, joined)
    if at is None:
        return _initials(short, words)
    found = joined[at:].strip()
    return found if len(found) > len(short) and short not in found.split() else None


def _initials(short: str, words: list[str]) -> str | None:
    """Match the first letters of the last words in any order: myotonic dystrophy (DM)."""
    letters = sorted(letter for letter in short.lower() if letter.isalnum())
    last = words[-len(letters) :]
    if len(letters) > 1 and sorted(word[0].lower() for word in last) == letters:
        return " ".join(last)
    return None


def _matched(short: str, text: str) -> int | None:
    """Match a short form's letters from the right; its first must begin a word."""
    at = len(text)
    letters = [letter for letter in short.lower() if letter.isalnum()]
    for i in range(len(letters) - 1, -1, -1):
        at -= 1
        while at >= 0 and (
            text[at].lower() != letters[i] or (i == 0 and at > 0 and text[at - 1].isalnum())
        ):
            at -= 1
        if at < 0:
            return None
    return at


# A slash separates words, for it makes lists ("HTN/DM"); "N/V" is two that are one name together.
_TOKEN = re.compile(r"[가-힣]+|[A-Za-zÀ-ÖØ-öø-ÿ]+(?:[-'&+][A-Za-z0-9]+)*|\d+(?:\.\d+)?")


# A long note is read in parts, so that the deadline is checked before all of it is cleaned.
_PART_LENGTH = 4_000
_BORDERS = (re.compile(r"[.;:!?。]\s"), re.compile(r"\n"), re.compile(r"\s"))
# Letters looked up between two checks of the deadline; a run costs as much as some letters more.
_PORTION, _EACH = 8_000, 20
_LONGEST = 7  # words of a name looked up in text; longer titles are not written into notes
# What may follow a noun without a space; the longest first.
_PARTICLES = sorted(
    str.split(
        "은 는 이 가 을 를 의 에 에서 에는 으로 로 으로는 로는 와 과 도 만 이나 나 이며 며 이고 고 "
        "인 이란 으로서 로서 에게 까지 부터 및 상 시 후 중 성 증 증상 소견 의심 진단 환자 있음 없음"
    ),
    key=len,
    reverse=True,
)
_PART = re.compile(r"[^,/\s](?:[^,/]*[^,/\s])?")  # an item between commas and slashes
_LOOK = 80  # characters after a name in which a result may stand
_GAP = re.compile(r"[ \-·/'’,()]{0,2}")
# Names of a table that are ordinary words in a note.
_ORDINARY = frozenset(
    str.split(
        "other site pain left right normal history male female child alone up down home school "
        "street 기타 부위 왼쪽 오른쪽 정상 환자 남자 여자 검사 진단 치료 수술 상태 병원 증상 사용 "
        "학교 도로 통증 질환 주의 가정"
    )
)


@dataclass(frozen=True)
class MentionSpan:
    """A span of a text that is a mention; `by` says what found it."""

    start: int
    end: int
    text: str
    by: str = "dictionary"  # or "abbreviation", "result", "tagger"
    query: str = ""  # what to link instead of the text: "HBsAg 양성" for the HBsAg of "HBsAg(+)"

    @property
    def to_link(self) -> str:
        """The text to link."""
        return self.query or self.text


@dataclass(frozen=True)
class FoundMentions:
    """The mentions of a note up to `cut`, where there was no time for more; None is all of it."""

    spans: list[MentionSpan]
    cut: int | None


class MentionFinder:
    """Finds mentions by a lexicon's keys and the reader's tables."""

    def __init__(
        self, indexes: Sequence[NameIndex], normalizer: Normalizer, expander: QueryExpander
    ) -> None:
        """Take what a linker has opened."""
        self._spellings = [index.spelling for index in indexes]
        self._normalizer, self._expander = normalizer, expander

    def find(
        self, note: str, defined: Mapping[str, str] | None = None, deadline: Deadline = NEVER
    ) -> FoundMentions:
        """Give the mentions of a note in order, none overlapping; offsets are the note's own."""
        found: list[MentionSpan] = []
        for at, text in note_parts(note):
            part = self._find_in(text, defined or {}, deadline)
            found += [replace(one, start=one.start + at, end=one.end + at) for one in part.spans]
            if part.cut is not None:
                return FoundMentions(found, at + part.cut)
        return FoundMentions(found, None)

    def _find_in(self, note: str, defined: Mapping[str, str], deadline: Deadline) -> FoundMentions:
        if deadline.passed():
            return FoundMentions([], 0)
        aligned = align(note)
        kept: list[MentionSpan] = []
        cut = None
        for tries in _portions(_runs(aligned.text)):
            if deadline.passed():
                cut = aligned.starts[tries[0].start]
                break
            kept += self._results(tries, aligned.text)
            kept += self._known(tries, defined)
        known = {(one.start, one.end) for one in kept}
        kept = [one for one in kept if not _is_list(one, known)]
        found = []
        for one in longest(kept, len(aligned.text)):
            start, end = aligned.span(one.start, one.end)
            found.append(replace(one, start=start, end=end, text=note[start:end]))
        return FoundMentions(found, cut)

    def _results(self, tries: Sequence[MentionSpan], text: str) -> Iterator[MentionSpan]:
        """Give the runs that are tests with a result, where the lexicon has a name for it."""
        given = [one for one in tries if result(one.text, text[one.end : one.end + _LOOK])]
        forms = [self._normalizer.form(positive(one.text)) for one in given]
        named = self._has([form.key for form in forms], plain=True)
        for one, form, known in zip(given, forms, named, strict=True):
            if known or self._has_meaning(form):
                yield MentionSpan(one.start, one.end, one.text, "result", positive(one.text))

    def _has_meaning(self, form: NormalForms) -> bool:
        """Tell whether the lexicon has a meaning that the tables give for a name."""
        meanings = self._expander.synonyms.get(form.key, ())
        return any(self._has([self._normalizer.form(text).core_key for text in meanings]))

    def _known(
        self, tries: Sequence[MentionSpan], defined: Mapping[str, str]
    ) -> Iterator[MentionSpan]:
        forms = [self._normalizer.form(one.text) for one in tries]
        plain = self._has([form.key for form in forms], plain=True)
        core = self._has([form.core_key for form in forms])
        for i, (one, form) in enumerate(zip(tries, forms, strict=True)):
            named = plain[i] or (core[i] and _whole(one.text))
            if one.text in defined or self._abbreviates(one.text):
                yield MentionSpan(one.start, one.end, one.text, "abbreviation")
            elif (
                named or form.key in self._expander.synonyms or form.key in self._expander.sample
            ) and _worth(form):
                yield one

    def _abbreviates(self, text: str) -> bool:
        if len(text) < 2 or (len(text) == 2 and not text.isupper()):
            return False
        return text.isascii() and bool(self._expander.abbreviations.meanings(text))

    def _has(self, keys: Sequence[str], *, plain: bool = False) -> list[bool]:
        found = np.zeros(len(keys), bool)
        for spelling in self._spellings:
            found |= spelling.contains(keys, plain=plain)
        return [bool(one) for one in found]


def note_parts(note: str) -> Iterator[tuple[int, str]]:
    """Cut a long note between sentences, else lines, else words, each part with its offset.

    >>> list(note_parts("기침 있음. " * 2)) == [(0, "기침 있음. " * 2)]
    True
    >>> [len(part) for _, part in note_parts("기침 있음. " * 1000)]
    [3997, 3003]
    """
    at = 0
    while len(note) - at > _PART_LENGTH:
        window = note[at + _PART_LENGTH // 2 : at + _PART_LENGTH]
        ends = (list(border.finditer(window)) for border in _BORDERS)
        last = next((found[-1].end() for found in ends if found), len(window))
        yield at, note[at : at + _PART_LENGTH // 2 + last]
        at += _PART_LENGTH // 2 + last
    yield at, note[at:]


def _portions(tries: Iterator[MentionSpan]) -> Iterator[list[MentionSpan]]:
    """Put runs together, as many as can be looked up in some hundredths of a second."""
    portion: list[MentionSpan] = []
    letters = 0
    for one in tries:
        portion.append(one)
        letters += _EACH + len(one.text)
        if letters > _PORTION:
            yield portion
            portion, letters = [], 0
    if portion:
        yield portion


def _runs(text: str) -> Iterator[MentionSpan]:
    """Give every run of up to seven words, and those that end before a particle."""
    tokens = list(_TOKEN.finditer(text))
    for i, first in enumerate(tokens):
        last_end = first.start()
        for token in tokens[i : i + _LONGEST]:
            if token is not first and not _GAP.fullmatch(text, last_end, token.start()):
                break
            if token.end() - first.start() > LONGEST:
                break  # no name is that long
            last_end = token.end()
            yield MentionSpan(first.start(), last_end, text[first.start() : last_end])
            for end in _before_particle(token):
                yield MentionSpan(first.start(), end, text[first.start() : end])


def _before_particle(token: "re.Match[str]") -> Iterator[int]:
    word = token.group()
    if "가" <= word[0] <= "힣":
        for particle in _PARTICLES:
            if word.endswith(particle) and len(word) - len(particle) >= 2:
                yield token.end() - len(particle)


def _is_list(one: MentionSpan, known: AbstractSet[tuple[int, int]]) -> bool:
    """Tell "기침, 가래", which may be negated one by one, from "pneumonia, unspecified"."""
    parts = list(_PART.finditer(one.text))
    return len(parts) > 1 and all(
        (one.start + part.start(), one.start + part.end()) in known for part in parts
    )


def _whole(text: str) -> bool:
    """Tell whether a run begins and ends with words of a name, and is no list."""
    words = text.casefold().split()
    return not (
        "/" in text
        or words[0] in STOP
        or words[-1] in STOP
        or (len(words[-1]) > 2 and words[-1].endswith(("의", "을", "를", "에서", "으로")))
    )


def _worth(form: NormalForms) -> bool:
    """Tell a name from what is too short or too common to be one in running text."""
    key = form.key
    if form.plain in _ORDINARY or key.isdigit():
        return False
    return len(key) >= (4 if key.isascii() else 2)


def longest(found: Iterable[MentionSpan], length: int) -> list[MentionSpan]:
    """Keep the longest of overlapping spans, of equals the earlier or first; in order.

    `length` is that of the text they lie in.
    """
    kept: list[MentionSpan] = []
    taken = bytearray(length)  # a mark a letter, so that many mentions are not compared in pairs
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if taken.find(1, one.start, one.end) < 0:
            taken[one.start : one.end] = b"\1" * (one.end - one.start)
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)
