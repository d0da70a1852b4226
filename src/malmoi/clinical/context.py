"""What a note says about its mentions: negated, uncertain, of the family, in the past (ConText).

Cues are words with a direction: English ones precede what they are about ("no fever, cough or
chills"), Korean ones follow it ("발열, 기침 없음"). A cue reaches through a list, up to an item
about which something else is said:

    체중감소 5kg, 야간발한 없음      the number closes the first item: the cue is about the second
    발열, 기침, 가래 없음            nothing does: the cue is about all three
    기침이 심하고 발열 없음          a predicate closes it, and so does its particle

Mentions are masked while this is decided, so that 감소 in 체중감소 is no predicate.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..linking.expansion import ANY, APART, sign

NEGATED, UNCERTAIN, FAMILY, HISTORY = "negated", "uncertain", "family", "history"


@dataclass(frozen=True)
class Cue:
    """A pattern, and what it says about the items it reaches."""

    attribute: str
    pattern: "re.Pattern[str]"


def _before(attribute: str, words: str) -> Cue:
    # "뇌경색 r/o, HTN": a cue before a comma is about what precedes it.
    pattern = rf"(?<![a-z가-힣])(?:{words})(?![a-z])(?!\s*[,;.)])"
    return Cue(attribute, re.compile(pattern, re.IGNORECASE))


def _after(attribute: str, words: str) -> Cue:
    return Cue(attribute, re.compile(words, re.IGNORECASE))


# "오십견, 가족력상 위암": the word is about what follows, not about what precedes it.
_HEADS_NOTHING = r"(?!\s*(?:상|:|으로|에))"
# What is not seen is absent; what does not improve (호전되지 않음) is present.
_SEEN = (
    "있|보이|관찰되|동반하|동반되|호소하|나타나|확인되|발견되|의심되|느끼|발생하"
    "|만져지|촉지되|들리|청진되"
)

BEFORE = (
    _before(NEGATED, r"no(?! longer)|not(?! only)|denie[sd]|deny|without|negative for"
            r"|neg(?:ative)?(?=:)|absence of|free of|w/o"),
    _before(UNCERTAIN, r"r/o|rule out|suspect(?:ed)?|suspicious (?:for|of)|possible|possibly"
            r"|probable|probably|likely|s/o|suggestive of|cannot exclude|d/dx|의심되는|의증"),
    _before(FAMILY, r"f/?hx|fhx|family (?:history|hx)(?: of)?|mother|father|brother|sister|parents?"
            r"|가족력|부친|모친|아버지|어머니|형제|자매|조부모?|조모"),
    _before(HISTORY, r"h/o|hx of|p/?m?hx|p/?mh|past (?:medical )?history|history of|previous|prior"
            r"|s/p|과거력|기왕력|병력"),
)  # fmt: skip
AFTER = (
    # 배제할 수 없음 negates nothing, 없어짐 says that it was present, 부인과 is gynaecology.
    _after(NEGATED, r"(?<!수 )(?<!수)없(?:[음으었고는다이습]|어(?![지졌짐]))|부인(?!과)|아님|아닌"
           rf"|아니[며고었다]|음성(?!장애)|배제[됨되]|(?:{_SEEN})지(?:는|도)? ?않"
           r"|(?<![a-z])(?:absent|denied|negative|non-?reactive|none"
           r"|(?<!not )(?<!cannot be )ruled out)(?![a-z])"),
    _after(UNCERTAIN, r"의심(?!되지)|의증|추정|가능성|감별|여부|배제(?:할|하기|하지| ?위)|r/o|\?"
           r"|(?<![a-z])(?:suspected|likely|possible|(?:not|cannot be) (?:ruled out|excluded))"
           r"(?![a-z])"),
    _after(FAMILY, rf"가족력{_HEADS_NOTHING}"),
    _after(HISTORY, rf"(?:과거력|병력|기왕력){_HEADS_NOTHING}|진단받은 적|앓은 적|앓았"),
)  # fmt: skip

# Headings: about all that follows on their line, if a colon or the like stands after them.
HEADING = re.compile(
    r"(?<![a-z])(?:(?P<family>f/?hx|family (?:history|hx)|가족력)"
    r"|(?P<history>p/?m?hx|p/?mh|past (?:medical )?history|과거력))(?![a-z])",
    re.IGNORECASE,
)
OPENERS = (":", ")", ">", "]", "상", "으로", "에")
# "가족력 없음, 고혈압 있음": a heading with nothing under it.
NOTHING = re.compile(r"[\s:)>\]]*(?:없|none|특이|unremarkable|[(（]\s*[-−–])", re.IGNORECASE)


MASK = "\ue000"  # a letter of private use, which no note has

# A clause ends here, and with it the reach of any cue: at line ends, not at commas.
END = re.compile(
    r"(?<!vs)(?:(?<!\d)\.|\.(?!\d))|[;。\n\r]|#|(?:^|\s)\d{1,2}[.)]\s"
    # "r/o pneumonia, FHx: gastric cancer": a heading starts a new clause.
    r"|,\s*(?:f/?hx|p/?m?hx|p/?mh|(?:family|past|medical) (?:medical )?(?:history|hx)"
    r"|가족력|과거력|기왕력)\s*:"
    r"|(?<![a-z])(?:but|however|except|although|with|now|currently|presents?|has|had|reports?"
    r"|reported|c/o|complain\w*)(?![a-z])"
    r"|있[으었고음어는]|있다|하였|했|보이[며고]|호소|현재|\(\+\)|[A-Za-z가-힣]상 |에서|결과",
    re.IGNORECASE,
)
# A measurement, a dose or a time. "제2형" and "COVID-19" have numbers in their names.
_NUMBER = r"(?<![A-WYZa-wyz\d제-])\d+(?:[.,:/~-]\d+)*(?!\d)(?!\s?형)"
_UNIT = r"\s?(?:[A-Za-z%℃°]+|일|주|개월|달|년|시간|분|회|번|도|점|세)?"
_PREDICATES = (
    rf"{_NUMBER}"
    # Korean predicates begin a word: 감소 in 체중감소 is none.
    r"|(?<![가-힣])(?:심[하한해함]|지속|호전|악화|증가|감소|발생|시작|동반|내원|입원|진단|복용|치료"
    r"|투석|시행|수술|확인|관찰|보임|보여|나타|생[기김겨긴]|느[끼껴낌]|추적|조절|환자|합병증|재발|변화"
    r"|이상|특이|문제|차도|불편|양성|중(?=[\s,])|후(?=\s)|외(?:에는|에|엔)?(?=\s)|이외|말고|제외)"
    r"|[가-힣](?:함|됨|하며|되며|이며|하고|되고|이고|하여|되어|해서|지만|는데)(?=[\s,])|보다"
    r"|없[음으었고는다이어]|부인(?!과)|의심|의증|추정|가능성"
    r"|(?<![a-z])(?:f/u|r/o|s/p|d/t|present|positive|persist\w*|improv\w*|worsen\w*|resolv\w*"
    r"|develop\w*|show\w*|started|since|due to|treated|admitted|noted|on (?:med|tx|hd)\w*)(?![a-z])"
    # An item with a particle of its own has a predicate of its own, if more follows.
    rf"|(?:^|{MASK})(?:이|가|을|를|의|에|으로|로|은|는|만)\s+(?=\S)"
)
_CLOSED = re.compile(rf"{END.pattern}|{_PREDICATES}|{ANY.pattern.replace('?P<signs>', '?:')}", re.I)
# What may stand between an item and its own predicate: "증상 없음", "3일 전부터 없음".
_PARTICLE = "(?:은|는|이|가|도|을|를|의|으로|로|만)"
_TAIL = re.compile(
    r"(?:(?:소견|증거|증상|징후|양상|호소|동반|발생|확인|관찰|병력|과거력|기왕력|가족력"
    r"|등 합병증|최근|현재|특별한|뚜렷한|명백한|(?<![a-z])(?:is|was|are|were|:)"
    rf"|{_NUMBER}{_UNIT}\s?(?:간|동안|째|전부터|전|이내|이상)?){_PARTICLE}?|{_PARTICLE})\s*$",
    re.IGNORECASE,
)
# "no fever, cough for 3 days": a predicate of one item of the list.
_OWN = re.compile(
    r"(?:은|는|이|가|도)?\s*(?:있|없|부인|호소|심[하한해함]|지속|양성|present|positive|persist|improv"
    rf"|worsen|since|(?:for|x)?\s*{_NUMBER})",
    re.IGNORECASE,
)
_OR = re.compile(r"(?<![a-z])n?or\s+(?:\w+\s+)?$", re.IGNORECASE)


def masked(note: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace spans of a note, ascending and not overlapping, by masks of the same length.

    >>> masked("no fever, cough", [(3, 8)]).replace(MASK, "_")
    'no _____, cough'
    """
    parts, at = [], 0
    for start, end in spans:
        parts += [note[at:start], MASK * (end - start)]
        at = end
    return "".join([*parts, note[at:]])


def is_closed(between: str) -> bool:
    """Tell whether something else is said about an item before the cue that follows it."""
    shorter = _TAIL.sub("", between.rstrip())
    while shorter != between:
        between, shorter = shorter, _TAIL.sub("", shorter.rstrip())
    return ends(between)


def ends(between: str) -> bool:
    """Tell whether a list ends between a cue and the item after it."""
    return _CLOSED.search(between) is not None


def has_own(between: str, right: str) -> bool:
    """Tell whether an item that a cue reaches over a comma has a predicate of its own."""
    return "," in between and not _OR.search(between) and _OWN.match(right) is not None


# Characters between a cue and its item, other mentions not counted; and with them.
_REACH, _WINDOW = 80, 400
_LINE = 200  # characters that a heading reaches
# "father had colon cancer": the experiencer reaches over the verb.
_HIS = re.compile(r"^\s*(?:had|has|with|died of|died from)(?![a-z])", re.IGNORECASE)
_PATIENT = re.compile("본인|환자")
# "HTN, r/o pneumonia": a cue between two items is about the second.
_LEADS_ON = re.compile(rf"\s*(?:for\s+|of\s+)?{MASK}")
# "HIV 양성, RPR 음성": the sign is part of the name; but "HIV 양성 아님".
_POSITIVE = re.compile("(?:양성|positive)$", re.IGNORECASE)
_DENIED = re.compile(r"(?:은|는|이|도)?\s*(?:아[니닌님]|없)")
_LATIN = re.compile("[a-z]", re.IGNORECASE)
_GLUE = re.compile(rf"및|또는|(?<={MASK})(?:이나|나|와|과)(?![가-힣])")


def attributes_of(note: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Give the attributes of each span: any of negated, uncertain, family, history, in this order.

    The spans are the mentions of a note, ascending and not overlapping.

    >>> attributes_of("체중감소 5kg, 야간발한(-), r/o 폐렴", [(0, 4), (10, 14), (23, 25)])
    [(), ('negated',), ('uncertain',)]
    """
    context = NoteContext.of(note, spans)
    return [context.attributes(*span) for span in spans]


@dataclass(frozen=True)
class NoteContext:
    """A note, and the same with its mentions masked."""

    note: str
    hidden: str

    @classmethod
    def of(cls, note: str, spans: Sequence[tuple[int, int]]) -> "NoteContext":
        """Mask the mentions of a note, which are ascending and do not overlap."""
        return cls(note, masked(note, spans))

    def attributes(self, start: int, end: int) -> tuple[str, ...]:
        """Give the attributes of one of them."""
        before, after = slice(max(0, start - _WINDOW), start), slice(end, end + _WINDOW)
        note, hidden = self.note, self.hidden
        around = _Around(note[before], note[after], hidden[before], hidden[after])
        return _attributes(note[start:end], around)


@dataclass(frozen=True)
class _Around:
    """The text on both sides of a mention, as it is and with the mentions masked."""

    left: str
    right: str
    hidden_left: str
    hidden_right: str


def _attributes(text: str, around: _Around) -> tuple[str, ...]:
    found = {cue.attribute for cue in BEFORE if _reaches_forward(cue, around)}
    found |= {cue.attribute for cue in AFTER if _reaches_back(cue, around)}
    found |= _headed(around.left)
    own = sign(around.hidden_left, around.hidden_right)
    if _POSITIVE.search(text) and not _DENIED.match(around.right):
        own = "+"
    if own:
        found.discard(NEGATED)  # whatever is said about the list
    if own == "-" or (not own and _signed_apart(around.hidden_right)):
        found.add(NEGATED)
    if FAMILY in found:
        found.discard(HISTORY)  # "family history of" is nobody's past illness
    return tuple(one for one in (NEGATED, UNCERTAIN, FAMILY, HISTORY) if one in found)


def _reaches_forward(cue: Cue, around: _Around) -> bool:
    """Tell whether a cue before an item is about it."""
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
    """Tell whether a cue after an item is about it."""
    for match in cue.pattern.finditer(around.right):
        between = around.hidden_right[: match.start()]
        if not _is_near(between) or is_closed(between):
            return False
        is_next = _LEADS_ON.match(around.hidden_right, match.end())
        leads_on = is_next and _LATIN.search(match.group())
        if not leads_on and not between.rstrip().endswith(","):
            return True
    return False


def _signed_apart(right: str) -> bool:
    """Tell whether a list ends with one sign for all items: "fever, chills (-)"."""
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
