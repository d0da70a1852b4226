"""What a note says about a mention: not there, not sure, a relative's, long ago.

English cues stand before what they speak of ("no fever, cough or chills"), Korean ones after it
("발열, 기침 없음"); both reach through a list, and stop at the end of a clause.
"""

import re
from dataclasses import dataclass

NEGATED, UNCERTAIN, FAMILY, HISTORY = "negated", "uncertain", "family", "history"

_REACH = 60  # characters between a cue and what it speaks of


@dataclass(frozen=True)
class _Cue:
    attribute: str
    pattern: "re.Pattern[str]"


def _before(attribute: str, words: str) -> _Cue:
    return _Cue(attribute, re.compile(rf"(?<![a-z가-힣])(?:{words})(?![a-z])", re.IGNORECASE))


def _after(attribute: str, words: str) -> _Cue:
    return _Cue(attribute, re.compile(words, re.IGNORECASE))


# "오십견, 가족력상 위암": the word speaks of what follows, not of what stands before.
_HEADS_NOTHING = r"(?!\s*(?:상|:|으로|에))"
# "father had colon cancer": whose it is reaches over the verb.
_HIS = re.compile(r"^\s*(?:had|has|with|died of|died from)(?![a-z])", re.IGNORECASE)

BEFORE = (
    _before(NEGATED, r"no(?! longer)|not(?! only)|denie[sd]|deny|without|negative for|absence of"
            r"|free of|w/o"),
    _before(UNCERTAIN, r"r/o|rule out|suspect(?:ed)?|suspicious (?:for|of)|possible|possibly"
            r"|probable|probably|likely|s/o|suggestive of|cannot exclude|d/dx|의심되는|의증"),
    _before(FAMILY, r"f/?hx|fhx|family (?:history|hx)(?: of)?|mother|father|brother|sister|parents?"
            r"|가족력|부친|모친|아버지|어머니|형제|자매|조부모?|조모"),
    _before(HISTORY, r"h/o|hx of|p/?mhx?|past (?:medical )?history|history of|previous|prior|s/p"
            r"|과거력|기왕력|병력"),
)  # fmt: skip
AFTER = (
    _after(NEGATED, r"없[음으었고는다이]|부인|아님|아닌|아니[며고었다]|음성|배제[됨되]|관찰되지 않"
           r"|보이지 않|\(-\)|(?<![a-z])(?:absent|denied|negative|ruled out)(?![a-z])"),
    _after(UNCERTAIN, r"의심|의증|추정|가능성|감별|여부|r/o|\?"
           r"|(?<![a-z])(?:suspected|likely|possible)(?![a-z])"),
    _after(FAMILY, rf"가족력{_HEADS_NOTHING}"),
    _after(HISTORY, rf"(?:과거력|병력|기왕력){_HEADS_NOTHING}|진단받은 적|앓은 적|앓았"),
)  # fmt: skip
# A clause ends here, and with it what a cue says. Line ends do, commas do not.
_END = re.compile(
    r"[.;。\n\r]|(?<![a-z])(?:but|however|except|although|with|now|currently|presents?|has|had)(?![a-z])"
    r"|있[으었고음어]|있다|하였|했|보이[며고]|호소|현재|\(\+\)|[A-Za-z가-힣]상 |에서|결과",
    re.IGNORECASE,
)
# These speak of all that follows on their line.
_HEADED = re.compile(
    r"(?P<family>f/?hx|family (?:history|hx)|가족력)"
    r"|(?P<history>p/?mhx?|past (?:medical )?history|과거력)",
    re.IGNORECASE,
)


def attributes(note: str, start: int, end: int) -> tuple[str, ...]:
    """Say what holds of note[start:end], in the order negated, uncertain, family, history.

    >>> note = "no fever or cough, CXR상 폐렴 의심, FHx: DM"
    >>> attributes(note, 3, 8), attributes(note, 24, 26), attributes(note, 36, 38)
    (('negated',), ('uncertain',), ('family',))
    """
    found = set()
    left = note[max(0, start - _REACH) : start]
    right = note[end : end + _REACH]
    for cue in BEFORE:
        if _reaches(cue, left):
            found.add(cue.attribute)
    for cue in AFTER:
        match = cue.pattern.search(right)
        if match and not _END.search(right[: match.start()]):
            found.add(cue.attribute)
    found |= _headed(note, start)
    if FAMILY in found:
        found.discard(HISTORY)  # "family history of" is nobody's past illness
    return tuple(one for one in (NEGATED, UNCERTAIN, FAMILY, HISTORY) if one in found)


def _reaches(cue: _Cue, left: str) -> bool:
    for match in cue.pattern.finditer(left):
        between = left[match.end() :]
        if cue.attribute == FAMILY:
            between = _HIS.sub("", between)
        if _END.search(between):
            continue
        # Korean after an English cue belongs to another clause: "no fever, 기침 있음".
        if cue.attribute in (NEGATED, UNCERTAIN) and re.search("[가-힣]", between):
            continue
        return True
    return False


def _headed(note: str, start: int) -> set[str]:
    line = note[note.rfind("\n", 0, start) + 1 : start][-200:]
    last = None
    for match in _HEADED.finditer(line):
        last = match
    if last is None or re.search(r"[.;]\s", line[last.end() :]):
        return set()
    rest = line[last.end() :].lstrip()
    if not rest.startswith((":", "상", "으로", "에")):
        return set()
    return {FAMILY if last.group("family") else HISTORY}
