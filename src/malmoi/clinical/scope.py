"""How far a cue reaches: through a list, up to an item about which something else is said.

    체중감소 5kg, 야간발한 없음      the number closes the first item: the cue is about the second
    발열, 기침, 가래 없음            nothing does: the cue is about all three
    기침이 심하고 발열 없음          a predicate closes it, and so does its particle

Mentions are masked while this is decided, so that 감소 in 체중감소 is no predicate. The words are
lists of `tables/grammar.tsv`; reach is written here, as expressions of those lists.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ..terms.expansion import ANY, APART
from .rules import HYPOTHETICAL, INSTRUCTED, NEGATED, POSSIBLE

MASK = "\ue000"  # a letter of private use, which no note has
# Characters between a cue and its item, other mentions not counted; and with them.
REACH, WINDOW = 80, 400
PLANS = (HYPOTHETICAL, INSTRUCTED)
# "증상 (통증, 열) 있으면": an insertion; a bracket that is open where the cue stands.
INSERTED = re.compile(r"\s?[(\[（][^()\[\]（）\n]{2,60}[)\]）]")
OPENED = re.compile(r"[(\[（][^()\[\]（）\n]*$")
# "(ESRD 월수금), 해제 여부": the item's bracket is closed, and something else follows.
OUTSIDE = re.compile(r"^[^(\[（]*[)\]）]\s*[,.;]")
# "DVT는 하지 도플러에서 배제됨": the topic of a sentence reaches its predicate.
_TOPIC = re.compile(r"^(?:은|는|도|의)\s[^,;\n]{0,60}?(?:에서는?|상|결과|통해|후|으로|로)\s*$")
# "fever → TB lymphadenitis 확진, lymphoma 배제": what came next is another item.
_NEXT = re.compile(rf"(?:->|→|=>|⇒)[^,;\n]*{MASK}")
_STEP = re.compile("->|→|=>|⇒")
_DASHED = re.compile(rf"\s[-–]\s*{MASK}")
_PARTICLE = "(?:은|는|이|가|도|을|를|의|으로|로|만|에)"

# {list} is a list of grammar.tsv, {NAME} another expression; letters match in any case.
EXPRESSIONS = {
    "MASK": MASK,
    "ANY": ANY.pattern.replace("?P<signs>", "?:"),
    # A measurement, a dose or a time. "제2형" and "COVID-19" have numbers in their names.
    "NUMBER": r"(?<![A-WYZa-wyz\d제-])\d+(?:[.,:/~-]\d+)*(?!\d)(?!\s?(?:형|차(?![가-힣])))",
    "UNIT": r"\s?(?:[A-Za-z%℃°]+|{unit})?",
    # A clause ends here, and with it the reach of any cue: at line ends, not at commas.
    # A heading starts a new clause, and so do the marks of RTF that was pasted.
    "END": r"(?<!vs)\.(?!\w)|[;。\n\r]|#|(?:^|\s)\d{1,2}[.)]\s|\\{rich_text}"
    r"|,\s*{heading_in_line}\s*:|{clause_end}|\(\+\)",
    "PREDICATE": r"{NUMBER}|[一二三四五六七八九十數]+[年月日週]"
    # Korean predicates begin a word: 감소 in 체중감소 is none.
    r"|(?<![가-힣]){predicate_word}|{predicate}"
    r"|[가-힣](?:함|됨|하며|되며|이며|하고|되고|이고|하여|되어|해서|지만|는데)(?=[\s,])"
    # An item with a particle of its own has a predicate of its own, if more follows.
    r"|(?:^|{MASK})(?:이|가|을|를|의|에|으로|로|은|는|만)\s+(?=\S)",
    "CLOSED": r"{END}|{PREDICATE}|{ANY}",
    # What may stand between an item and its own predicate: "증상 없음", "3일 전부터 없음".
    "TAIL": rf"(?:(?:{{tail}}|(?<![a-z])[:-]|{{NUMBER}}{{UNIT}}\s?{{duration}}?){_PARTICLE}?"
    rf"|{_PARTICLE}|[:\-–=,]?\s*\t)\s*$",
    "COMPLICATIONS": r"(?:등)?(?:의|과|와)?\s*(?:[가-힣]{2,4}\s)?{complication}"
    r"(?:이|으로|과|와|의|을|은|에)?(?:\s*{complication_end})*(?:의|에)?\s*$",
    "SOON": r"{NUMBER}{UNIT}\s?{soon}?(?:에)?",
    "HAD": r"{had}",
    # "CAP - ceftriaxone D7, ADE 없음", "GBS on IVIG, sepsis (-)", "diarrhea G1, fever 없음"
    "TREATED": rf"^[^,]*?(?:\s[-–:]\s?[^\W{MASK}]|{{treated_on}} [a-z]|{{graded}}\s?[\dIV]"
    r"|{extent}\s*(?=,))",
    # "첫째 소아당뇨, 둘째는 없음"
    "ANOTHER": r"[,.]\s*{another}(?:는|은|에는|엔)",
    "LIST": r"(?:{MASK}|[\s,/·+&()]|{in_list})*",
    # Items of a list that are no mentions: "CSF leak·orbital hematoma·출혈", "PE, infection 등".
    "NOUN": rf"(?:[{MASK}가-힣-]|(?!{{no_noun}}\b)[A-Za-z])+",
    "NOUNS": r"\s*(?:(?:[,/·+&]|(?:{or}|{and}|{joins})\s)\s*{NOUN}\.?(?: {NOUN}\.?){0,2}\s*)+"
    r"{and_so_on}?\s*",
    # Risks and complications that were explained to people, not observed. Such a span has words
    # and lists of its own, which the reach of a single cue does not follow:
    # "수술 후 출혈(1~2 %), 감염, 드물게 폐렴 가능성 보호자에게 설명함".
    "EXPLAINS": r"{explains}",
    # ... where it has not come: a list of what the patient has is told without such a word.
    "MAY_COME": r"{may_come}",
    # A sentence, and those after it that still say what may come.
    "SENTENCES": r"(?:[^.\n]|\.(?!\s))*"
    r"(?:\.\s+(?:[^.\n]|\.(?!\s))*?{MAY_COME}(?:[^.\n]|\.(?!\s))*)*",
    "OPENS": r"[^\S\n]*{explained_noun}?(?:{explained_to}\s[\w/ ]{1,20})?(?:\s?[:：(\[]|\s[-–—]\s)",
    # "아래와 같은 문제가 생길 수 있음을 설명함", and the lines listed below it.
    "LISTED": r"(?m:^)[^\n]{0,80}{following}[^\n]{0,80}{occasion}[^\n]{0,80}\n"
    r"(?P<items>(?:[ \t]*(?:[-*•·▶○①-⑳]|\d+[.)]|[가-하][.)])[^\n]*(?:\n|$))+)",
    # What is said of an item alone, so that it is not among what may come.
    "OWN_PART": r"{own_part}|\(\+\)",
    # A clause before it in the same sentence: "PCA 시작하고 오심 가능성 설명".
    "CLAUSE": r"(?:->|→|=>|⇒|[가-힣](?:고|며|서|여|음|함|됨|나|데)(?=[,\s])|{clause_noun}(?=[,\s])"
    r"|[.;\n]|\d[.)]\s|{plan_heading}\s?[:)>])",
    # Who reports is not whose disease it is: "어머니와 함께 내원", "mother reports fever".
    "informs": r"\s*(?:\([^()\n]{0,10}\)\s*|\))?(?:와|과|랑)?\s*{informs}",
    "informed": r"{informed}\s+(?:in\s+)?(?:by\s+)?{article}?\s*(?:\w+(?:/|\s(?:and|&)\s))?$",
    # "아들이 폐렴 발견하고 모시고 옴", "남편에게 폐렴 설명함"
    "brings": r"[^,;.\n]{0,40}?{brings}",
    "tells": r"[^;.\n]{0,80}?{telling}",
    "parent": r"{parent}",
    "child tells": r"{guardian}\s?\({which}?\s?{child}\)",
    "himself": r"{himself}",
    "denies": r"{wife_or_denial}$",
    "newborn": r"{newborn}",
    "ward": r"{newborn_ward}",
    "pregnant": r"{pregnant}",
    # A birth history does not make a newborn of "생후 14개월 남아".
    "older": r"(?:생후\s*)?(?:[2-9]|\d\d)\s*{months}(?:된)?\s*{boy_or_girl}"
    r"|생후\s*(?:[2-9]|\d\d)\s*{months}|{old_child}{boy_or_girl}",
    # "가족력 없음, 고혈압 있음": a heading with nothing under it.
    "nothing": r"[\s:)>\]=]*(?:{all_of}\s)?"
    r"(?:{nothing}|(?:\(|（)\s*[-−–]|[-−–](?=\s*(?:[,.\n]|$)))",
    # "no fever, cough for 3 days": a predicate of one item of the list.
    "own": r"(?:은|는|이|가|도)?\s*(?:{own_predicate}|(?:for|x)?\s*{NUMBER})",
    "or": r"{or}\s+(?:\w+\s+)?$",
    # "father had colon cancer": the experiencer reaches over the verb.
    "his": r"^\s*,?\s*(?:{his_adverb}\s+)*{his_verb}",
    "leads on": r"[ \t]*(?:{leads}\s+)?{MASK}",
    # "HIV 양성, RPR 음성": the sign is part of the name; but "HIV 양성 아님".
    "positive": r"{positive}$",
    "denied": r"(?:은|는|이|도)?\s*{denied}",
    "old": r"{old}\s",
    "doubted": r"{doubted}$",
    "sentence": r"[.;\n](?=\s|$)|(?<![a-z]){turns}",
    "glue": r"{joins}|(?<={MASK})(?:이나|나|와|과)(?![가-힣])",
    "when": r"{when}(?:에는|에도|에|엔|마다|는)?(?=[\s,.;:)/]|$)",
    "condition": r"{when}(?:에는|에도|에|엔|마다|는)?(?![가-힣])",
    # "Influenza Ag A(-)": words of a test between a name and its sign.
    "tested": r"(?:(?:은|는)?\s*[-–:]?\s*(?:{tested}|[A-Z][a-z]+-[A-Z][a-z]+))+"
    r"(?=\s*[:：]?\s*(?:[(（\[]\s*[-−+]|[-−+](?!\s?\w)|[무유](?![가-힣])"
    r"|(?<![A-Za-z])[xX×](?![A-Za-z가-힣])))",
    # "Sjogren r/o -> SSA/SSB (-/-)": what came of it.
    "came": r"[^\n;]{0,60}?(?:->|→|=>|⇒|{in_order_to}[^\n;.]{0,20}?{done})[^\n;]{0,60}?"
    r"(?:{cleared}|[(（]\s*[-−–](?:\s*/\s*[-−–])*\s*[)）])",
    "his now": r"^\s*(?:\([^()\n]{1,12}\))?(?:가|이|는|은|도)?\s*{now}",
    "person ends": r"[.;。\n#](?=\s|$)|->|→|=>|⇒|(?<![가-힣]){person_end_word}|\(\+\)|\s{3,}"
    r"|\d+ ?{time_unit} ?전부터|[A-Za-z가-힣]상 |{person_end}",
    "family after": r"{family_after}(?![a-z])(?!\s*(?:상|:|으로|에\s|\)|>))",
    "its family": r"[ \t]?의?[ \t]?{family_history}",
    # "고혈압 병력 및 가족력은 없었고": the patient's and the family's are denied together.
    "both histories": r"[ \t]?의?[ \t]?(?:{own_history}{with_history}{family_history}"
    r"|{family_history}{with_history}{own_history})",
    "own history": r"{own_history}\s+(?:{or}|{and})\s+$",
    # "UTI: U/A clean, unlikely", "폐렴은 발열 없어 배제함": a reason, then what follows from it.
    "reason": rf"^(?:(?:은|는)\s|\s?[:：]\s|\s[-–]\s)(?![^;\n]*{MASK}(?:은|는))[^;\n]{{0,80}}?"
    r"(?:{reason_end}|,|→|->)\s*$",
    "ongoing": r"[^,.;\n]{0,15}?{ongoing}",
    "concludes": r"{concludes}",
    # "Hb 11.2 빈혈", "Lt MCA infarction": a value or a side of its own.
    "has value": r"[A-Za-z가-힣+]\s?{NUMBER}\s?(?:[A-Za-z%][A-Za-z/%]{0,5})?\s?[-–:(]?\s?$",
    "has side": r"(?:{bilateral}|{right}\.?|{left}\.?|{lobe})(?:\s[A-Za-z가-힣]+)?\s?$",
    "suffers": r"\s*(?:\d+세에?\s*)?{suffers}",
    "and": r",\s*(?:{or}|{and})",
    "observed": r"{observed}",
    "result": r"{negative_result}",
    "versus": r"{versus}",
    "probable": r"{probable}",
    "bilateral": r"{bilateral}",
    "right": r"{right}",
    "left": r"{left}",
    "severe": r"{severe}",
    "moderate": r"{moderate}",
    "mild": r"{mild}",
    "stage": r"^[\s,(]*(?:with\s+)?({stage}\.?\s*(?:gr\.?\s*)?(?:[IV]{1,3}[ABCabc]?|\d[ABCabc]?"
    r"|[A-D])(?![a-z\d])|\d기|제?\d형|c?p?T\d\w*N\d\w*M\d\w*)",
    "date": r"((?:19|20)\d\d(?:\s*[.\-/년]\s*\d{1,2}(?:\s*[.\-/월]\s*\d{1,2}일?)?)?(?:년(?:부터)?)?"
    r"|\d+\s*{long_unit}\s*전(?:부터)?|\d+\s*{english_unit} {ago}|x\s*\d+\s*{english_unit}|{date})",
}


class Grammar:
    """Expressions that are made of named lists of words, each when it is first asked for."""

    def __init__(
        self, words: Mapping[str, Mapping[str, str]], expressions: Mapping[str, str]
    ) -> None:
        """Take the lists (each word with its row) and what is made of them."""
        self._words, self._expressions = words, expressions
        self._made: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> "re.Pattern[str]":
        if name not in self._made:
            self._made[name] = re.compile(self._text(self._expressions[name]), re.IGNORECASE)
        return self._made[name]

    def _text(self, expression: str) -> str:
        return re.sub(
            r"\{([A-Z_]+|[a-z_]+)\}", lambda name: f"(?:{self._part(name[1])})", expression
        )

    def _part(self, name: str) -> str:
        if name.isupper():
            return self._text(self._expressions[name])
        return "|".join(sorted(map(_word, self._words[name]), key=len, reverse=True))

    def row(self, name: str, cue: str) -> str:
        """Give the row of the word by which an expression found a cue."""
        lists = re.findall(r"\{([a-z_]+)\}", self._expressions[name])
        known = {word: row for one in lists for word, row in self._words[one].items()}
        rows = [row for word, row in known.items() if re.search(_word(word), cue, re.IGNORECASE)]
        return rows[0] if rows else ""


def _word(word: str) -> str:
    """Give the expression of a word: Korean is spaced as one likes, Latin words stand alone."""
    if word.startswith("/"):
        return f"(?:{word[1:-1]})"
    plain = re.sub(r"(?<=[가-힣]) (?=[가-힣])", r"\\s?", word.rstrip("*").replace(".", r"\."))
    if not re.match("[a-z]", word, re.IGNORECASE):
        return plain
    return rf"(?<![a-z]){plain}" + (r"\w*" if word.endswith("*") else "(?![a-z])")


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


def is_near(between: str) -> bool:
    """Tell whether a cue is so near to its item that it may be about it."""
    return len(between.replace(MASK, "")) <= REACH


class Scope:
    """How far cues reach, by the words of a grammar."""

    def __init__(self, grammar: Grammar) -> None:
        """Take the grammar, whose expressions are those of this module and others."""
        self._re = grammar

    @cached_property
    def _closed(self) -> "re.Pattern[str]":
        return self._re["CLOSED"]

    def is_terminated(self, between: str, attribute: str = NEGATED) -> bool:
        """Tell whether something else is said about an item before the cue that follows it."""
        if attribute in PLANS:
            if self._re["HAD"].search(between):
                return True  # "위궤양 과거력으로 NSAID 주의"
            # "출혈, 감염 등 합병증 발생 가능성 설명": nouns on the way to what was said.
            between = self._re["COMPLICATIONS"].sub("", between)
            if "," not in between:
                between = self._re["SOON"].sub(" ", between)  # "24-72h 후 올 수 있으므로"
        return all(
            self._closed.search(text)
            for text in (
                _TOPIC.sub("", self.strip_predicate(between)),
                self.strip_predicate(_TOPIC.sub("", between)),
            )
        )

    def unless_closed(self, brackets: "re.Match[str]") -> str:
        """Leave out an insertion in brackets that says nothing of its own."""
        return brackets.group() if self._closed.search(brackets.group()) else " "

    def strip_predicate(self, between: str) -> str:
        """Remove what belongs to the predicate of an item: "증상은", "3일 전부터"."""
        shorter = self._re["TAIL"].sub("", between.rstrip())
        while shorter != between:
            between, shorter = shorter, self._re["TAIL"].sub("", shorter.rstrip())
        return between

    def is_list(self, between: str) -> bool:
        """Tell whether nothing but other items stands between an item and its predicate."""
        return self._re["LIST"].fullmatch(self.strip_predicate(between)) is not None

    def is_affirmed(self, left: str, between: str, *, symptom: bool) -> bool:
        """Tell whether an item of a list has a value or a side, which the later ones have not."""
        left = re.split(r"[,;\n]", left)[-1]
        later = re.split(f"{MASK}+", between.partition(",")[2])[0]
        side = self._re["has side"]
        own = not symptom and bool(side.search(left)) and not side.search(later)
        return own or self._re["has value"].search(left) is not None

    def targets_later_item(self, between: str, attribute: str, *, listed: bool, item: bool) -> bool:
        """Tell whether a cue after an item is about a later one, or about what is done."""
        if _NEXT.search(between) or (attribute in PLANS and _STEP.search(between)):
            return True
        if self._re["ANOTHER"].search(between):
            return True
        if (item or attribute == POSSIBLE) and _DASHED.search(between):
            return True
        return listed and self._re["TREATED"].search(between) is not None

    def has_shared_sign(self, right: str) -> bool:
        """Tell whether a list ends with one sign for all items: "fever, chills (-)"."""
        found = APART.search(right)
        if found is None or not is_near(between := right[: found.start()]):
            return False
        if self.is_terminated(between):
            return False
        if ":" in between and not self.is_list(between):
            return False  # "shoulder pain: laxity (-)"
        if "," in between and self._re["TREATED"].search(between):
            return False
        own = self.strip_predicate(between.partition(",")[0]) if "," in between else ""
        if re.search("[a-z]{3}", own, re.IGNORECASE):
            return False  # "매복치 horizontal, pericoronitis (-)"
        rest = right[found.end() :]
        end = self._re["END"].search(rest)
        return not ANY.search(rest[: end.start()] if end else rest)

    def explained(self, hidden: str) -> Iterator[tuple[int, int, int, int, int]]:
        """Give the start and end of each stretch, where it says that it may come, and its cue.

        hidden  a note with its mentions masked
        """
        for tells in self._re["EXPLAINS"].finditer(hidden):
            near = max(0, tells.start() - WINDOW)
            line = max(near, hidden.rfind("\n", near, tells.start()) + 1)
            opens = self._re["OPENS"].match(hidden, tells.end())
            if opens:
                told = self._re["SENTENCES"].match(hidden, opens.end(), opens.end() + WINDOW)
                end = told.end() if told else opens.end()
                yield opens.end(), end, opens.end(), *tells.span()
            else:
                before = hidden[line : tells.start()].rstrip()
                starts = [one.end() for one in self._re["CLAUSE"].finditer(before)]
                first = line + max(starts, default=0)
                at = max(line, first - 20)
                may = list(self._re["MAY_COME"].finditer(hidden, at, tells.end() + 6))
                if may:
                    yield first, tells.start(), may[-1].start(), *tells.span()
        for block in self._re["LISTED"].finditer(hidden):
            yield (*block.span("items"), block.start(), block.start(), block.start("items") - 1)


_BARE_SIGN = re.compile("[-−–×☐□✗]|(?<![a-z])x(?![a-z])|무", re.IGNORECASE)


def sign_place(hidden: str, start: int, end: int) -> tuple[int, int]:
    """Give where the sign of an item stands: after it, else before it, in its line."""
    first = hidden.rfind("\n", 0, start) + 1
    after, before = hidden[end:].split("\n")[0][:REACH], hidden[first:start]
    for expression in (ANY, _BARE_SIGN):
        if found := expression.search(after):
            return end + found.start(), end + found.end()
        if places := [one.span() for one in expression.finditer(before)]:
            return first + places[-1][0], first + places[-1][1]
    return start, end


def lines_with(mark: str, text: str) -> list[tuple[int, int]]:
    """Give the start and end of every line that has a mark."""
    found = []
    at = text.find(mark)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        found.append((text.rfind("\n", 0, at) + 1, end))
        at = text.find(mark, end)
    return found


def without_parts(
    cues: list[tuple[str, str, list[tuple[int, int]]]],
) -> list[tuple[str, str, list[tuple[int, int]]]]:
    """Leave out cues that are a part of a longer one: "ruled out" in "cannot be ruled out"."""
    every = sorted(
        ((first, -last, attribute) for attribute, _, spans in cues for first, last in spans)
    )
    parts: set[tuple[int, int, str]] = set()
    around: list[tuple[int, int, str]] = []  # the cues that began before and reach further
    for first, minus, attribute in every:
        last = -minus
        around = [one for one in around if one[1] > first]
        if any(
            end >= last and end - start > last - first and other != attribute
            for start, end, other in around
        ):
            parts.add((first, last, attribute))
        around.append((first, last, attribute))
    return [
        (attribute, direction, [one for one in spans if (*one, attribute) not in parts])
        for attribute, direction, spans in cues
    ]
