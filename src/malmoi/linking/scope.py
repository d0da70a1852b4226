"""How far a cue reaches: through a list, up to an item that something else has been said of.

    체중감소 5kg, 야간발한 없음      the number closes the first item: the cue is the second one's
    발열, 기침, 가래 없음            nothing does: the cue speaks of all three
    기침이 심하고 발열 없음          a predicate closes it, and so does its particle

What is looked at has the other mentions masked, so that 감소 in 체중감소 is no predicate.
"""

import re
from collections.abc import Sequence

from . import signs

MASK = "\ue000"  # a letter of private use, which no note has

# A clause ends here, and with it what any cue says. Line ends do, commas do not.
END = re.compile(
    r"(?<!vs)(?:(?<!\d)\.|\.(?!\d))|[;。\n\r]|#|(?:^|\s)\d{1,2}[.)]\s"
    # "r/o pneumonia, FHx: gastric cancer": a heading begins something new.
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
_SAID = (
    rf"{_NUMBER}"
    # Korean predicates begin a word: 감소 in 체중감소 is none.
    r"|(?<![가-힣])(?:심[하한해함]|지속|호전|악화|증가|감소|발생|시작|동반|내원|입원|진단|복용|치료"
    r"|투석|시행|수술|확인|관찰|보임|보여|나타|생[기김겨긴]|느[끼껴낌]|추적|조절|환자|합병증|재발|변화"
    r"|이상|특이|문제|차도|불편|양성|중(?=[\s,])|후(?=\s)|외(?:에는|에|엔)?(?=\s)|이외|말고|제외)"
    r"|[가-힣](?:함|됨|하며|되며|이며|하고|되고|이고|하여|되어|해서|지만|는데)(?=[\s,])|보다"
    r"|없[음으었고는다이어]|부인(?!과)|의심|의증|추정|가능성"
    r"|(?<![a-z])(?:f/u|r/o|s/p|d/t|present|positive|persist\w*|improv\w*|worsen\w*|resolv\w*"
    r"|develop\w*|show\w*|started|since|due to|treated|admitted|noted|on (?:med|tx|hd)\w*)(?![a-z])"
    # What has a particle of its own has a predicate of its own, if more follows.
    rf"|(?:^|{MASK})(?:이|가|을|를|의|에|으로|로|은|는|만)\s+(?=\S)"
)
_CLOSED = re.compile(rf"{END.pattern}|{_SAID}|{signs.ANY.pattern.replace('?P<signs>', '?:')}", re.I)
# What may stand between an item and its own predicate: "증상 없음", "3일 전부터 없음".
_PARTICLE = "(?:은|는|이|가|도|을|를|의|으로|로|만)"
_TAIL = re.compile(
    r"(?:(?:소견|증거|증상|징후|양상|호소|동반|발생|확인|관찰|병력|과거력|기왕력|가족력"
    r"|등 합병증|최근|현재|특별한|뚜렷한|명백한|(?<![a-z])(?:is|was|are|were|:)"
    rf"|{_NUMBER}{_UNIT}\s?(?:간|동안|째|전부터|전|이내|이상)?){_PARTICLE}?|{_PARTICLE})\s*$",
    re.IGNORECASE,
)
# "no fever, cough for 3 days": said of an item of the list by itself.
_OWN = re.compile(
    r"(?:은|는|이|가|도)?\s*(?:있|없|부인|호소|심[하한해함]|지속|양성|present|positive|persist|improv"
    rf"|worsen|since|(?:for|x)?\s*{_NUMBER})",
    re.IGNORECASE,
)
_OR = re.compile(r"(?<![a-z])n?or\s+(?:\w+\s+)?$", re.IGNORECASE)


def masked(note: str, spans: Sequence[tuple[int, int]]) -> str:
    """Give a note with these spans, ascending and apart, made masks; it keeps its length.

    >>> masked("no fever, cough", [(3, 8)]).replace(MASK, "_")
    'no _____, cough'
    """
    parts, at = [], 0
    for start, end in spans:
        parts += [note[at:start], MASK * (end - start)]
        at = end
    return "".join([*parts, note[at:]])


def is_closed(between: str) -> bool:
    """Tell whether something else was said of an item before the cue that follows it."""
    shorter = _TAIL.sub("", between.rstrip())
    while shorter != between:
        between, shorter = shorter, _TAIL.sub("", shorter.rstrip())
    return ends(between)


def ends(between: str) -> bool:
    """Tell whether a list ended between a cue and the item after it."""
    return _CLOSED.search(between) is not None


def has_own(between: str, right: str) -> bool:
    """Tell whether an item, reached over a comma from a cue before it, speaks for itself."""
    return "," in between and not _OR.search(between) and _OWN.match(right) is not None
