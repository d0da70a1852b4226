"""What a note says about each of its mentions: the cues that reach it, and its own sign."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .cues import AFTER, BEFORE, FAMILY, HEADING, HISTORY, NEGATED, NOTHING, OPENERS, UNCERTAIN, Cue
from .scope import END, MASK, ends, has_own, is_closed, masked
from .signs import ANY, APART, sign

# Characters between a cue and what it speaks of, other mentions not counted; and all in all.
_REACH, _WINDOW = 80, 400
_LINE = 200  # characters that a heading reaches
# "father had colon cancer": whose it is reaches over the verb.
_HIS = re.compile(r"^\s*(?:had|has|with|died of|died from)(?![a-z])", re.IGNORECASE)
_PATIENT = re.compile("본인|환자")
# "HTN, r/o pneumonia": what stands before an item speaks of that, not of the one before.
_LEADS_ON = re.compile(rf"\s*(?:for\s+|of\s+)?{MASK}")
# "HIV 양성, RPR 음성": the sign is part of the name; but "HIV 양성 아님".
_POSITIVE = re.compile("(?:양성|positive)$", re.IGNORECASE)
_DENIED = re.compile(r"(?:은|는|이|도)?\s*(?:아[니닌님]|없)")
_LATIN = re.compile("[a-z]", re.IGNORECASE)
_GLUE = re.compile(rf"및|또는|(?<={MASK})(?:이나|나|와|과)(?![가-힣])")


def said(note: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Say what holds of each span: any of negated, uncertain, family, history, in this order.

    The spans are a note's mentions, ascending and apart.

    >>> said("체중감소 5kg, 야간발한(-), r/o 폐렴", [(0, 4), (10, 14), (23, 25)])
    [(), ('negated',), ('uncertain',)]
    """
    context = Context.of(note, spans)
    return [context.said(*span) for span in spans]


@dataclass(frozen=True)
class Context:
    """A note, and the same with its mentions masked."""

    note: str
    hidden: str

    @classmethod
    def of(cls, note: str, spans: Sequence[tuple[int, int]]) -> "Context":
        """Mask a note's mentions, which are ascending and apart."""
        return cls(note, masked(note, spans))

    def said(self, start: int, end: int) -> tuple[str, ...]:
        """Say what holds of one of them."""
        around = _Around.of(self.note, self.hidden, start, end)
        return _attributes(self.note[start:end], around)


@dataclass(frozen=True)
class _Around:
    """What stands on both sides of a mention, as it is and with the mentions masked."""

    left: str
    right: str
    hidden_left: str
    hidden_right: str

    @classmethod
    def of(cls, note: str, hidden: str, start: int, end: int) -> "_Around":
        before, after = slice(max(0, start - _WINDOW), start), slice(end, end + _WINDOW)
        return cls(note[before], note[after], hidden[before], hidden[after])


def _attributes(text: str, around: _Around) -> tuple[str, ...]:
    found = {cue.attribute for cue in BEFORE if _reaches_on(cue, around)}
    found |= {cue.attribute for cue in AFTER if _reaches_back(cue, around)}
    found |= _headed(around.left)
    own = sign(around.hidden_left, around.hidden_right)
    if _POSITIVE.search(text) and not _DENIED.match(around.right):
        own = "+"
    if own:
        found.discard(NEGATED)  # whatever is said of the list
    if own == "-" or (not own and _signed_apart(around.hidden_right)):
        found.add(NEGATED)
    if FAMILY in found:
        found.discard(HISTORY)  # "family history of" is nobody's past illness
    return tuple(one for one in (NEGATED, UNCERTAIN, FAMILY, HISTORY) if one in found)


def _reaches_on(cue: Cue, around: _Around) -> bool:
    """Tell whether a cue before an item speaks of it."""
    for match in cue.pattern.finditer(around.left):
        between = around.hidden_left[match.end() :]
        if _is_near(between) and not _is_cut_off(cue, between, around):
            return True
    return False


def _is_cut_off(cue: Cue, between: str, around: _Around) -> bool:
    if cue.attribute == FAMILY:
        between = _HIS.sub("", between)
        return bool(END.search(between) or _PATIENT.search(between) or NOTHING.match(between))
    if ends(between) or has_own(between, around.hidden_right):
        return True
    # Korean after an English cue belongs to another clause: "no fever, 어제부터 기침".
    return cue.attribute != HISTORY and bool(re.search("[가-힣]", _GLUE.sub("", between)))


def _reaches_back(cue: Cue, around: _Around) -> bool:
    """Tell whether a cue after an item speaks of it."""
    for match in cue.pattern.finditer(around.right):
        between = around.hidden_right[: match.start()]
        if not _is_near(between) or is_closed(between):
            return False
        leads_on = _LEADS_ON.match(around.hidden_right, match.end()) and _LATIN.search(
            match.group()
        )
        if not leads_on and not between.rstrip().endswith(","):
            return True
    return False


def _signed_apart(right: str) -> bool:
    """Tell whether a list ends with one sign that stands apart: "fever, chills (-)"."""
    found = APART.search(right)
    if found is None or not _is_near(between := right[: found.start()]) or is_closed(between):
        return False
    rest = right[found.end() :]
    end = END.search(rest)
    return not ANY.search(rest[: end.start()] if end else rest)


def _is_near(between: str) -> bool:
    return len(between.replace(MASK, "")) <= _REACH


def _headed(left: str) -> set[str]:
    line = left[left.rfind("\n") + 1 :][-_LINE:]
    last = None
    for match in HEADING.finditer(line):
        last = match
    if last is None or re.search(r"[.;]\s", line[last.end() :]):
        return set()
    rest = line[last.end() :].lstrip()
    if not rest.startswith(OPENERS) or NOTHING.match(rest):
        return set()
    return {FAMILY if last.group("family") else HISTORY}
