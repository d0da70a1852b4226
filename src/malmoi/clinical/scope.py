"""How far a cue reaches: through a list, up to an item about which something else is said.

    체중감소 5kg, 야간발한 없음      the number closes the first item: the cue is about the second
    발열, 기침, 가래 없음            nothing does: the cue is about all three
    기침이 심하고 발열 없음          a predicate closes it, and so does its particle

Mentions are masked while this is decided, so that 감소 in 체중감소 is no predicate.
"""

import re
from collections.abc import Iterator, Sequence

from ..terms.expansion import ANY, APART
from .rules import HYPOTHETICAL, INSTRUCTED, NEGATED, POSSIBLE

MASK = "\ue000"  # a letter of private use, which no note has
# A clause ends here, and with it the reach of any cue: at line ends, not at commas.
_END = re.compile(
    r"(?<!vs)(?:(?<!\d)(?<![a-z]\.[a-z])(?<!fx)(?<!ca)(?<!rt)(?<!lt)(?<!hx)(?<!sx)(?<!inj)(?<!prev)\."
    r"|\.(?!\d))(?![\w])|[;。\n\r]|#|(?:^|\s)\d{1,2}[.)]\s"
    # RTF that was pasted with its marks: "HTN \\par pneumonia (-)".
    r"|\\(?:par|pard|line|cell|row|tab)(?![a-z])"
    # "r/o pneumonia, FHx: gastric cancer": a heading starts a new clause.
    r"|,\s*(?:f/?hx|p/?m?hx|p/?mh|(?:family|past|medical) (?:medical )?(?:history|hx)"
    r"|가족력|과거력|기왕력)\s*:"
    r"|(?<![a-z])(?:but|however|except|although|with|without|w/o|who|which|now|currently"
    r"|present(?:s|ed"
    r"|ing)|present to|p/w|has|had|reports?"
    r"|reported|c/o|complain\w*)(?![a-z])"
    r"|있[으었고음어는]|있다|하였|했|보이[며고]|호소|현재|\(\+\)|[A-Za-z가-힣]상 |에서|결과|[有]"
    r"|[았었]고|[았었]으며|[았었]는데|[다라]고\s?(?:함|하[심며고])"
    # "소견 보이나 폐렴 없음"; 이나 alone joins a list.
    r"|(?:보이|되|하|지|으)나(?=[\s,])",
    re.IGNORECASE,
)
# A measurement, a dose or a time. "제2형" and "COVID-19" have numbers in their names.
NUMBER = r"(?<![A-WYZa-wyz\d제-])\d+(?:[.,:/~-]\d+)*(?!\d)(?!\s?(?:형|차(?![가-힣])))"
_UNIT = r"\s?(?:[A-Za-z%℃°]+|일|주|개월|달|년|시간|분|회|번|도|점|세)?"
_PREDICATES = (
    rf"{NUMBER}|[一二三四五六七八九十數]+[年月日週]"
    # Korean predicates begin a word: 감소 in 체중감소 is none.
    r"|(?<![가-힣])(?:심[하한해함]|지속|호전|악화|증가|감소|발생|시작|동반|내원|입원|진단"
    r"|확진|복용|치료"
    r"|투석|시행|수술|투여|처방|유지|교정|중단|변경|이송|전원|확인|관찰|보임|보여|나타"
    r"|생[기김겨긴]|느[끼껴낌]|추적|조절|환자|합병증|재발|변화"
    r"|예방|착용|적용|위해|위하여|목적|이상|특이|문제|차도|불편|양성|중(?=[\s,])|후(?=\s)"
    r"|외(?:에는|에|엔)?(?=\s)|이외|말고|제외)"
    r"|[가-힣](?:함|됨|하며|되며|이며|하고|되고|이고|하여|되어|해서|지만|는데)(?=[\s,])|보다"
    r"|(?<![a-z])old(?![a-z])|없[음으었고는다이어]|부인(?!과)|의심|의증|추정|가능성|[無无有]"
    r"|(?<![a-z])(?:f/u|r/o|s/p|d/t|present|positive|persist\w*|improv\w*|worsen\w*|resolv\w*"
    r"|develop\w*|show\w*|started|since|due to|treated|admitted|noted|on (?:med|tx|hd)\w*)(?![a-z])"
    # An item with a particle of its own has a predicate of its own, if more follows.
    rf"|(?:^|{MASK})(?:이|가|을|를|의|에|으로|로|은|는|만)\s+(?=\S)"
)
CLOSED = re.compile(rf"{_END.pattern}|{_PREDICATES}|{ANY.pattern.replace('?P<signs>', '?:')}", re.I)
# What may stand between an item and its own predicate: "증상 없음", "3일 전부터 없음".
_PARTICLE = "(?:은|는|이|가|도|을|를|의|으로|로|만|에)"
_TAIL = re.compile(
    r"(?:(?:소견|증거|증상|징후|양상|호소|동반|발생|재발|확인|관찰|병력|과거력|기왕력"
    r"|가족력|치료력|여부|모두|전부|다"
    r"|삽화|가능성|시사하는|합당한|뒷받침하는|의심되는|의심할 만한|의심|의심소견|의심 소견"
    r"|진행|(?:의심|시사|합당|뒷받침|해당)(?:되는|할 ?만한|하는|할|한)?"
    r"(?: ?[가-힣A-Za-z·]{1,14}){1,4}"
    r"|병변|음영|종괴|기준|근거"
    r"|단서|시사|뒷받침할|볼 ?만한|의심할 ?만한|의심할만한|의심할|의심하는|시사할|특별히|특별한"
    r"|에 대해서는|에 대해서|에 대해"
    r"|[가-힣]{0,6}(?:검사|내시경|생검|초음파|촬영|영상|심전도|뇌파|배양)(?:상|에서는"
    r"|에서|결과)?|결과|(?:문진|질문|면담|진찰|신체검사|청진|촉진|시진|육안|영상|판독"
    r"|기록|내시경|조직|혈액|근전도|임상)상|[A-Za-z가-힣]{2,8}에서는?|CT상|MRI상|CT에서"
    r"|MRI에서"
    r"|초음파상|초음파에서|해당"
    r"|등|등 합병증|최근|현재|과거에도|과거에|예전에도|이전에도|지금까지|현재까지|당시|평소"
    r"|최근에도|그동안|전혀|아직|(?:발작은? ?)?(?:아직 ?)?(?:단 ?)?한 ?번도|거의|안정 ?시"
    r"|휴식 ?시|보행 ?시|야간에|집안에 아무도|별다른|다른|더 이상|특별한"
    r"|뚜렷한|명백한|(?<![a-z])(?:is|was|are|were|sx|sign|signs"
    r"|symptoms?|hx\.?|sx\.?|history|evidence|findings?|clinically|currently|ct|mri|:|-)"
    rf"|{NUMBER}{_UNIT}\s?(?:간|동안|째|전부터|전|이내|내에?|안에|이상)?){_PARTICLE}?"
    rf"|{_PARTICLE}|[:\-–=,]?\s*\t)\s*$",
    re.IGNORECASE,
)
# Characters between a cue and its item, other mentions not counted; and with them.
REACH, WINDOW = 80, 400


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


def is_terminated(between: str, attribute: str = NEGATED) -> bool:
    """Tell whether something else is said about an item before the cue that follows it."""
    if attribute in PLANS:
        if _HAD.search(between):
            return True  # "위궤양 과거력으로 NSAID 주의"
        # "출혈, 감염 등 합병증 발생 가능성 설명": nouns on the way to what was said.
        between = COMPLICATIONS.sub("", between)
        if "," not in between:
            between = _SOON.sub(" ", between)  # "24-72h 후 올 수 있으므로"
    return all(
        CLOSED.search(text)
        for text in (
            _TOPIC.sub("", strip_predicate(between)),
            strip_predicate(_TOPIC.sub("", between)),
        )
    )


def unless_closed(brackets: "re.Match[str]") -> str:
    """Leave out an insertion in brackets that says nothing of its own."""
    return brackets.group() if CLOSED.search(brackets.group()) else " "


# "증상 (통증, 열) 있으면": an insertion; a bracket that is open where the cue stands.
INSERTED = re.compile(r"\s?[(\[（][^()\[\]（）\n]{2,60}[)\]）]")
OPENED = re.compile(r"[(\[（][^()\[\]（）\n]*$")
# "(ESRD 월수금), 해제 여부": the item's bracket is closed, and something else follows.
OUTSIDE = re.compile(r"^[^(\[（]*[)\]）]\s*[,.;]")
# "DVT는 하지 도플러에서 배제됨": the topic of a sentence reaches its predicate.
_TOPIC = re.compile(r"^(?:은|는|도|의)\s[^,;\n]{0,60}?(?:에서는?|상|결과|통해|후|으로|로)\s*$")
COMPLICATIONS = re.compile(
    r"(?:등)?(?:의|과|와)?\s*(?:[가-힣]{2,4}\s)?(?:합병증|후유증|부작용)"
    r"(?:이|으로|과|와|의|을|은|에)?(?:\s*(?:사망|발생|위험|가능성))*(?:의|에)?\s*$"
)
_SOON = re.compile(rf"{NUMBER}{_UNIT}\s?(?:후|뒤|이내|내)?(?:에)?")
_HAD = re.compile("과거력|기왕력|병력")


def strip_predicate(between: str) -> str:
    """Remove what belongs to the predicate of an item: "증상은", "3일 전부터"."""
    shorter = _TAIL.sub("", between.rstrip())
    while shorter != between:
        between, shorter = shorter, _TAIL.sub("", shorter.rstrip())
    return between


PLANS = (HYPOTHETICAL, INSTRUCTED)
# "CAP - ceftriaxone D7, ADE 없음", "GBS on IVIG, sepsis (-)", "diarrhea G1, fever 없음": an item
# of a list about which something is said: how it is treated, or how bad it is.
_TREATED = re.compile(
    rf"^[^,]*?(?:\s[-–:]\s?[^\W{MASK}]|(?<![a-z])on [a-z]"
    r"|(?<![a-z])(?:D|G|gr\.?|grade|stage)\s?[\dIV]"
    r"|(?<![a-z])(?:mild|moderate|severe|mod|trivial|controlled|multiple|several)\.?\s*(?=,)"
    r"|(?:경도|중등도|경증|중증|여러 ?(?:개|군데)|다수|다발성|소량|중등량|다량|약간|일부"
    r"|경미|조금)\s*(?=,))",
    re.IGNORECASE,
)
# "fever → TB lymphadenitis 확진, lymphoma 배제": what came next is another item.
_NEXT = re.compile(rf"(?:->|→|=>|⇒)[^,;\n]*{MASK}")
_STEP = re.compile("->|→|=>|⇒")
# "첫째 소아당뇨, 둘째는 없음"
_ANOTHER = re.compile(r"[,.]\s*(?:둘째|셋째|나머지|그 ?외|이외|다른 [가-힣]+)(?:는|은|에는|엔)")
_DASHED = re.compile(rf"\s[-–]\s*{MASK}")


def targets_later_item(between: str, attribute: str, *, listed: bool, item: bool) -> bool:
    """Tell whether a cue after an item is about a later one, or about what is done."""
    if _NEXT.search(between) or (attribute in PLANS and _STEP.search(between)):
        return True
    if _ANOTHER.search(between):
        return True
    if (item or attribute == POSSIBLE) and _DASHED.search(between):
        return True
    return listed and _TREATED.search(between) is not None


LIST = re.compile(
    rf"(?:{MASK}|[\s,/·+&()]|및|또는|와|과|이나|나|등의?|(?<![a-z])(?:and|or|vs\.?|rt"
    rf"|lt|both)(?![a-z]))*",
    re.IGNORECASE,
)
# Items of a list that are no mentions: "CSF leak·orbital hematoma·출혈", "PE, infection 등".
_NOUN = rf"(?:[{MASK}가-힣-]|(?!(?:on|for|with|by|since|after|and|due|via|of)\b)[A-Za-z])+"
NOUNS = re.compile(
    rf"\s*(?:(?:[,/·+&]|(?:or|and|및|또는)\s)\s*{_NOUN}\.?(?: {_NOUN}\.?){{0,2}}\s*)+(?:등의?)?\s*",
    re.IGNORECASE,
)


def has_shared_sign(right: str) -> bool:
    """Tell whether a list ends with one sign for all items: "fever, chills (-)"."""
    found = APART.search(right)
    if found is None or not is_near(between := right[: found.start()]) or is_terminated(between):
        return False
    if ":" in between and not LIST.fullmatch(strip_predicate(between)):
        return False  # "shoulder pain: laxity (-)"
    if "," in between and _TREATED.search(between):
        return False
    own = strip_predicate(between.partition(",")[0]) if "," in between else ""
    if re.search("[a-z]{3}", own, re.IGNORECASE):
        return False  # "매복치 horizontal, pericoronitis (-)"
    rest = right[found.end() :]
    end = _END.search(rest)
    return not ANY.search(rest[: end.start()] if end else rest)


def is_near(between: str) -> bool:
    return len(between.replace(MASK, "")) <= REACH


# Risks and complications that were explained to people, not observed. Such a span has words and
# lists of its own, which the reach of a single cue does not follow:
# "수술 후 출혈(1~2 %), 감염, 드물게 폐렴 가능성 보호자에게 설명함".
# What people are told of: "출혈, 감염 가능성 설명함", "consent: bleeding, infection".
_EXPLAINS = re.compile(
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
OWN_PREDICATE = re.compile(
    r"있[어음으고]|(?:으로|로)\s|진단|확인|의심|\(\+\)|환자|중(?:이|인|으로)|치료 중"
)
# A clause before it in the same sentence: "PCA 시작하고 오심 가능성 설명".
_CLAUSE = re.compile(
    r"(?:->|→|=>|⇒|[가-힣](?:고|며|서|여|음|함|됨|나|데)(?=[,\s])|(?:시작|예정|시행|의뢰"
    r"|처방|추가|권유|입원|내원|진단)(?=[,\s])"
    r"|[.;\n]|\d[.)]\s|(?<![a-z])(?:plan|tx|p)\s?[:)>])"
)


def explained_spans(hidden: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Give the start and end of each stretch, where it says that something may come, and its cue.

    hidden  a note with its mentions masked

    >>> list(explained_spans("동의서: 출혈, 감염\\n폐렴"))
    [(4, 11, 4, 0, 3)]
    """
    for tells in _EXPLAINS.finditer(hidden):
        near = max(0, tells.start() - WINDOW)
        line = max(near, hidden.rfind("\n", near, tells.start()) + 1)
        opens = _OPENS.match(hidden, tells.end())
        if opens:
            told = _SENTENCES.match(hidden, opens.end(), opens.end() + WINDOW)
            yield opens.end(), told.end() if told else opens.end(), opens.end(), *tells.span()
        else:
            before = hidden[line : tells.start()]
            starts = [one.end() for one in _CLAUSE.finditer(before.rstrip())]
            first = line + max(starts, default=0)
            at = max(line, first - 20)
            may = list(_MAY_COME.finditer(hidden, at, tells.end() + 6))
            if may:
                yield first, tells.start(), may[-1].start(), *tells.span()
    for block in _LISTED.finditer(hidden):
        yield (*block.span("items"), block.start(), block.start(), block.start("items") - 1)
