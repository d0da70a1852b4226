"""Words that say of an item of a note that it is not there, not sure, a relative's or long ago.

English cues stand before what they speak of ("no fever, cough or chills"), Korean ones after it
("발열, 기침 없음"). How far each reaches is told in `scope.py`.
"""

import re
from dataclasses import dataclass

NEGATED, UNCERTAIN, FAMILY, HISTORY = "negated", "uncertain", "family", "history"


@dataclass(frozen=True)
class Cue:
    """A pattern, and what it says of the items it reaches."""

    attribute: str
    pattern: "re.Pattern[str]"


def _before(attribute: str, words: str) -> Cue:
    # "뇌경색 r/o, HTN": what a comma follows speaks of what stands before it.
    pattern = rf"(?<![a-z가-힣])(?:{words})(?![a-z])(?!\s*[,;.)])"
    return Cue(attribute, re.compile(pattern, re.IGNORECASE))


def _after(attribute: str, words: str) -> Cue:
    return Cue(attribute, re.compile(words, re.IGNORECASE))


# "오십견, 가족력상 위암": the word speaks of what follows, not of what stands before.
_HEADS_NOTHING = r"(?!\s*(?:상|:|으로|에))"
# What is not seen is not there; what does not get better is: 호전되지 않음.
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
    # 배제할 수 없음 denies nothing, 없어짐 says that it was there, 부인과 is gynaecology.
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

# These speak of all that follows on their line, if a colon or the like says so.
HEADING = re.compile(
    r"(?<![a-z])(?:(?P<family>f/?hx|family (?:history|hx)|가족력)"
    r"|(?P<history>p/?m?hx|p/?mh|past (?:medical )?history|과거력))(?![a-z])",
    re.IGNORECASE,
)
OPENERS = (":", ")", ">", "]", "상", "으로", "에")
# "가족력 없음, 고혈압 있음": a heading with nothing under it.
NOTHING = re.compile(r"[\s:)>\]]*(?:없|none|특이|unremarkable|[(（]\s*[-−–])", re.IGNORECASE)
