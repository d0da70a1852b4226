"""A second reader of status: a linear model over the words and cues around a mention.

The tables (`context`) say what they were written for; this model has learnt from marked notes what
such places usually mean (`python -m research.notes_reader`). Where both agree, a status is sure.
Where they disagree, the safer one counts, and the mention is marked as disputed. Words are hashed:
the file is a table of weights, and nothing of any note is in it.
"""

import bisect
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .context import Assertion, NoteContext
from .rules import (
    FAMILY,
    HISTORICAL,
    HYPOTHETICAL,
    NEGATED,
    OTHER,
    PATIENT,
    POSSIBLE,
    PRESENT,
    Reason,
)
from .scope import MASK

# What a place may mean; the first five are the patient's.
LABELS = (PRESENT, NEGATED, POSSIBLE, HYPOTHETICAL, HISTORICAL, FAMILY, OTHER)
ROWS = 1 << 16  # of the table of weights
WEIGHTS = Path(__file__).parent / "second_reader.npz"
DISPUTED = "disputed"
# How sure the model must be to change what the tables say; more to negate a finding.
SURE, SURE_NEGATED = 0.7, 0.9
_TOKEN = re.compile(rf"[가-힣]+|[a-z]+|0+|{MASK}+|[^\w\s]|[\u4e00-\u9fff]")
_MASKS = re.compile(f"{MASK}+")
_DIGIT = re.compile(r"\d")
_STOP = re.compile(r"[.;](?=\s|$)|->|→")
_HEAD = re.compile(r"^\W*([a-z가-힣][a-z가-힣 ./]{0,20}?)[ \t]*[:>)\]】]", re.MULTILINE)
_WIDE, _TOKENS, _ABOVE, _REACH = 70, 9, 600, 300
_STEPS = (2, 6, 14, 30)  # characters
Mark = tuple[int, int, str]  # the start and end of a cue or person, and what it is


@dataclass(frozen=True)
class Place:
    """A mention in its note."""

    start: int
    end: int
    section: str
    chronic: bool
    symptom: bool


def features(context: NoteContext, places: Sequence[Place]) -> list[list[str]]:
    """Give what is seen around each place: words by side and rank, cues by side and distance."""
    # A letter whose small form is longer than itself stays, so that offsets do.
    text = "".join(c.lower() if len(c.lower()) == 1 else c for c in context.hidden)
    text = _DIGIT.sub("0", text)
    marks = sorted((*span, name) for name, spans in context.landmarks() for span in spans)
    return [list(_seen(text, place, marks)) for place in places]


def _seen(text: str, place: Place, marks: Sequence[Mark]) -> Iterator[str]:
    begin = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.end)
    end = len(text) if end < 0 else end
    left = text[max(begin, place.start - _WIDE) : place.start]
    right = text[place.end : min(end, place.end + _WIDE)]
    yield from ("bias", f"section={place.section}")
    yield from _words("l", _TOKEN.findall(left)[::-1])
    yield from _words("r", _TOKEN.findall(right))
    yield from (f"first={token}" for token in _TOKEN.findall(text[begin : begin + 24])[:2])
    for length in (2, 3, 5, 8):
        yield f"r^{right[:length]}"
        yield f"l^{left[-length:]}"
    clause = _TOKEN.findall(_STOP.split(text[place.end : min(end, place.end + _ABOVE)])[0])
    masks = sum(token[0] == MASK for token in clause)
    yield from (f"last={token}" for token in clause[-2:])
    yield from (f"last={token[:k]}~/{min(masks, 2)}" for token in clause[-1:] for k in (1, 2, 3))
    yield from (f"in={token}" for token in {*clause, *_TOKEN.findall(left)} if len(token) > 1)
    before = text[max(0, begin - 60) : max(0, begin - 1)].rpartition("\n")[2]
    yield from (f"above={token}" for token in _TOKEN.findall(before)[:3])
    heads = list(_HEAD.finditer(text, max(0, begin - _ABOVE), place.start))
    yield from (f"head={found[1]}" for found in heads[-1:])
    # Within some reach, so that the work grows with the length of a note and no faster.
    at = bisect.bisect_left(marks, (max(begin, place.start - _REACH),))
    until = bisect.bisect_left(marks, (min(end, place.end + _REACH),))
    for first, last, name in marks[at:until]:
        yield from _landmark(name, text, place, first, last)


def _words(side: str, tokens: Sequence[str]) -> Iterator[str]:
    masks, before = 0, "^"
    for rank, token in enumerate(tokens[:_TOKENS]):
        token = MASK if token[0] == MASK else token
        yield f"{side}{min(rank, 3)}={token}"
        yield f"{side}{min(masks, 2)}+{token}"
        yield f"{side}{before}|{token}"
        for length in range(1, min(4, len(token))):
            yield f"{side}{min(rank, 3)}={token[:length]}~"
            yield f"{side}={token[-length:]}<"
        masks += token == MASK
        before = token
    if len(tokens) <= _TOKENS:
        yield f"{side}{before}|$"


def _landmark(name: str, text: str, place: Place, first: int, last: int) -> Iterator[str]:
    if first >= place.end:
        side, between = "r", text[place.end : first]
    elif last <= place.start:
        side, between = "l", text[last : place.start]
    else:
        return
    near = f"{side}{min(len(_MASKS.findall(between)), 2)}"
    near += ".;" if _STOP.search(between) else "," if "," in between else ""
    yield f"{name}/{side}{sum(len(between) > limit for limit in _STEPS)}"
    yield f"{name}/{near}"
    yield f"{name}/{near}/{place.chronic}{place.symptom}"


def rows_of(found: Sequence[str]) -> NDArray[np.int64]:
    """Give the row of each feature in the table of weights. Shape (features,)."""
    rows = {zlib.crc32(one.encode("utf-8", "replace")) % ROWS for one in found}
    return np.fromiter(sorted(rows), np.int64, len(rows))


@dataclass(frozen=True)
class SecondReader:
    """The model: a weight for each feature and label."""

    weights: NDArray[np.float16]  # (ROWS, labels)

    @classmethod
    def open(cls, path: Path = WEIGHTS) -> "SecondReader":
        """Read a model; the shipped one is read once."""
        return _shipped() if path == WEIGHTS else _read(path)

    def check(
        self, context: NoteContext, places: Sequence[Place], said: Sequence[Assertion]
    ) -> list[Assertion]:
        """Give what the tables said, with the safer status where this reader disagrees."""
        rows = [rows_of(one) for one in features(context, places)]
        checked = []
        for row, one, place in zip(rows, said, places, strict=True):
            found = self.check_one(row, one, chronic=place.chronic)
            if found.certainty == DISPUTED:
                moved = (found.status, found.experiencer) != (one.status, one.experiencer)
                reader = "tables say" if moved else "second reader says"
                words = context.note[place.start : place.end]
                rule = f"the {reader} {found.otherwise}"
                why = Reason(DISPUTED, words, place.start, place.end, "", rule)
                found = replace(found, why=(*(() if moved else one.why), why))
            checked.append(found)
        return checked

    def check_one(
        self, rows: NDArray[np.int64], said: Assertion, *, chronic: bool = False
    ) -> Assertion:
        """Do the same for a place whose features are known by their rows."""
        return _checked(said, self._probabilities(rows), chronic=chronic)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Say how likely each label is. Shape (labels,)."""
        scores = self.weights[rows].sum(0, dtype=np.float32) / len(rows) ** 0.5
        found: NDArray[np.float32] = np.exp(scores - scores.max())
        found /= found.sum()
        return found


def _checked(said: Assertion, found: NDArray[np.float32], *, chronic: bool = False) -> Assertion:
    tables = said.status if said.experiencer == PATIENT else said.experiencer
    own = LABELS[int(found.argmax())]
    if own == tables or (chronic and tables == PRESENT and own in (HISTORICAL, HYPOTHETICAL)):
        return said
    # To be the patient's and present is the unsafe side: the model only moves mentions away.
    border = SURE_NEGATED if own == NEGATED else SURE
    if tables != PRESENT or found.max() <= border:
        return replace(said, certainty=DISPUTED, otherwise=own)
    moved = replace(said, certainty=DISPUTED, otherwise=tables)
    if own in (FAMILY, OTHER):
        return replace(moved, experiencer=own)
    return replace(moved, status=own)


@lru_cache(maxsize=1)
def _shipped() -> SecondReader:
    return _read(WEIGHTS)


def _read(path: Path) -> SecondReader:
    with np.load(path, allow_pickle=False) as arrays:
        return SecondReader(arrays["weights"])
