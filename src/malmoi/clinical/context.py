"""What a note says about its mentions: status, whose it is, how certain, which section (ConText).

Cues are words with a direction: English ones mostly precede what they are about ("no fever, cough
or chills"), Korean ones follow it ("발열, 기침 없음"). `scope` says how far a cue reaches.
Cues, headings, words for persons and chronic diseases are tables (`clinical/tables/*.tsv`); a
folder with tables of the same names extends them.
"""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..terms.expansion import sign
from .rules import (
    BABY,
    FAMILY,
    HISTORICAL,
    HYPOTHETICAL,
    INSTRUCTED,
    MOTHER,
    NEGATED,
    OTHER,
    PAST,
    PATIENT,
    POSSIBLE,
    PRESENT,
    RESOLVED,
    ContextRules,
    heading_key,
    read_hanja_words,
)
from .scope import (
    CLOSED,
    COMPLICATIONS,
    INSERTED,
    LIST,
    MASK,
    NOUNS,
    NUMBER,
    OPENED,
    OUTSIDE,
    OWN_PREDICATE,
    PLANS,
    REACH,
    WINDOW,
    explained_spans,
    has_shared_sign,
    is_near,
    is_terminated,
    masked,
    strip_predicate,
    targets_later_item,
    unless_closed,
)

UNCERTAIN, HISTORY = "uncertain", "history"


@dataclass(frozen=True)
class Assertion:
    """What a note says about a mention."""

    status: str = PRESENT  # negated, possible, hypothetical or historical
    experiencer: str = PATIENT  # family or other
    certainty: str = "certain"  # probable, possible, or disputed where the two readers disagree
    section: str = ""
    laterality: str = ""
    severity: str = ""
    stage: str = ""
    date: str = ""
    otherwise: str = ""  # what the other reader says of a disputed mention

    @property
    def attributes(self) -> tuple[str, ...]:
        """The same in words of older versions: nothing for what is present and the patient's."""
        words = {POSSIBLE: UNCERTAIN, HISTORICAL: HISTORY}
        found = () if self.status == PRESENT else (words.get(self.status, self.status),)
        return found if self.experiencer == PATIENT else (*found, self.experiencer)


# Who reports is not whose disease it is: "어머니와 함께 내원", "mother reports fever".
_INFORMS = re.compile(
    r"\s*(?:\([^()\n]{0,10}\)\s*|\))?(?:와|과|랑)?\s*(?:함께|같이|동반|동행|말로는|말에|진술"
    r"|의하면|에 의|에 따르|발견"
    r"|신고|목격|데리고|데려|업고|업혀|걱정|요청|동의|설명|상담|면담|연락|통해|호출|보고"
    r"|관찰|부축|옆|면회|상주|전화|사별|이혼|별거|다툼|다투|싸우|싸움|갈등|거주|살고|사는"
    r"|지냄|동거)"
    r"|\s*(?:report(?!edly)|stat|say|said|notic|note|found|find|brought|call|concern|worri"
    r"|den[iy]|describ"
    r"|at bedside|present at|agreed|informed)\w*",
    re.IGNORECASE,
)
_INFORMED = re.compile(
    r"(?:brought|accompanied|witnessed|reported|noticed|found|per|with|by|to)\s+(?:in\s+)?(?:by\s+)?"
    r"(?:his|her|the)?\s*(?:\w+(?:/|\s(?:and|&)\s))?$",
    re.IGNORECASE,
)
# "아들이 폐렴 발견하고 모시고 옴", "남편에게 폐렴 설명함"
_BRINGS = re.compile(r"[^,;.\n]{0,40}?(?:발견하|발견되어|목격하|모시고|데리고|데려)")
_PARENT = re.compile("어머니|어머님|엄마|모친|아버지|아버님|아빠|부친|시어머니|시아버지|장모|장인")
_CHILD_TELLS = re.compile(
    r"보호자\s?\((?:큰|작은|막내|첫째|둘째)?\s?(?:딸|아들|자녀|며느리|사위|손자|손녀)\)"
)
_DENIES = re.compile(rf"{MASK}(?:은|는|도|을|를|이|에 대해)?\s*$")
_TO_WHOM = re.compile("(?:에게|한테|께)$")
_ASIDE = re.compile(r"\)(?:에게|한테|께)")  # "보호자(처)에게 설명"
_TOLD = re.compile(
    r"[^;.\n]{0,80}?(?:설명|교육|안내|고지|연락|상담|알림|알려|전달|통보|권유|면담|당부)"
)
_NEWBORN = re.compile(
    r"(?<![a-z])(?:DOL|BW\s*:?\s*(?:\d[,.]?\d{2,3}\s*(?:g|gm|kg)?(?!\d)"
    r"|[0-5](?:\.\d+)?\s*kg)|BBW|Apgar|A/S\s*:?\s*\d|baby of|newborn)(?![a-z])"
    r"|재태|출생력|출생체중|출생 체중|생후\s*\d+\s*(?:일|시간)|신생아실|미숙아",
    re.IGNORECASE,
)
_NICU = re.compile(r"(?<![a-z])NICU(?![a-z])", re.IGNORECASE)
# A pregnant woman's note may name the ward that waits for her child.
_PREGNANT = re.compile(
    r"(?<![a-z])(?:NST|CTX|IUP|FHR|FHB|G\d ?P\d|preterm labor)(?![a-z])|진통|자궁수축"
    r"|태동|임신 ?\d+ ?주|양막",
    re.IGNORECASE,
)
# "가족력 없음, 고혈압 있음": a heading with nothing under it.
NOTHING = re.compile(
    r"[\s:)>\]=]*(?:없|none|특이|unremarkable|non-?contrib|n/?c(?![a-z])|no(?:ne|t)?\b[^,;\n]{0,15}[.;\n]"
    r"|denied|(?:\(|（)\s*[-−–]|[-−–](?=\s*(?:[,.\n]|$)))",
    re.IGNORECASE,
)
# "no fever, cough for 3 days": a predicate of one item of the list.
_OWN = re.compile(
    r"(?:은|는|이|가|도)?\s*(?:있|없|부인|호소|심[하한해함]|지속|양성|[無有]|present|positive"
    r"|persist|improv|s/p"
    rf"|worsen|since|(?:for|x)?\s*{NUMBER})",
    re.IGNORECASE,
)
_OR = re.compile(r"(?<![a-z])n?or\s+(?:\w+\s+)?$", re.IGNORECASE)
_LINE = 200  # characters that a heading reaches in running text
# "father had colon cancer": the experiencer reaches over the verb.
_HIS = re.compile(
    r"^\s*,?\s*(?:(?:is|was|were|are|also|both|who|recently|\w+ly)\s+)*(?:had|has|have|having|with"
    r"|died (?:of|from|at \d+ of)"
    r"|diagnosed (?:with|as)|suffer\w* from|treated for|history of|hx of|h/o)(?![a-z])",
    re.IGNORECASE,
)
# "HTN, r/o pneumonia": a cue between two items is about the second.
_AFTERWARDS = re.compile(r"\s*(?:[:→)]|[-–]\s)")
_DASH = re.compile(r"\s[-–]\s")
_LEADS_ON = re.compile(rf"[ \t]*(?:for\s+|of\s+)?{MASK}")
# "HIV 양성, RPR 음성": the sign is part of the name; but "HIV 양성 아님".
_POSITIVE = re.compile("(?:양성|positive)$", re.IGNORECASE)
_DENIED = re.compile(r"(?:은|는|이|도)?\s*(?:아[니닌님]|없)")
_LATIN = re.compile("[a-z]", re.IGNORECASE)
_HEADED = re.compile(r"[a-z가-힣]\s*[:：]", re.IGNORECASE)
_OLD = re.compile(r"(?:old|previous|prior|remote|healed)\s", re.IGNORECASE)
_DOUBTED = re.compile("(?:suspect|suspected|의심|의증)$", re.IGNORECASE)
_SENTENCE = re.compile(
    r"[.;\n](?=\s|$)|(?<![a-z])(?:but|however|then|otherwise|현재)(?![a-z])", re.I
)
_ENDS = re.compile(r"[ \t]*(?:[,.;]|\r?\n|$)")
_GLUE = re.compile(rf"및|또는|(?<={MASK})(?:이나|나|와|과)(?![가-힣])")
# "asthma N / COPD Y": a form, where there are several.
_WHEN = re.compile(r"시(?:에는|에도|에|엔|마다|는)?(?=[\s,.;:)/]|$)")
_YES_NO = re.compile(r"[ \t]?[:：]?[ \t]?(?P<yn>[NYny])(?:[oO]|es|ES)?(?![A-Za-z./-])")
_FORM = re.compile(r"[a-z가-힣)][ :：]{1,2}(?-i:[NY])(?=\s|[,/;(]|$)", re.IGNORECASE)
# "Influenza Ag A(-)": words of a test between a name and its sign.
_TESTED = re.compile(
    r"(?:(?:은|는)?\s*[-–:]?\s*(?:현재는?|지금은?|금일|최근|아직은?|양상|모두|둘 ?다|세 ?가지 ?모두"
    r"|전부|기왕|at onset|on exam|가족력|과거력|기왕력|병력|증상|징후|소견|유무|여부|F/?Hx?"
    r"|P/?Hx|Ag|Ab|antigen|antibody|항원|항체|PCR|RT-PCR|rapid|test|kit|검사|culture|배양"
    r"|IgM|IgG|toxin|A|B|A/B"
    r"|screening|screen|virus|sx|sign|Hx|CSF|smear|AFB|IGRA|QFT|biopsy|bx|doppler|echo"
    r"|TTE|TEE|CT|MRI|MRA"
    r"|sono|USG|EGD|[A-Z][a-z]+-[A-Z][a-z]+|KOH|SLRT?|Ortolani|Barlow|Babinski|Kernig|Brudzinski"
    r"|Romberg|Spurling|Phalen|Tinel|Murphy|Homan|McMurray|Lachman))+"
    r"(?=\s*[:：]?\s*(?:[(（\[]\s*[-−+]|[-−+](?!\s?\w)|[무유](?![가-힣])|(?<![A-Za-z])[xX×](?![A-Za-z가-힣])))",
    re.IGNORECASE,
)
# "Sjogren r/o -> SSA/SSB (-/-)": what came of it.
_ARROW = re.compile(
    r"[^\n;]{0,60}?(?:->|→|=>|⇒|위해(?:서)?[^\n;.]{0,20}?(?:시행|촬영|검사|확인))[^\n;]{0,60}?(?:(?<![a-z])(?:neg(?:ative)?"
    r"|wnl|normal|none|no|not)(?![a-z])|정상|음성"
    r"|없|아님|배제|[無无]|[(（]\s*[-−–](?:\s*/\s*[-−–])*\s*[)）])",
    re.IGNORECASE,
)
_NOW = re.compile(r"^\s*(?:\([^()\n]{1,12}\))?(?:가|이|는|은|도)?\s*현재")  # "누나(4세)가 현재"
# What is said of a person goes on over "있었고": "시아버지도 코골이 심했고 심근경색으로 돌아가심".
_STOP = re.compile(r"[.;](?=\s)")
_PERSON_END = re.compile(
    r"[.;。\n#](?=\s|$)|->|→|=>|⇒|(?<![가-힣])(?:현재|금일|내원|입원|본원|당원|이번|오늘|어제)"
    r"|\d+ ?(?:일|주|시간|개월|달) ?전부터|[A-Za-z가-힣]상 |결과|확인되|\(\+\)|호소|\s{3,}"
    r"|(?<![a-z])(?:but|however|except|although|now|currently|presents?|presented|p/w"
    r"|c/o|complain\w*"
    r"|admitted|without)(?![a-z])",
    re.IGNORECASE,
)
_FAMILY_AFTER = re.compile(
    r"(?:가족 중|집안에|가족력|(?<![a-z])(?:f/?hx?|family (?:history|hx)))(?![a-z])(?!\s*(?:상"
    r"|:|으로|에\s|\)|>))",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")
_JOINED = re.compile(r",\s*(?:n?or|and)(?![a-z])", re.IGNORECASE)
_OBSERVED = re.compile("관찰|보이|확인|발견|안 ?보|미관찰|미발견")
_HEADED_LIST = re.compile(r"[:—–]\s[^,]*,")
_NAMED = re.compile("[가-힣]{2}|[A-Za-z]{2}")
_ADJACENT = re.compile(r"\s?(?:은|는|이|가|의)?\s?")
_CONDITION = re.compile("시(?:에는|에도|에|엔|마다|는)?(?![가-힣])")
_RESULT = re.compile("음성|negative|neg(?![a-z])", re.IGNORECASE)


def attributes_of(note: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Give the attributes of each span: negated, uncertain, hypothetical, history, family, other.

    The spans are the mentions of a note, ascending and not overlapping.

    >>> attributes_of("체중감소 5kg, 야간발한(-), r/o 폐렴", [(0, 4), (10, 14), (23, 25)])
    [(), ('negated',), ('uncertain',)]
    """
    context = NoteContext.of(note, spans)
    return [context.assertion(*span).attributes for span in spans]


# A birth history does not make a newborn of "생후 14개월 남아".
_OLDER = re.compile(
    r"(?:생후\s*)?(?:[2-9]|\d\d)\s*개월(?:된)?\s*(?:남|여|환)아|생후\s*(?:[2-9]|\d\d)\s*개월"
    r"|\d+\s*(?:세|살)\s*(?:된\s*)?(?:남|여|환)아"
)


@dataclass(frozen=True)
class _Heading:
    """A heading, and where the text under it ends."""

    start: int
    end: int
    reach: int
    section: str
    effect: str


class NoteContext:
    """A note with its mentions masked, and every cue, person and heading in it."""

    def __init__(self, note: str, spans: Sequence[tuple[int, int]], rules: ContextRules) -> None:
        """Find everything once; the mentions are ascending and do not overlap."""
        note = read_hanja_words(note)
        self.note, self.hidden, self.rules = note, masked(note, spans), rules
        self._lines = _lines_with(MASK, self.hidden)
        self._cues = _without_parts(
            [
                (attribute, direction, self._matches(pattern))
                for attribute, direction, pattern in rules.cues
            ]
        )
        # Of a child the mother is family; the codes are a newborn's only in the first weeks.
        self.newborn = _NEWBORN.search(note) is not None or (
            _NICU.search(note) is not None and not _PREGNANT.search(note)
        )
        self.neonate = self.newborn and not _OLDER.search(note)
        self._headings = list(self._find_headings())
        self._ends = [heading.end for heading in self._headings]
        self._mothers: set[tuple[int, int]] = set()
        persons = sorted(self._find_persons(), key=lambda found: found[:2])
        # "같은 병실 환자" is not the patient.
        self._persons = [
            found
            for i, found in enumerate(persons)
            if found[2] != PATIENT
            # "배우자 본인도 위암"
            or (
                not (
                    i
                    and persons[i - 1][2] != PATIENT
                    and note[persons[i - 1][1] : found[0]] in (" ", "(", " (")
                    and note[found[0] : found[1]].startswith("본인")
                )
                and not any(
                    one[2] != PATIENT and one[0] <= found[0] and found[1] <= one[1]
                    for one in (*persons[max(0, i - 3) : i], *persons[i + 1 : i + 3])
                )
            )
        ]
        self._places = [found[0] for found in self._persons]
        self._explained = sorted(explained_spans(self.hidden))
        self._yes_no = len(_FORM.findall(self.hidden.replace(MASK, "x"))) > 2

    @classmethod
    def of(
        cls, note: str, spans: Sequence[tuple[int, int]], rules: ContextRules | None = None
    ) -> "NoteContext":
        """Mask the mentions of a note, which are ascending and do not overlap."""
        return cls(note, spans, rules or ContextRules.open())

    def landmarks(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Give the spans of all cues by attribute and direction, and of persons by who it is."""
        for attribute, direction, spans in self._cues:
            yield f"{attribute}/{direction}", spans
        for first, last, who in self._persons:
            yield f"person/{who}", [(first, last)]

    def _matches(self, pattern: "re.Pattern[str]") -> list[tuple[int, int]]:
        """Give where an expression matches outside of the mentions, in the lines that have some.

        What is said in other lines reaches none.
        """
        found = []
        for at, end in self._lines:
            while match := pattern.search(self.note, at, end):
                inside = self.hidden.rfind(MASK, match.start(), match.end())
                if inside >= 0:
                    at = inside + 1  # it began within a mention; the rest may be a match
                    continue
                found.append(match.span())
                at = max(match.end(), match.start() + 1)
        return found

    def _find_headings(self) -> Iterator[_Heading]:
        note, sections = self.note, self.rules.sections
        found = {
            match.end(): (match.start(), *sections[heading_key(match["name"])], True)
            for match in self.rules.headings.finditer(note)
            if self.hidden[match.start("name")] != MASK
        }
        for match in self.rules.inline.finditer(note):
            if match.end() not in found and self.hidden[match.start()] != MASK:
                section, effect = sections[heading_key(match["name"] or match["family"])]
                found.setdefault(match.end(), (match.start(), section, effect, False))
        ends = sorted(found)
        for at, end in enumerate(ends):
            start, section, effect, own_line = found[end]
            after = found[ends[at + 1]][0] if at + 1 < len(ends) else len(note)
            reach = self._reach(end, after, own_line, effect)
            yield _Heading(start, end, reach, section, effect)

    def _reach(self, end: int, after: int, own_line: bool, effect: str) -> int:
        """Give where the text under a heading ends: at the next one, or sooner."""
        note = self.note
        if NOTHING.match(note, end):
            return end
        line = note.find("\n", end)
        line = len(note) if line < 0 else line
        if not own_line:
            stop = re.compile(r"[.;]\s").search(note, end, min(line, end + _LINE))
            return min(after, stop.start() if stop else line)
        if not effect:
            return after
        if note[
            end:line
        ].strip():  # text on the heading's line: indented and listed lines belong to it
            pattern = re.compile(r"\n(?=[ \t]+\S|[ \t]*[-*•·]\s*\S)[^\n]*")
            while (more := pattern.match(note, line)) and line < after:
                line = more.end()
            return min(after, line)
        blank = re.compile(r"\n[ \t\r]*\n").search(note, line + 1)
        return min(after, blank.start() if blank else len(note))

    def _find_persons(self) -> Iterator[tuple[int, int, str]]:
        for who, pattern in self.rules.persons:
            for start, end in self._matches(pattern):
                if who not in (PATIENT, MOTHER, BABY) and (
                    _INFORMS.match(self.note, end)
                    or _BRINGS.match(self.hidden, end)
                    or (
                        (_TO_WHOM.search(self.note[start:end]) or _ASIDE.match(self.note, end))
                        and _TOLD.match(self.note, end)
                    )
                    or _INFORMED.search(self.note[max(0, start - 30) : start])
                ):
                    continue
                if who == PATIENT and self.note[end : end + 1] == "의":
                    continue
                if self._is_label(start, end):
                    continue
                if self._is_patient_by_child(start, end):
                    yield start, end, PATIENT
                    continue
                # "자살사고 부인": a denial, no wife.
                if self.note[start:end] == "부인" and _DENIES.search(self.hidden[:start][-12:]):
                    continue
                # Of a newborn the mother is family; a pregnant woman is the patient.
                if who in (MOTHER, BABY):
                    self._mothers.add((start, end))
                    yield start, end, FAMILY if self.newborn == (who == MOTHER) else PATIENT
                else:
                    yield start, end, who

    def _explained_status(self, start: int, end: int, chronic: bool) -> str:
        """Give what it means to be among what may come; "" where something else is said."""
        own = re.split(r"[,/·\n.;]", self.hidden[end : end + 40])[0]
        at = bisect.bisect_right(self._explained, (start, len(self.note), 0))
        for first, last, may in self._explained[max(0, at - 8) : at]:
            if first <= start < last and not OWN_PREDICATE.search(own):
                # "당뇨, 저혈당 증상 교육": a lasting disease may be there.
                return INSTRUCTED if chronic and may < end else HYPOTHETICAL
        return ""

    def _is_label(self, start: int, end: int) -> bool:
        """Tell whether it is the 부 of "(주) 폐렴 (부) 당뇨": the main and the other diagnoses."""
        return self.note[start - 1 : end + 1] == "(부)" and "(주)" in self.note

    def _is_patient_by_child(self, start: int, end: int) -> bool:
        """Tell whether a child speaks of the patient: "보호자(딸): 어머니 예전에 폐렴"."""
        if not _PARENT.match(self.note, start, end):
            return False
        line = self.note[max(0, start - WINDOW) : start].rpartition("\n")[2]
        return _CHILD_TELLS.search(line) is not None

    def assertion(
        self, start: int, end: int, *, chronic: bool = False, symptom: bool = False
    ) -> Assertion:
        """Say what the note says about one of its mentions.

        chronic  the disease lasts: in the past history it is present
        symptom  it is a sign or symptom: nobody suspects it, in "기침, 폐렴 의심"
        """
        heading = self._heading(start)
        diagnoses = heading is not None and heading.section in ("diagnosis", "assessment")
        found = self._cued(start, end, symptom=symptom, chronic=chronic, diagnoses=diagnoses)
        who = self._experiencer(start, end, heading)
        if who == PATIENT:
            who = next((one for one in (FAMILY, OTHER) if one in found), who)
        if heading is not None:
            found |= {PAST: {HISTORICAL}}.get(heading.effect, {heading.effect})
            grown = {"obstetric history": self.newborn, "birth": self.neonate}
            if not grown.get(heading.section, True):
                found.add(HISTORICAL)
        if _OLD.match(self.note, start, end):
            found |= {RESOLVED}
        if _DOUBTED.search(self.note[start:end]):
            found |= {POSSIBLE}
        found |= {self._explained_status(start, end, chronic)}
        if _WHEN.match(self.hidden, end):
            found.add(HYPOTHETICAL)  # "시력저하시 내원"
        found = self._signed(start, end, found)
        status = _status(found, chronic=chronic and who == PATIENT)
        if status == HISTORICAL and who != PATIENT and RESOLVED not in found:
            status = PRESENT  # "family history of" is nobody's past illness
        item = self._item(start, end)
        return Assertion(
            status,
            who,
            _certainty(status, item),
            heading.section if heading else "",
            _first(_LATERALITY, item),
            _first(_SEVERITY, item),
            _first(_STAGE, self.note[end : end + 30].split("\n")[0]),
            _first(_DATE, item),
        )

    def _cued(
        self, start: int, end: int, *, symptom: bool, chronic: bool, diagnoses: bool
    ) -> set[str]:
        found: set[str] = set()
        for attribute, direction, spans in self._cues:
            if attribute in found:
                continue
            # "진단: 폐렴, 결핵 의심": a list of diagnoses, each with its own certainty.
            item = direction.endswith("-item") or (diagnoses and attribute == POSSIBLE)
            if direction.startswith("before"):
                item = direction.endswith("-item")
                if self._reaches_forward(attribute, spans, start, end, item):
                    found.add(attribute)
            elif self._reaches_back(attribute, spans, end, item, symptom, chronic):
                found.add(attribute)
        return found

    def _reaches_forward(
        self, attribute: str, spans: list[tuple[int, int]], start: int, end: int, item: bool
    ) -> bool:
        """Tell whether a cue before an item is about it."""
        # Long notes have thousands of cues: only those before the item are looked at.
        for at in range(bisect.bisect_right(spans, (start, start)) - 1, -1, -1):
            first, last = spans[at]
            if last > start:
                continue
            if start - last > WINDOW:
                return False
            between = self.hidden[last:start]
            if not is_near(between) or "\n" in between:
                return False
            if item and "," in between:
                continue
            before = self.hidden[max(0, first - 4) : first].rstrip(" .")
            if _AFTERWARDS.match(between) and before.endswith(MASK):
                continue  # "Behcet r/o: 구강궤양(+)", "EM ca. r/o - 비만 있음"
            if attribute == POSSIBLE and _DASH.search(between):
                continue  # "r/o sepsis – maternal chorioamnionitis"
            if attribute == HYPOTHETICAL:
                # "If he develops chest pain": a condition has predicates of its own.
                own = _OWN.match(self.hidden, end) if "," in between else None
                if not _SENTENCE.search(between) and not own:
                    return True
            elif not self._is_cut_off(attribute, between, end):
                return True
        return False

    def _is_cut_off(self, attribute: str, between: str, end: int) -> bool:
        # "no C-spine fx. pelvis: pubic rami fx.": a heading of its own.
        if CLOSED.search(between) or _HEADED.search(between):
            return True
        # "no active lung lesion, atelectasis LLL": the cue has a noun of its own.
        head, comma, _ = between.partition(",")
        more = re.split(r"[.;\n]", self.hidden[end : end + REACH])[0]
        named = comma and MASK not in head and len(_WORDS.findall(head)) > 1
        joined = _OR.search(between) or _JOINED.search(more)
        if attribute == NEGATED and named and not joined:
            return True
        # An item that a cue reaches over a comma may have a predicate of its own.
        right = self.hidden[end : end + WINDOW]
        if "," in between and not _OR.search(between) and _OWN.match(right):
            return True
        # Korean after an English cue belongs to another clause: "no fever, 어제부터 기침".
        return attribute != HISTORICAL and bool(re.search("[가-힣]", _GLUE.sub("", between)))

    def _reaches_back(
        self,
        attribute: str,
        spans: list[tuple[int, int]],
        end: int,
        item: bool,
        symptom: bool,
        chronic: bool,
    ) -> bool:
        """Tell whether a cue after an item is about it."""
        # long because the cases are an ordered list of exceptions
        for at in range(bisect.bisect_left(spans, (end, end)), len(spans)):
            first, last = spans[at]
            between = self.hidden[end:first]
            if "\n" in between or first - end > WINDOW:
                return False
            if self.note[end - 1] == "." and _LEADS_ON.match(between):
                return False  # "renal cyst, Lt. RCC 의심": the point ended more than a word
            inside = OPENED.search(between)
            if inside:
                # "dysphagia (VFSS: aspiration 없음)": what stands in brackets is said of no more
                # than the item before them.
                if MASK in between or not _ADJACENT.fullmatch(between[: inside.start()]):
                    continue
                if (
                    attribute in (HISTORICAL, RESOLVED)
                    or not strip_predicate(inside.group()[1:]).strip()
                ):
                    return True
                continue
            between = INSERTED.sub(unless_closed, between)
            if OUTSIDE.search(between) or self._is_of_another(between, attribute, symptom):
                return False
            if not is_near(between) or is_terminated(between, attribute):
                return False
            listed = "," in between
            if targets_later_item(between, attribute, listed=listed, item=item):
                return False
            if self._person_at(end) < self._person_at(first):
                return False  # "배우자 확진, 자녀 음성"
            if _CONDITION.match(self.note, first) and not LIST.fullmatch(strip_predicate(between)):
                return False  # "흉통 운동 시 악화" is there
            if _RESULT.match(self.note, first) and not LIST.fullmatch(strip_predicate(between)):
                listed = True  # "만성 위염, 헬리코박터 음성": the result of another test
                if "," in between:
                    return False
            if item and listed:
                return False
            two = listed and len(re.findall(f"{MASK}+", between)) == 1
            topic = two and not symptom and re.search(f"{MASK}(?:은|는)", between)
            if topic and _OBSERVED.match(self.note, first):
                return False  # "역류성 식도염, 식도정맥류는 관찰되지 않음"
            if listed and _HEADED_LIST.search(between):
                return False  # "Dysphagia — VFSS: 물 흡인, PEG 없음"
            # "기침, 폐렴 의심", "HTN, stroke prevention": the first is there.
            if listed and (
                (symptom and attribute == POSSIBLE)
                or (chronic and attribute in PLANS and "등" not in between)
            ):
                return False
            # "AFib on apixaban for stroke prevention": only a list is prevented together.
            if attribute not in _FACTS and MASK in between:
                rest = strip_predicate(COMPLICATIONS.sub("", strip_predicate(between)))
                nouns = LIST.fullmatch(rest) or (attribute in PLANS and NOUNS.fullmatch(rest))
                if not nouns:
                    return False
            leads_on = _LEADS_ON.match(self.hidden, last) and _LATIN.match(self.note[first])
            if leads_on and _VERSUS.match(self.note, first):
                leads_on = None  # about both
            # "adenoma, probably, 1.2cm"
            ends = _ENDS.match(self.note, last) is not None
            if not leads_on and (ends or not between.rstrip().endswith(",")):
                return True
        return False

    @staticmethod
    def _is_of_another(between: str, attribute: str, symptom: bool) -> bool:
        """Tell whether a noun that is no mention stands between a comma and the cue.

        "Hyperkalemia, EKG peaked T 없음": the cue is about that. Symptoms are denied together, and
        one word may be a symptom that the lexicon does not have.
        """
        last = strip_predicate(between.rpartition(",")[2])
        if "," not in between or MASK in last or not _NAMED.search(last):
            return False
        return len(last.split()) > 1 and not (symptom and attribute == NEGATED)

    def _signed(self, start: int, end: int, found: set[str]) -> set[str]:
        """Let the item's own sign decide whatever is said about the list."""
        note, hidden = self.note, self.hidden
        left = hidden[max(0, start - WINDOW) : start]
        right = hidden[end : end + WINDOW]
        tested = _TESTED.match(right)
        own = sign(left, right[tested.end() :] if tested else right)
        yes_no = _YES_NO.match(note, end) if self._yes_no else None
        if not own and yes_no:
            own = "-" if yes_no["yn"] in "Nn" else "+"
        if _POSITIVE.search(note[start:end]) and not _DENIED.match(note, end):
            own = "+"
        if own:
            found = found - {NEGATED}
        if own == "-" or (not own and has_shared_sign(right)):
            found = found | {NEGATED}
        if POSSIBLE in found and _ARROW.match(right):
            found = found | {NEGATED}
        return found

    def _experiencer(self, start: int, end: int, heading: _Heading | None) -> str:
        who = ""
        for at in range(self._person_at(start) - 1, -1, -1):
            first, last, person = self._persons[at]
            if last > start:
                continue
            if start - last > WINDOW:
                break
            between = _NOW.sub("", _HIS.sub("", self.hidden[last:start]))
            if "\n" in between or NOTHING.match(self.note, last):
                break
            if person == PATIENT:
                # "환자 父 뇌동맥류": the nearer one counts, which came first here.
                who = PATIENT
                break
            whole = self._in_family(heading) or (first, last) in self._mothers
            cut = (_STOP if whole else _PERSON_END).search(between)
            if cut or not is_near(between):
                break
            who = person
            break
        if who and who != PATIENT:
            return who
        right = self.hidden[end : end + 60]
        after = _FAMILY_AFTER.search(right)
        if re.match(r"\s?의?\s?가족력", right):
            return FAMILY  # "기흉 가족력 : 친형(+)"
        if after and not is_terminated(right[: after.start()]):
            return FAMILY
        behind = re.match(
            r"[^\n,;.]{0,12}(?:\(|\bin (?:her|his|the|a )?\s*|\bof (?:her|his) )|\s*[:：\-–]\s*|\s",
            right,
        )
        if behind:
            place = self._person_at(end + behind.end())
            named = not re.fullmatch(r"\s*[:：\-–]?\s*", behind.group())
            for first, last, person in self._persons[place : place + 2]:
                # "AMD: 모친.", but not "흉통: 아들과 다툰 후".
                alone = named or re.match(r"\s*(?:[,.;/)\n(]|$)", self.note[last : last + 3])
                if person != PATIENT and first - end == behind.end() and alone:
                    return person
        # "폐암으로 형님 사망"
        by = re.match(r"(?:으로|로)\s+", right)
        place = self._person_at(end + by.end()) if by else len(self._persons)
        if by and place < len(self._persons):
            first, last, person = self._persons[place]
            if first == end + by.end() and person != PATIENT and _SUFFERS.match(self.note, last):
                return person
        if who == PATIENT:
            return PATIENT
        if heading is not None:
            if heading.effect == FAMILY:
                return FAMILY
            if heading.effect == MOTHER and self.newborn:
                return FAMILY
            if heading.effect == BABY and not self.newborn:
                return FAMILY
        return PATIENT

    def _in_family(self, heading: _Heading | None) -> bool:
        return heading is not None and heading.effect == FAMILY

    def _heading(self, start: int) -> _Heading | None:
        at = bisect.bisect_right(self._ends, start) - 1
        return self._headings[at] if at >= 0 and start < self._headings[at].reach else None

    def _person_at(self, place: int) -> int:
        """Give how many persons are named before a place."""
        return bisect.bisect_left(self._places, place)

    def _item(self, start: int, end: int) -> str:
        """Give a mention with what stands around it, up to commas."""
        left = re.split(rf"[,;\n(){MASK}]", self.hidden[max(0, start - 24) : start])[-1]
        right = re.split(rf"[;\n{MASK}]", self.hidden[end : end + 32])[0]
        right = re.split(r"\),?|,\s(?=[가-힣a-z]{4})", right)[0]
        return f"{left}{self.note[start:end]}{right}"


_SUFFERS = re.compile(r"\s*(?:\d+세에?\s*)?(?:사망|작고|별세|돌아가|수술|치료|투병|입원|진단|고생)")
_VERSUS = re.compile(r"vs\.?(?![a-z])|versus", re.IGNORECASE)
_FACTS = (NEGATED, HISTORICAL, RESOLVED)
_LATERALITY = (
    ("bilateral", r"(?<![a-z])(?:both|bilateral|bilat|b/l|OU)(?![a-z])|양측|양쪽|양안"),
    ("right", r"(?<![a-z])(?:right|rt|OD)(?![a-z])|우측|오른쪽|우안"),
    ("left", r"(?<![a-z])(?:left|lt|OS)(?![a-z])|좌측|왼쪽|좌안"),
)
_SEVERITY = (
    ("severe", r"(?<![a-z])severe(?![a-z])|중증|심한"),
    ("moderate", r"(?<![a-z])(?:moderate|mod)(?![a-z])|중등도"),
    ("mild", r"(?<![a-z])mild(?![a-z])|경도|경증"),
)
_STAGE = (
    (
        "",
        r"^[\s,(]*(?:with\s+)?((?:stage|grade|gr|class|type|NYHA|GOLD|CTP|Child(?:-Pugh)?"
        r"|K-?L|Forrest|Garden|ECOG)"
        r"\.?\s*(?:gr\.?\s*)?(?:[IV]{1,3}[ABCabc]?|\d[ABCabc]?|[A-D])(?![a-z\d])|\d기"
        r"|제?\d형|c?p?T\d\w*N\d\w*M\d\w*)",
    ),
)
_DATE = (
    (
        "",
        r"((?:19|20)\d\d(?:\s*[.\-/년]\s*\d{1,2}(?:\s*[.\-/월]\s*\d{1,2}일?)?)?(?:년(?:부터)?)?"
        r"|\d+\s*(?:년|개월|주|일|시간)\s*전(?:부터)?|\d+\s*(?:years?|yrs?|months?|weeks?|days?"
        r"|hrs?) ago"
        r"|x\s*\d+\s*(?:yrs?|years?|months?|weeks?|days?)|작년|어제|금일|어릴 ?때|소아기"
        r"|childhood)",
    ),
)
_COMPILED = {
    id(table): [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in table]
    for table in (_LATERALITY, _SEVERITY, _STAGE, _DATE)
}
_PROBABLE = re.compile(r"(?<![a-z])(?:likely|probabl[ey]|presumed|suggest\w*)(?![a-z])|추정", re.I)


def _lines_with(mark: str, text: str) -> list[tuple[int, int]]:
    """Give the start and end of every line that has a mark."""
    found = []
    at = text.find(mark)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        found.append((text.rfind("\n", 0, at) + 1, end))
        at = text.find(mark, end)
    return found


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    for name, pattern in _COMPILED[id(table)]:
        found = pattern.search(text)
        if found:
            return name or found.group(1).strip()
    return ""


def _certainty(status: str, item: str) -> str:
    if status == POSSIBLE:
        return "probable" if _PROBABLE.search(item) else "possible"
    return "certain"


def _without_parts(
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


def _status(found: set[str], *, chronic: bool) -> str:
    """Choose the status of all that cues say; what would do harm is decided first."""
    if RESOLVED in found:
        return HISTORICAL
    if NEGATED in found:
        return NEGATED
    if HYPOTHETICAL in found or (INSTRUCTED in found and not chronic):
        return HYPOTHETICAL
    if POSSIBLE in found:
        return POSSIBLE
    return HISTORICAL if HISTORICAL in found and not chronic else PRESENT
