"""Mention detection: the longest runs of words that are names, abbreviations or lay names.

Every run of a few words is brought to its key and looked up in the index that the linker has
anyway, so there is no second dictionary to load. A Korean name may carry a particle. Abbreviations
that a text defines itself are found too: "congestive heart failure (CHF)".
"""

import itertools
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError
from ..io.tables import read_rows
from ..terms.expansion import QueryExpander, positive, result
from ..terms.name_index import PLAIN, NameIndex, Vocabulary
from ..terms.normalize import LONGEST, STOP, NormalForms, Normalizer, key_of
from ..terms.segment import SHIPPED
from ..text.aligned import align
from ..text.cleanup import STANDARD
from .rules import read_hanja_words, table_rows
from .typing_errors import TypingErrors, common_words

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
        if not _SHORT.fullmatch(short) or _WHO.fullmatch(short):
            continue
        if any(c.isalpha() and c.isupper() for c in short):
            long_form = _long_form(short, before)
            if long_form:
                found.setdefault(short, long_form)
    return found


# "홍역 의증 (M/72)" says who has it, and one letter stands for too much.
_WHO = re.compile(r"(?i:[a-z]|[mf]\W?\d{1,3}|\d{1,3}\W?[mf])")
_SAID = re.compile(
    "(?:[음함됨임]|시행|확인|결과|소견|정상|의심|배제|추적|관찰|예정|필요|진단|검사|치료|수술)$"
)


def _long_form(short: str, before: str) -> str | None:
    """Give the words before brackets that the short form abbreviates."""
    korean = re.search(r"[가-힣][가-힣 ]*$", before)
    if korean:  # letters cannot be compared across scripts: the last Korean word is taken
        word = korean.group().split()[-1]
        # "소견 없음(TTE)" says how it was seen.
        return word if len(word) > 1 and not _SAID.search(word) else None
    words = re.split(r"[.;:,!?()]\s", before)[-1].split()
    longest = words[-min(len(short) + 5, 2 * len(short)) :]
    joined = " ".join(longest)
    at = _matched(short, joined)
    if at is None:  # the first letters of the last words in any order: myotonic dystrophy (DM)
        letters = sorted(letter for letter in short.lower() if letter.isalnum())
        last = words[-len(letters) :]
        fits = len(letters) > 1 and sorted(word[0].lower() for word in last) == letters
        return " ".join(last) if fits else None
    found = joined[at:].strip()
    return found if len(found) > len(short) and short not in found.split() else None


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
_TOKEN = re.compile(
    r"[가-힣]+|(?<![A-Za-z])[A-Za-z]\.[a-z]{3,}|[A-Za-zÀ-ÖØ-öø-ÿ]+(?:[-'&+][A-Za-z0-9]+)*|\d+(?:\.\d+)?"
)


# A long note is read in parts, so that the deadline is checked before all of it is cleaned.
_PART_LENGTH = 4_000
_BORDERS = (re.compile(r"\n"), re.compile(r"[.;:!?。]\s"), re.compile(r"\s"))
# Letters looked up between two checks of the deadline; a run costs as much as some letters more.
_PORTION, _EACH = 8_000, 20
_LONGEST = 7  # words of a name looked up in text; longer titles are not written into notes
# What may follow a noun without a space; the longest first.
_PARTICLES = sorted(
    str.split(
        "은 는 이 가 을 를 의 에 에서 에는 으로 로 으로는 로는 와 과 도 만 이나 나 이며 며 이고 고 "
        "인 이란 으로서 로서 에게 까지 부터 및 상 시 후 중 성 증 증상 소견 의심 진단 환자 있음"
        " 없음 의증 "
        "에도 이라 라고 이라고 으로도 이었음 였음 임 이고 이었으나 였으나 까지는 보다 보다는"
        " 같은 처럼 등 등의 함 하고 하며 하여 하는 하심 했음 했다 하였음"
    ),
    key=len,
    reverse=True,
)
_PARTICLE_SET = frozenset(_PARTICLES)
_PARTICLE_LENGTHS = sorted({len(particle) for particle in _PARTICLES}, reverse=True)
# Particles that are never the end of a name.
_GRAMMAR = re.compile(
    r"(?:은|는|을|를|에|에서|에는|으로|로|와|과|도|이며|이고|이나|까지|부터|에도|으로는|로는)$"
)
_PART = re.compile(r"[^,/\s](?:[^,/]*[^,/\s])?")  # an item between commas and slashes
_LOOK = 80  # characters after a name in which a result may stand
# White space stays as it is: no name goes on in the next line or cell.
_STEPS = tuple(step for step in STANDARD if step != "spaces")
# A dash with a space on either side is between two things: "pain Rt - adhesive capsulitis".
_GAP = re.compile(r"(?!\s-\s)[ \xa0\-·/'’,()]{0,3}")
# "fx.," and "Rt. ": the point of an abbreviation does not end a name.
_DOTTED_GAP = re.compile(r"\.?(?!\s-\s)[ \xa0\-·/'’,()]{0,3}")
_DOTTED = frozenset(
    str.split(
        "fx frx ca rt lt prox dist ant post med lat comp pul inf sup mod mets meta bil lap chr"
        " ac ext int esoph"
    )
)
# Words about a side or a degree, which no name of a table needs.
_DROPPED = frozenset(
    str.split(
        "comminuted displaced nondisplaced rt lt right left both bilateral bilat "
        "우측 좌측 양측 오른쪽 왼쪽 양쪽"
    )
)
# How a bone is broken, which tables leave to another digit.
_BROKEN = re.compile("(?:분쇄|개방성?|폐쇄성?|전위성?|비전위|복합|단순|선상|함몰) ?골절")
_AND = re.compile(r"([A-Za-z]{4,})(?:\s+(?:and|or|&)\s+|\s?/\s?)$", re.IGNORECASE)
# Nouns that tables put first: "injury of ureter".
_HEADS = frozenset(
    str.split(
        "injury injuries rupture tear fracture dislocation subluxation contusion laceration atresia"
        " stenosis stricture occlusion obstruction perforation abscess hemorrhage cyst ulcer"
        " atrophy prolapse torsion thrombosis embolism insufficiency paralysis palsy malformation"
        " anomaly agenesis deficiency dysfunction hyperplasia hypertrophy necrosis calculus"
        " neoplasm malrotation"
    )
)
# "6 목", "1 Open": how tables name the digits of a code.
_NUMBERED = re.compile(r"\d [^\W\d]+$")
_CAPITALS = re.compile(r"[A-Z]")
_SMALL = re.compile(r"[a-z]")


@dataclass(frozen=True)
class MentionSpan:
    """A span of a text that is a mention; `by` says what found it."""

    start: int
    end: int
    text: str
    by: str = "dictionary"  # or "abbreviation", "result", "phrase", "typing error", "tagger"
    query: str = ""  # what to link instead of the text: "HBsAg 양성" for the HBsAg of "HBsAg(+)"

    @property
    def to_link(self) -> str:
        """The text to link."""
        return self.query or self.text


# The mentions of a note, and up to where there was time to look for them; None is all of it.
FoundMentions = tuple[list[MentionSpan], int | None]


_KINDS = ("alone", "word", "caps", "part")


@dataclass(frozen=True)
class OrdinaryWords:
    """Words that are no diagnosis where they stand alone; see `tables/ordinary.tsv`."""

    alone: frozenset[str]
    words: frozenset[str]
    caps: frozenset[str]
    part: "re.Pattern[str]"

    @classmethod
    def open(cls, *folders: Path) -> "OrdinaryWords":
        """Read the shipped table, extended by those in other folders."""
        kinds: dict[str, set[str]] = {name: set() for name in _KINDS}
        for kind, names in table_rows("ordinary.tsv", ("kind", "words"), folders):
            if kind not in kinds:
                raise DataError(
                    f"ordinary.tsv has the kind {kind}; expected one of {', '.join(_KINDS)}. "
                    "Correct the table."
                )
            kinds[kind].update(names.split("|"))
        alone = frozenset(map(key_of, kinds["alone"]))
        part = "|".join(map(re.escape, sorted(kinds["part"], key=len, reverse=True)))
        follows = re.compile(
            rf"(?:'s)?[ -]?(?:{part or '(?!)'})(?![A-Za-z])(?! finger)", re.IGNORECASE
        )
        return cls(alone, frozenset(kinds["word"]), frozenset(kinds["caps"]), follows)


class MentionFinder:
    """Finds mentions by a lexicon's keys and the reader's tables."""

    def __init__(
        self,
        indexes: Sequence[NameIndex],
        normalizer: Normalizer,
        expander: QueryExpander,
        *,
        vocabulary: Vocabulary | None = None,
        ordinary: OrdinaryWords | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take the index of each segment.

        `allowed` tells which concepts may be looked for in running text; None is all of them.
        """
        self._spellings = [index.spelling for index in indexes]
        self._segments = [index.segment for index in indexes]
        self._concepts = [index.segment.concepts for index in indexes]
        self._allowed = allowed
        self._normalizer, self._expander = normalizer, expander
        self._ordinary = ordinary or OrdinaryWords.open()
        self._vocabulary = vocabulary
        self._known_word = lru_cache(maxsize=100_000)(self._is_word)
        self._typed = lru_cache(maxsize=100_000)(self._typed_wrongly)
        self._spelled = lru_cache(maxsize=20_000)(self._spelled_out)
        self._looked_up = lru_cache(maxsize=200_000)(self._look_up)

    def find(
        self, note: str, defined: Mapping[str, str] | None = None, deadline: Deadline = NEVER
    ) -> FoundMentions:
        """Give the mentions of a note in order, none overlapping; offsets are the note's own."""
        found: list[MentionSpan] = []
        shouted = _is_shouted(note)
        for at, text in note_parts(note):
            spans, cut = self._find_in(text, defined or {}, deadline, shouted)
            found += [replace(one, start=one.start + at, end=one.end + at) for one in spans]
            if cut is not None:
                return found, at + cut
        return found, None

    def _find_in(
        self, note: str, defined: Mapping[str, str], deadline: Deadline, shouted: bool
    ) -> FoundMentions:
        if deadline.passed():
            return [], 0
        aligned = align(note, _STEPS)
        text = read_hanja_words(aligned.text)
        kept: list[MentionSpan] = []
        cut = None
        for tries in _portions(self._runs(text)):
            if deadline.passed():
                cut = aligned.starts[tries[0].start]
                break
            kept += self._results(tries, text)
            kept += self._known(tries, defined, shouted)
        known = {(one.start, one.end) for one in kept}
        kept = [one for one in kept if not _is_list(one, known)]
        found = []
        chosen = [
            one for one in longest(kept, len(text)) if not self._ordinary.part.match(text, one.end)
        ]
        for one in longest([*chosen, *self._coordinated(chosen, text)], len(text)):
            start, end = aligned.span(one.start, one.end)
            query = one.query or ("" if one.text == note[start:end] else one.text)
            found.append(replace(one, start=start, end=end, text=note[start:end], query=query))
        return found, cut

    def _runs(self, text: str) -> Iterator[MentionSpan]:
        """Give every run of up to seven words that names have, also without a last particle."""
        tokens = list(_TOKEN.finditer(text))
        known = [self._known_word(token.group()) for token in tokens]
        for i, first in enumerate(tokens):
            if not known[i] or _is_unit(first, text):
                continue
            last_end, before = first.start(), ""
            for j in range(i, min(i + _LONGEST, len(tokens))):
                token = tokens[j]
                if j > i:
                    gap = _DOTTED_GAP if before.casefold() in _DOTTED else _GAP
                    if not known[j] or not gap.fullmatch(text, last_end, token.start()):
                        break
                if token.end() - first.start() > LONGEST:
                    break  # no name is that long
                last_end, before = token.end(), token.group()
                if j > i and len(token.group()) == 1 and text[last_end : last_end + 1] == "/":
                    break  # "Pt c/o"
                if j > i and _glued(token, tokens[j - 1]):
                    continue  # the particle of "depression에"
                # "gastric ca.": the point is part of the abbreviation.
                end = last_end + (
                    text[last_end : last_end + 1] == "." and before.casefold() in _DOTTED
                )
                yield MentionSpan(first.start(), end, text[first.start() : end])
                for end in _before_particle(token):
                    yield MentionSpan(first.start(), end, text[first.start() : end])

    def _is_word(self, word: str) -> bool:
        """Tell whether names may have a word; of Korean, whose words have no borders, all may."""
        if not word.isascii() or self._vocabulary is None or len(word) < 3 or word.isdigit():
            return True
        if not word[1:].islower():
            return True  # what looks like a short form may be one that the note explains
        if word.casefold() in STOP or self._expander.abbreviations.expand(word):
            return True
        form = self._normalizer.form(word)
        known = any(part in self._vocabulary for part in form.core.split())
        return known or form.key in self._expander.synonyms or bool(self._typed(word))

    @cached_property
    def _typing_errors(self) -> TypingErrors:
        names = (text for segment in self._segments for text in segment.texts)
        return TypingErrors(itertools.chain(names, clinical_keys()))

    def _typed_wrongly(self, word: str) -> str:
        """Give the name that a word is with one typing error, or "" where it is a known word."""
        name = self._typing_errors.name_of(word)
        known = self._vocabulary is not None and word.casefold() in self._vocabulary
        known = known or key_of(word) in self._ordinary.alone
        if not name or known or word.casefold() in common_words():
            return ""
        form = self._normalizer.form(name)
        return name if self._is_name(name, form) and self._is_worth(name, form) else ""

    def _results(self, tries: Sequence[MentionSpan], text: str) -> Iterator[MentionSpan]:
        """Give the runs that are tests with a result, where the lexicon has a name for it."""
        given = [
            one
            for one in tries
            if _may_be_signed(text, one.end) and key_of(one.text) not in self._ordinary.alone
        ]
        given = [one for one in given if result(one.text, text[one.end : one.end + _LOOK])]
        forms = [self._normalizer.form(positive(one.text)) for one in given]
        named = self._has([form.key for form in forms], plain=True)
        for one, form, known in zip(given, forms, named, strict=True):
            # Or for a meaning that the tables give.
            meanings = map(self._normalizer.form, self._expander.synonyms.get(form.key, ()))
            if known or any(self._has([meaning.core_key for meaning in meanings])):
                yield MentionSpan(one.start, one.end, one.text, "result", positive(one.text))

    def _known(
        self, tries: Sequence[MentionSpan], defined: Mapping[str, str], shouted: bool
    ) -> Iterator[MentionSpan]:
        for one in tries:
            if one.text in defined or self._abbreviates(one.text, shouted):
                yield replace(one, by="abbreviation")
                continue
            how = self._looked_up(one.text)
            if how == "name":
                yield one
            elif how:
                yield replace(one, by="phrase", query=how)
            elif typed := self._typed(one.text):
                yield replace(one, by="typing error", query=typed)

    def _look_up(self, text: str) -> str:
        """Say how a run is known: "name", another wording that is one, or "" for not at all."""
        form = self._normalizer.form(text)
        # "ureter injury" is the table's "injury of ureter".
        turned = "," not in text and text.rpartition(" ")[2].casefold() in _HEADS
        if self._is_name(text, form, bag=turned):
            return "name" if self._is_worth(text, form) else ""
        spelled = self._spelled(text)
        if spelled:
            form = self._normalizer.form(spelled)
            if self._is_name(spelled, form, bag=True) and self._is_worth(spelled, form):
                return spelled
        return ""

    def _is_name(self, text: str, form: NormalForms, *, bag: bool = False) -> bool:
        if form.key in self._expander.synonyms or form.key in self._expander.sample:
            return True
        if self._finds(form.key, plain=True):
            return True
        if not _whole(text):
            return False
        if bag and " " in form.bag and text.isascii() and self._finds(form.bag):
            return True
        return self._finds(form.core_key)

    def _finds(self, key: str, *, plain: bool = False) -> bool:
        """Tell whether a concept that may be looked for has a name with this key."""
        for spelling, concepts in zip(self._spellings, self._concepts, strict=True):
            for row, level in spelling.find(key):
                if plain and level != PLAIN:
                    continue
                if self._allowed is None or self._allowed[concepts[row]]:
                    return True
        return False

    def _spelled_out(self, text: str) -> str:
        """Write out the short words of a run, without those for sides: "fx., femur, Rt."."""
        whole = _BROKEN.sub("골절", text)
        if whole != text:
            return whole
        words = re.findall(r"[A-Za-zÀ-ÿ]+(?:[-'&+][A-Za-z0-9]+)*|[가-힣]+|\d+(?:\.\d+)?", text)
        if len(words) < 2 or "/" in text:
            return ""
        out: list[str] = []
        changed = False
        for i, word in enumerate(words):
            if word.casefold() in _DROPPED:
                changed = True
                continue
            meant = (
                self._expander.abbreviations.expand(word)
                if word.isascii() and len(word) < 7
                else ()
            )
            if meant and meant[0].en and not (i == 0 and word.casefold() in STOP):
                out.append(meant[0].en)
                changed = True
            else:
                out.append(word)
        edge = words[0].casefold() in _DROPPED and len(words) == 2
        return " ".join(out) if (changed or "," in text) and len(out) > 1 and not edge else ""

    def _coordinated(self, found: Sequence[MentionSpan], text: str) -> Iterator[MentionSpan]:
        """Give the first part of "hepatic and renal failure", which shares its last word."""
        for one in found:
            words = one.text.split()
            before = _AND.search(text[max(0, one.start - 40) : one.start])
            if before is None or len(words) < 2 or not words[-1].isascii():
                continue
            whole = f"{before.group(1)} {' '.join(words[1:])}"
            if self._looked_up(whole) and not self._looked_up(before.group(1)):
                start = one.start - len(before.group())
                yield MentionSpan(
                    start, start + len(before.group(1)), before.group(1), "phrase", whole
                )

    def _abbreviates(self, text: str, shouted: bool) -> bool:
        if len(text) < 2 or len(text) > 12 or not text.isascii():
            return False
        if not text.isupper() and text.casefold().rstrip(".") in self._ordinary.alone:
            return False
        if text.islower() and (len(text) == 2 or text in self._ordinary.words):
            return False
        if len(text) == 2 and not text.isupper() and text not in ("Af", "Tb"):
            return False
        if shouted and text in self._ordinary.caps:
            return False
        if text.istitle() and text.casefold() in self._ordinary.words:
            return False  # "All", "He"
        return bool(self._expander.meanings(text))

    def _is_worth(self, text: str, form: NormalForms) -> bool:
        """Tell a name from what is too short or too common to be one in running text."""
        key = form.key
        if key.isdigit() or key in self._ordinary.alone or _NUMBERED.match(text):
            return False
        is_lay = key in clinical_keys()
        if self._vocabulary is not None and form.core in self._vocabulary.general and not is_lay:
            return False
        if key.isascii():
            if text.islower() and text in self._ordinary.words:
                return False
            return (
                len(key) >= 4
                or (is_lay and text.isupper() and len(key) >= 2)
                or (is_lay and len(key) == 3)
            )
        # 옴 and 틱 are whole names; `senses.tsv` tells the disease from the verb.
        return len(key) >= 2 or is_lay

    def _has(self, keys: Sequence[str], *, plain: bool = False) -> list[bool]:
        found = np.zeros(len(keys), bool)
        for spelling in self._spellings:
            found |= spelling.contains(keys, plain=plain)
        return [bool(one) for one in found]


@lru_cache(maxsize=1)
def clinical_keys() -> frozenset[str]:
    """Give the keys of the shipped names that clinicians write."""
    rows = read_rows(SHIPPED / "clinical.tsv")
    return frozenset(key_of(name) for row in rows for name in row["names"].split(";"))


def _is_shouted(note: str) -> bool:
    """Tell whether a note is written in capitals."""
    capitals, small = len(_CAPITALS.findall(note[:4000])), len(_SMALL.findall(note[:4000]))
    return capitals > 60 and capitals > 6 * small


def note_parts(note: str) -> Iterator[tuple[int, str]]:
    """Cut a long note between lines, else sentences, else words, each part with its offset.

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


def _is_unit(token: "re.Match[str]", text: str) -> bool:
    """Tell a unit, as in "100mCi" and "4점", from a name."""
    at, word = token.start(), token.group()
    if word in ("M", "F") and re.match(r"\s?/\s?\d", text[token.end() : token.end() + 4]):
        return True  # "M/45"
    follows = at > 0 and text[at - 1].isdigit()
    return follows and not word[0].isdigit() and len(word) <= (4 if word.isascii() else 1)


def _glued(token: "re.Match[str]", before: "re.Match[str]") -> bool:
    """Tell whether a Korean word follows a Latin one without a space, and is a particle."""
    own = token.group()
    return (
        token.start() == before.end()
        and before.group()[-1].isascii()
        and "가" <= own[0] <= "힣"
        and (own in _PARTICLE_SET or bool(_GRAMMAR.fullmatch(own)))
    )


def _before_particle(token: "re.Match[str]") -> Iterator[int]:
    word = token.group()
    if "가" <= word[0] <= "힣":
        for length in _PARTICLE_LENGTHS:
            particle = word[-length:]
            if len(word) - length < 2 or particle not in _PARTICLE_SET:
                continue
            if particle != "증" or not word.endswith("병증"):  # 합병증 is no 합병
                yield token.end() - length


def _may_be_signed(text: str, at: int) -> bool:
    """Tell whether a result may follow; a quick look before the long one."""
    return bool(_RESULT_FOLLOWS.match(text, at))


_RESULT_FOLLOWS = re.compile(
    r"[\s:]{0,3}(?:검사|[(（+\-−–±/]|양성|음성|pos|neg|react|non)", re.IGNORECASE
)


def _is_list(one: MentionSpan, known: AbstractSet[tuple[int, int]]) -> bool:
    """Tell "기침, 가래", which may be negated one by one, from "pneumonia, unspecified"."""
    parts = list(_PART.finditer(one.text))
    return len(parts) > 1 and all(
        (one.start + part.start(), one.start + part.end()) in known for part in parts
    )


def _whole(text: str) -> bool:
    """Tell whether a run begins and ends with words of a name, and is no list."""
    words = re.findall(r"[^\W_]+", text.casefold()) or [""]
    return not (
        "/" in text
        or words[0] in STOP
        or words[-1] in STOP
        or (len(words[-1]) > 2 and bool(_GRAMMAR.search(words[-1])))
        or (len(words[-1]) > 2 and words[-1].endswith("의"))
        or (len(words) > 1 and len(words[-1]) == 1)
        or not _INNER.isdisjoint(words)
    )


# "renal failure in progress" is no failure to progress.
_INNER = STOP - {"of", "the", "and", "의", "및"}


def allowed_concepts(codes: Sequence[str], excluded: tuple[str, ...]) -> NDArray[np.bool_]:
    """Tell of each concept whether its code begins like none excluded. Shape (concepts,)."""
    return np.array([not code.startswith(excluded) for code in codes], bool)


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
