"""Notes: which mentions are found, with which code and status, and what is wrongly the patient's?

A file has one note per line, as JSON: `text`, and `mentions` with `start`, `end`, `code` (or
`codes`, of which any is right), `status` and `experiencer`. A mention without a code is a
look-alike: words that are not a diagnosis there. A mention with
`"optional": true` may be found or not.

A mention counts as found if the reader gives a span that overlaps it; a span explains one mention.
Code, category and status are shares of what was found. The safety line counts what would harm: the
negated, hypothetical, family's and others' mentions, and look-alikes, given to the patient.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...clinical.reader import NoteMention, NoteReader
from ...errors import DataError
from ...heads.decision import reliability as bins_of
from ...io.files import read_lines
from ...terms import Lexicon
from ...terms.export import write_rows
from ...terms.normalize import category_of
from ..examples import Examples, describe
from ..measures import ratio
from . import Outcome, Settings, Task
from .linking import make_linker, open_lexicon
from .note_classes import NoteFile, judge_notes, load_notes

STATUSES = ("present", "negated", "possible", "hypothetical", "historical")
EXPERIENCERS = ("patient", "family", "other")


@dataclass(frozen=True)
class GoldMention:
    """A span that people marked; without codes it is a look-alike."""

    start: int
    end: int
    codes: tuple[str, ...] = ()
    status: str = "present"
    experiencer: str = "patient"
    optional: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it may be given to the patient as present."""
        unsafe = self.status in ("negated", "hypothetical") or self.experiencer != "patient"
        return bool(self.codes) and not unsafe


@dataclass(frozen=True)
class GoldNote:
    """A note with its marked spans, in order."""

    id: str
    text: str
    mentions: tuple[GoldMention, ...]


@dataclass(frozen=True)
class NoteSet:
    """Notes with the lexicon to link them to."""

    lexicon: Lexicon
    notes: Sequence[GoldNote]


@dataclass(frozen=True)
class JudgedNote:
    """A note, and its mentions with the spans that explain them; None where there is none."""

    note: GoldNote
    pairs: tuple[tuple[GoldMention, NoteMention | None], ...]
    invented: tuple[NoteMention, ...]


class NoteMentions(Task[Any]):
    """Read notes and compare their mentions; or judge a classifier of notes by its decisions."""

    name = "notes"

    def load(self, path: Path, settings: Settings) -> Examples[Any]:
        if not holds_mentions(path):
            return load_notes(path, settings)
        lexicon = open_lexicon(settings)
        notes = list(read_notes(path))[: settings.limit or None]
        source = describe(path, len(notes), {"text": "text", "mentions": "mentions"})
        return Examples(NoteSet(lexicon, notes), source, about={"lexicon": lexicon.identity})

    def outcome(self, model: object, examples: Examples[Any], settings: Settings) -> Outcome:
        """Read every note and compare; what went wrong is written to `errors`."""
        rows: NoteSet | NoteFile = examples.rows
        if not isinstance(rows, NoteSet):
            return judge_notes(model, rows, settings)
        reader = NoteReader(make_linker(rows.lexicon, model))
        judged = [judge(note, reader.read(note.text)) for note in rows.notes]
        if settings.errors is not None:
            wrong = (row for one in judged for row in _errors_of(one))
            write_rows(_ERRORS, wrong, Path(settings.errors))
        return outcome_of(judged)


def holds_mentions(path: Path) -> bool:
    """Tell whether a file has notes with marked mentions."""
    return path.suffix.lower() == ".jsonl" and '"mentions"' in next(read_lines(path), "")


def read_notes(path: Path) -> Iterator[GoldNote]:
    """Read notes with their mentions."""
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            spans = sorted((_gold(one) for one in row["mentions"]), key=lambda one: one.start)
            note = GoldNote(str(row.get("id", line)), str(row["text"]), tuple(spans))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"line {line} of {path} is not a note ({type(error).__name__}); expected JSON with "
                "text and mentions, each with start, end, code, status and experiencer. "
                "Correct the line."
            ) from error
        if any(not 0 <= one.start < one.end <= len(note.text) for one in spans):
            raise DataError(
                f"line {line} of {path} has a mention outside of its text; expected 0 <= start < "
                "end <= length, in characters. Correct the line."
            )
        yield note


def _gold(row: Mapping[str, Any]) -> GoldMention:
    codes = row.get("codes", row.get("code"))
    codes = [codes] if isinstance(codes, str) else codes or []
    status = row.get("status", "present")
    experiencer = row.get("experiencer", "patient")
    if status not in STATUSES or experiencer not in EXPERIENCERS:
        raise ValueError(status)
    found = tuple(str(code) for code in codes if code)
    optional = bool(row.get("optional"))
    return GoldMention(int(row["start"]), int(row["end"]), found, status, experiencer, optional)


def judge(note: GoldNote, found: Sequence[NoteMention]) -> JudgedNote:
    """Give each marked span the found one that overlaps it most; the rest are invented."""
    overlaps = sorted(
        (
            (min(gold.end, one.end) - max(gold.start, one.start), -(one.end - one.start), -i, -j)
            for i, gold in enumerate(note.mentions)
            for j, one in enumerate(found)
            if gold.start < one.end and one.start < gold.end
        ),
        reverse=True,
    )
    taken: dict[int, int] = {}
    for _, _, i, j in overlaps:
        # Of a longer span that covers two marked ones the second is a part of it.
        if -i not in taken and -j not in taken.values():
            taken[-i] = -j
    pairs = tuple(
        (gold, found[taken[i]] if i in taken else None) for i, gold in enumerate(note.mentions)
    )
    rest = tuple(one for j, one in enumerate(found) if j not in taken.values())
    return JudgedNote(note, pairs, rest)


def code_of(mention: NoteMention) -> str:
    """Give the code that a mention was linked to."""
    return mention.linked.best.code if mention.linked.best else ""


def has_code(gold: GoldMention, found: NoteMention) -> bool:
    """Tell whether the code is right; E14 and E14.9 are both "unspecified" and count as one."""
    return category_of(code_of(found)) in {category_of(code) for code in gold.codes}


def has_category(gold: GoldMention, found: NoteMention) -> bool:
    """Tell whether the code's first three characters are right."""
    return _category(code_of(found)) in {_category(code) for code in gold.codes}


def _category(code: str) -> str:
    return code[:3] if re.match(r"[A-Z]\d\d", code) else code


def outcome_of(judged: Sequence[JudgedNote]) -> Outcome:
    """Count by note, so that notes are resampled whole."""
    counts = [_counts(one) for one in judged]
    arrays = {name: np.array([one[name] for one in counts], np.float64) for name in _COLUMNS}
    shares = {"recall": ("hit", "gold"), "precision": ("hit", "found")}
    shares |= {name: (name, "hit") for name in ("code", "category", "status", "experiencer")}
    measures = {name: ratio(arrays[a], arrays[b]) for name, (a, b) in shares.items()}
    total = {name: int(values.sum()) for name, values in arrays.items()}
    safety = {
        "not the patient's": total["unsafe"],
        "given to the patient": total["harm"],
        "look-alikes": total["alike"],
        "linked": total["fooled"],
    }
    details = {
        "notes": len(judged),
        "mentions": total["gold"],
        "safety": safety,
        "status confusion": _confusion(judged),
        "reliability": reliability(judged),
    }
    line = (
        f"safety: {total['harm']} of {total['unsafe']} negated, hypothetical or other people's "
        f"mentions were given to the patient as present; {total['fooled']} of {total['alike']} "
        "look-alikes were linked"
    )
    return Outcome(measures, np.arange(len(judged)), "recall", details, (line,))


_COLUMNS = (
    "gold", "hit", "found", "code", "category", "status", "experiencer",
    "unsafe", "harm", "alike", "fooled",
)  # fmt: skip


def _counts(one: JudgedNote) -> dict[str, int]:
    real = [(gold, found) for gold, found in one.pairs if gold.codes and not gold.optional]
    hits = [(gold, found) for gold, found in real if found is not None]
    fooled = sum(not gold.codes and found is not None for gold, found in one.pairs)
    unsafe = [(gold, found) for gold, found in real if not gold.is_safe]
    return {
        "gold": len(real),
        "hit": len(hits),
        "found": len(hits) + fooled + len(one.invented),
        "code": sum(has_code(gold, found) for gold, found in hits),
        "category": sum(has_category(gold, found) for gold, found in hits),
        "status": sum(gold.status == found.status for gold, found in hits),
        "experiencer": sum(gold.experiencer == found.experiencer for gold, found in hits),
        "unsafe": len(unsafe),
        "harm": sum(found is not None and is_given(found) for _, found in unsafe),
        "alike": sum(not gold.codes for gold, _ in one.pairs),
        "fooled": fooled,
    }


def is_given(found: NoteMention) -> bool:
    """Tell whether a mention is given to the patient as present."""
    return found.status == "present" and found.experiencer == "patient"


def _confusion(judged: Iterable[JudgedNote]) -> dict[str, dict[str, int]]:
    counts = Counter(
        (_shown(gold), _shown(found))
        for one in judged
        for gold, found in one.pairs
        if gold.codes and found is not None
    )
    rows = sorted({gold for gold, _ in counts})
    return {row: {f: n for (g, f), n in sorted(counts.items()) if g == row} for row in rows}


def _shown(one: GoldMention | NoteMention) -> str:
    return one.status if one.experiencer == "patient" else f"{one.status} ({one.experiencer})"


def reliability(judged: Iterable[JudgedNote]) -> list[dict[str, float]]:
    """Give, for scores of one tenth, their mean and how many of the mentions are right.

    Right is a mention that people marked, with a right code.
    """
    scored = [
        (found.score, bool(gold.codes) and has_code(gold, found))
        for one in judged
        for gold, found in one.pairs
        if found is not None and not gold.optional
    ]
    scored += [(found.score, False) for one in judged for found in one.invented]
    bins = bins_of(*zip(*scored, strict=True)) if scored else []
    return [{"said": round(b.said, 4), "was": round(b.was, 4), "count": b.count} for b in bins]


_ERRORS = ("kind", "note", "mention", "found", "score", "right", "status", "right_status")


def _errors_of(one: JudgedNote) -> Iterator[tuple[object, ...]]:
    """Give what went wrong in a note, in the order of _ERRORS: what was found, what was right."""
    for gold, found in one.pairs:
        text, right = one.note.text[gold.start : gold.end], "|".join(gold.codes)
        if found is None:
            if gold.codes and not gold.optional:
                yield "missed", one.note.id, text, "", "", right, "", _shown(gold)
            continue
        cells = (one.note.id, f"{text} <{found.text}>", code_of(found), found.score, right)
        kinds = {
            "look-alike": not gold.codes,
            "category": bool(gold.codes) and not has_category(gold, found),
            "code": has_category(gold, found) and not has_code(gold, found),
            "status": bool(gold.codes) and _shown(gold) != _shown(found),
        }
        for kind, is_wrong in kinds.items():
            if is_wrong:
                yield kind, *cells, _shown(found), _shown(gold)
    for found in one.invented:
        cells = (one.note.id, found.text, code_of(found), found.score, "")
        yield "invented", *cells, _shown(found), ""
