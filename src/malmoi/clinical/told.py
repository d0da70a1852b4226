"""What people are told may come: complications, side effects, signs to return for.

Such a stretch has words and lists of its own, which the reach of a single cue does not follow:
"수술 후 출혈(1~2 %), 감염, 드물게 폐렴 가능성 보호자에게 설명함".
"""

import re
from collections.abc import Iterator

from .scope import WINDOW

# What people are told of: "출혈, 감염 가능성 설명함", "consent: bleeding, infection".
_TELLS = re.compile(
    r"설명|고지|안내|교육|동의(?:서|함|받|를|하에| ?득|(?=\s?[:：]))|당부|경고|말씀드[렸림]"
    r"|일러[둠두둔]"
    r"|(?<![a-z])(?:explain(?:ed|s)?|discussed|informed|consent(?:ed)?|counsel\w*|warned|educated?"
    r"|education|instructed)(?![a-z])",
    re.IGNORECASE,
)
# ... where it has not come: a list of what the patient has is told without such a word.
_MAY_COME = re.compile(
    r"합병증|부작용|후유증|위험|가능|수 ?있|우려|예후|드물게|발생|경우|대처|동의|예방"
    r"|재발|악화|증상|[가-힣]면\s"
    r"|(?<![a-z])(?:risks?|side effects?|complications?|consent|possib\w+|may|can|if"
    r"|signs?)(?![a-z])",
    re.IGNORECASE,
)
# A sentence, and those after it that still say what may come.
_SENTENCES = re.compile(
    rf"(?:[^.\n]|\.(?!\s))*(?:\.\s+(?:[^.\n]|\.(?!\s))*?(?:{_MAY_COME.pattern})(?:[^.\n]"
    rf"|\.(?!\s))*)*",
    re.I,
)
_OPENS = re.compile(
    r"[^\S\n]*(?:함|사항|내용)?(?:(?:to|with|about)\s[\w/ ]{1,20})?(?:\s?[:：(\[]|\s[-–—]\s)"
)
# "아래와 같은 문제가 생길 수 있음을 설명함", "이럴 때는 바로 119", and the lines listed below it.
_LISTED = re.compile(
    r"^[^\n]{0,80}(?:아래|다음|이럴|이런|following)[^\n]{0,80}(?:경우|증상|때|문제|합병증"
    r"|부작용|위험|symptoms?"
    r"|complications?|risks?|signs?)[^\n]{0,80}\n(?P<items>(?:[ \t]*(?:[-*•·▶○①-⑳]|\d+[.)]"
    r"|[가-하][.)])[^\n]*(?:\n|$))+)",
    re.IGNORECASE | re.MULTILINE,
)
# What is said of an item alone, so that it is not among what may come.
SAID_OWN = re.compile(
    r"있[어음으고]|(?:으로|로)\s|진단|확인|의심|\(\+\)|환자|중(?:이|인|으로)|치료 중"
)
# A clause before it in the same sentence: "PCA 시작하고 오심 가능성 설명".
_CLAUSE = re.compile(
    r"(?:->|→|=>|⇒|[가-힣](?:고|며|서|여|음|함|됨|나|데)(?=[,\s])|(?:시작|예정|시행|의뢰"
    r"|처방|추가|권유|입원|내원|진단)(?=[,\s])"
    r"|[.;\n]|\d[.)]\s|(?<![a-z])(?:plan|tx|p)\s?[:)>])"
)


def told_stretches(hidden: str) -> Iterator[tuple[int, int, int]]:
    """Give the start and end of each stretch, and where it says that something may come.

    hidden  a note with its mentions masked

    >>> list(told_stretches("동의서: 출혈, 감염\\n폐렴"))
    [(4, 11, 4)]
    """
    for tells in _TELLS.finditer(hidden):
        near = max(0, tells.start() - WINDOW)
        line = max(near, hidden.rfind("\n", near, tells.start()) + 1)
        opens = _OPENS.match(hidden, tells.end())
        if opens:
            told = _SENTENCES.match(hidden, opens.end(), opens.end() + WINDOW)
            yield opens.end(), told.end() if told else opens.end(), opens.end()
        else:
            before = hidden[line : tells.start()]
            starts = [one.end() for one in _CLAUSE.finditer(before.rstrip())]
            first = line + max(starts, default=0)
            at = max(line, first - 20)
            may = list(_MAY_COME.finditer(hidden, at, tells.end() + 6))
            if may:
                yield first, tells.start(), may[-1].start()
    for block in _LISTED.finditer(hidden):
        yield (*block.span("items"), block.start())
