"""What a note says about its mentions: status, whose it is, how certain, which section (ConText).

Cues are words with a direction: English ones mostly precede what they are about ("no fever, cough
or chills"), Korean ones follow it ("발열, 기침 없음"). `scope` says how far a cue reaches.
Cues, headings, words for persons and chronic diseases are tables (`clinical/tables/*.tsv`); a
folder with tables of the same names extends them.
"""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
    Reason,
    heading_key,
    read_hanja_words,
    status_of,
)
from .scope import (
    EXPRESSIONS,
    INSERTED,
    MASK,
    OPENED,
    OUTSIDE,
    PLANS,
    REACH,
    WINDOW,
    Grammar,
    Scope,
    is_near,
    lines_with,
    masked,
    sign_place,
    without_parts,
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
    why: tuple[Reason, ...] = ()  # of the status, the experiencer and the certainty

    @property
    def attributes(self) -> tuple[str, ...]:
        """The same in words of older versions: nothing for what is present and the patient's."""
        words = {POSSIBLE: UNCERTAIN, HISTORICAL: HISTORY}
        found = () if self.status == PRESENT else (words.get(self.status, self.status),)
        return found if self.experiencer == PATIENT else (*found, self.experiencer)


_TO_WHOM = re.compile("(?:에게|한테|께)$")
_ASIDE = re.compile(r"\)(?:에게|한테|께)")  # "보호자(처)에게 설명"
_DENIES = re.compile(rf"{MASK}(?:은|는|도|을|를|이|에 대해)?\s*$")
_LINE = 200  # characters that a heading reaches in running text
# "HTN, r/o pneumonia": a cue between two items is about the second.
_AFTERWARDS = re.compile(r"\s*(?:[:→)]|[-–]\s)")
_DASH = re.compile(r"\s[-–]\s")
_LATIN = re.compile("[a-z]", re.IGNORECASE)
_HEADED = re.compile(r"[a-z가-힣]\s*[:：]", re.IGNORECASE)
_ENDS = re.compile(r"[ \t]*(?:[,.;]|\r?\n|$)")
# "asthma N / COPD Y": a form, where there are several.
_YES_NO = re.compile(r"[ \t]?[:：]?[ \t]?(?P<yn>[NYny])(?:[oO]|es|ES)?(?![A-Za-z./-])")
_FORM = re.compile(r"[a-z가-힣)][ :：]{1,2}(?-i:[NY])(?=\s|[,/;(]|$)", re.IGNORECASE)
# What is said of a person goes on over "있었고": "시아버지도 코골이 심했고 심근경색으로 돌아가심".
_STOP = re.compile(r"[.;](?=\s)")
_WORDS = re.compile(r"\w+")
_HEADED_LIST = re.compile(r"[:—–]\s[^,]*,")
_NAMED = re.compile("[가-힣]{2}|[A-Za-z]{2}")
_ADJACENT = re.compile(r"\s?(?:은|는|이|가|의)?\s?")


def attributes_of(note: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Give the attributes of each span: negated, uncertain, hypothetical, history, family, other.

    The spans are the mentions of a note, ascending and not overlapping.

    >>> attributes_of("체중감소 5kg, 야간발한(-), r/o 폐렴", [(0, 4), (10, 14), (23, 25)])
    [(), ('negated',), ('uncertain',)]
    """
    context = NoteContext.of(note, spans)
    return [context.assertion(*span).attributes for span in spans]


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
        self._re = _grammar(rules)
        self._scope = Scope(self._re)
        self.note, self.hidden, self.rules = note, masked(note, spans), rules
        self._lines = lines_with(MASK, self.hidden)
        self._cues = without_parts(
            [
                (attribute, direction, self._matches(pattern))
                for attribute, direction, pattern in rules.cues
            ]
        )
        # Of a child the mother is family; the codes are a newborn's only in the first weeks.
        self.newborn = self._re["newborn"].search(note) is not None or (
            self._re["ward"].search(note) is not None and not self._re["pregnant"].search(note)
        )
        self.neonate = self.newborn and not self._re["older"].search(note)
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
                    and self._re["himself"].match(note, found[0])
                )
                and not any(
                    one[2] != PATIENT and one[0] <= found[0] and found[1] <= one[1]
                    for one in (*persons[max(0, i - 3) : i], *persons[i + 1 : i + 3])
                )
            )
        ]
        self._places = [found[0] for found in self._persons]
        self._explained = sorted(self._scope.explained(self.hidden))
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
        if self._re["nothing"].match(note, end):
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
                    self._re["informs"].match(self.note, end)
                    or self._re["brings"].match(self.hidden, end)
                    or (
                        (_TO_WHOM.search(self.note[start:end]) or _ASIDE.match(self.note, end))
                        and self._re["tells"].match(self.note, end)
                    )
                    or self._re["informed"].search(self.note[max(0, start - 30) : start])
                    or self._re["own history"].search(self.note[max(0, start - 20) : start])
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
                if self._re["denies"].fullmatch(self.note[start:end]) and _DENIES.search(
                    self.hidden[:start][-12:]
                ):
                    continue
                # Of a newborn the mother is family; a pregnant woman is the patient.
                if who in (MOTHER, BABY):
                    self._mothers.add((start, end))
                    yield start, end, FAMILY if self.newborn == (who == MOTHER) else PATIENT
                else:
                    yield start, end, who

    def _reason(
        self, says: str, start: int, end: int, rule: str, source: str = "", *, by: str = ""
    ) -> Reason:
        """Give a reason whose cue is a part of the note, without the space around it.

        by  the expression that found it, whose words are in grammar.tsv
        """
        cue = self.note[start:end]
        source = source or (self._re.row(by, cue) if by else "")
        start += len(cue) - len(cue.lstrip(" \t\n:：-"))
        cue = cue.strip(" \t\n:：-") or cue
        return Reason(says, cue, start, start + len(cue), source, rule)

    def _explained_status(self, start: int, end: int, chronic: bool) -> Reason | None:
        """Give what it means to be among what may come; None where something else is said."""
        own = re.split(r"[,/·\n.;]", self.hidden[end : end + 40])[0]
        at = bisect.bisect_right(self._explained, (start, len(self.note), 0))
        for first, last, may, *cue in self._explained[max(0, at - 8) : at]:
            if first <= start < last and not self._re["OWN_PART"].search(own):
                # "당뇨, 저혈당 증상 교육": a lasting disease may be there.
                says = INSTRUCTED if chronic and may < end else HYPOTHETICAL
                return self._reason(
                    says, cue[0], cue[1], "people are told that it may come", by="EXPLAINS"
                )
        return None

    def _is_label(self, start: int, end: int) -> bool:
        """Tell whether it is the 부 of "(주) 폐렴 (부) 당뇨": the main and the other diagnoses."""
        return self.note[start - 1 : end + 1] == "(부)" and "(주)" in self.note

    def _is_patient_by_child(self, start: int, end: int) -> bool:
        """Tell whether a child speaks of the patient: "보호자(딸): 어머니 예전에 폐렴"."""
        if not self._re["parent"].match(self.note, start, end):
            return False
        line = self.note[max(0, start - WINDOW) : start].rpartition("\n")[2]
        return self._re["child tells"].search(line) is not None

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
        who, whose = self._experiencer(start, end, heading)
        if who == PATIENT:
            who = next((one for one in (FAMILY, OTHER) if one in found), who)
            whose = found.get(who, whose)
        if heading is not None:
            says = {PAST: HISTORICAL}.get(heading.effect, heading.effect)
            if says != HISTORICAL or not self._re["ongoing"].match(self.hidden, end):
                found.setdefault(says, self._under(heading, says))
            grown = {"obstetric history": self.newborn, "birth": self.neonate}
            if not grown.get(heading.section, True):
                found.setdefault(HISTORICAL, self._under(heading, HISTORICAL))
        old, doubted = (
            self._re["old"].match(self.note, start, end),
            self._re["doubted"].search(self.note[start:end]),
        )
        if old:
            found[RESOLVED] = self._reason(RESOLVED, *old.span(), "in its own words", by="old")
        if doubted:
            place = (start + doubted.start(), start + doubted.end())
            found[POSSIBLE] = self._reason(POSSIBLE, *place, "in its own words", by="doubted")
        explained = self._explained_status(start, end, chronic)
        if explained is not None:
            found.setdefault(explained.says, explained)
        when = self._re["when"].match(self.hidden, end)
        if when:  # "시력저하시 내원"
            found.setdefault(
                HYPOTHETICAL, self._reason(HYPOTHETICAL, *when.span(), "after it", by="when")
            )
        found = self._signed(start, end, found, symptom)
        status, because = status_of(found, chronic=chronic and who == PATIENT)
        if status == HISTORICAL and who != PATIENT and RESOLVED not in found:
            status, because = PRESENT, None  # "family history of" is nobody's past illness
        item = self._item(start, end)
        likely = self._re["probable"].search(item) if status == POSSIBLE else None
        certainty = "probable" if likely else POSSIBLE if status == POSSIBLE else "certain"
        why = [replace(because, says=status)] if because else []
        why += [replace(whose, says=who)] if whose and who != PATIENT else []
        if likely:
            left = start - item.index(self.note[start:end])
            place = (left + likely.start(), left + likely.end())
            why.append(self._reason(certainty, *place, "next to it", by="probable"))
        return Assertion(
            status,
            who,
            certainty,
            heading.section if heading else "",
            next((one for one in _LATERALITY if self._re[one].search(item)), ""),
            next((one for one in _SEVERITY if self._re[one].search(item)), ""),
            self._group("stage", self.note[end : end + 30].split("\n")[0]),
            self._group("date", self._item(start, end, dates=True)),
            why=tuple(why),
        )

    def _group(self, name: str, text: str) -> str:
        found = self._re[name].search(text)
        return found[1].strip() if found else ""

    def _under(self, heading: _Heading, says: str) -> Reason:
        words = self.note[heading.start : heading.end]
        row = self.rules.row_of_word("sections.tsv", words)
        return self._reason(says, heading.start, heading.end, "under this heading", row)

    def _cued(
        self, start: int, end: int, *, symptom: bool, chronic: bool, diagnoses: bool
    ) -> dict[str, Reason]:
        found: dict[str, Reason] = {}
        for attribute, direction, spans in self._cues:
            if attribute in found:
                continue
            # "진단: 폐렴, 결핵 의심": a list of diagnoses, each with its own certainty.
            item = direction.endswith("-item") or (diagnoses and attribute == POSSIBLE)
            if direction.startswith("before"):
                item = direction.endswith("-item")
                cue = self._reaches_forward(attribute, spans, start, end, item)
            else:
                cue = self._reaches_back(attribute, spans, start, end, item, symptom, chronic)
                if cue is None and attribute == NEGATED:
                    cue = self._conclusion(spans, end)
            if cue is not None:
                between = self.hidden[cue[1] : start] or self.hidden[end : cue[0]]
                place = "before" if cue[0] < start else "after"
                where = "over a list" if MASK in between or "," in between else "same clause"
                row = self.rules.row_of_cue(attribute, direction, self.note, *cue)
                found[attribute] = self._reason(attribute, *cue, f"{place} it, {where}", row)
        return found

    def _reaches_forward(
        self, attribute: str, spans: list[tuple[int, int]], start: int, end: int, item: bool
    ) -> tuple[int, int] | None:
        """Give the cue before an item that is about it."""
        # Long notes have thousands of cues: only those before the item are looked at.
        for at in range(bisect.bisect_right(spans, (start, start)) - 1, -1, -1):
            first, last = spans[at]
            if last > start:
                continue
            if start - last > WINDOW:
                return None
            between = self.hidden[last:start]
            if not is_near(between) or "\n" in between:
                return None
            if item and "," in between:
                continue
            before = self.hidden[max(0, first - 4) : first].rstrip(" .")
            if _AFTERWARDS.match(between) and before.endswith(MASK):
                continue  # "Behcet r/o: 구강궤양(+)", "EM ca. r/o - 비만 있음"
            if attribute == POSSIBLE and _DASH.search(between):
                continue  # "r/o sepsis – maternal chorioamnionitis"
            if attribute == HYPOTHETICAL:
                # "If he develops chest pain": a condition has predicates of its own.
                own = self._re["own"].match(self.hidden, end) if "," in between else None
                if not self._re["sentence"].search(between) and not own:
                    return first, last
            elif not self._is_cut_off(attribute, between, end):
                return first, last
        return None

    def _is_cut_off(self, attribute: str, between: str, end: int) -> bool:
        # "no C-spine fx. pelvis: pubic rami fx.": a heading of its own.
        if self._re["CLOSED"].search(between) or _HEADED.search(between):
            return True
        # "no active lung lesion, atelectasis LLL": the cue has a noun of its own.
        head, comma, _ = between.partition(",")
        more = re.split(r"[.;\n]", self.hidden[end : end + REACH])[0]
        named = comma and MASK not in head and len(_WORDS.findall(head)) > 1
        joined = self._re["or"].search(between) or self._re["and"].search(more)
        if attribute == NEGATED and named and not joined:
            return True
        # An item that a cue reaches over a comma may have a predicate of its own.
        right = self.hidden[end : end + WINDOW]
        if "," in between and not self._re["or"].search(between) and self._re["own"].match(right):
            return True
        # Korean after an English cue belongs to another clause: "no fever, 어제부터 기침".
        return attribute != HISTORICAL and bool(
            re.search("[가-힣]", self._re["glue"].sub("", between))
        )

    def _reaches_back(
        self,
        attribute: str,
        spans: list[tuple[int, int]],
        start: int,
        end: int,
        item: bool,
        symptom: bool,
        chronic: bool,
    ) -> tuple[int, int] | None:
        """Give the cue after an item that is about it."""
        # long because the cases are an ordered list of exceptions
        left = self.hidden[max(0, start - 24) : start]
        for at in range(bisect.bisect_left(spans, (end, end)), len(spans)):
            first, last = spans[at]
            between = self.hidden[end:first]
            if "\n" in between or first - end > WINDOW:
                return None
            if self.note[end - 1] == "." and self._re["leads on"].match(between):
                return None  # "renal cyst, Lt. RCC 의심": the point ended more than a word
            inside = OPENED.search(between)
            if inside:
                # "dysphagia (VFSS: aspiration 없음)": what stands in brackets is said of no more
                # than the item before them.
                if MASK in between or not _ADJACENT.fullmatch(between[: inside.start()]):
                    continue
                if (
                    attribute in (HISTORICAL, RESOLVED)
                    or not self._scope.strip_predicate(inside.group()[1:]).strip()
                ):
                    return first, last
                continue
            between = INSERTED.sub(self._scope.unless_closed, between)
            if OUTSIDE.search(between) or self._is_of_another(between, attribute, symptom):
                return None
            if not is_near(between) or self._scope.is_terminated(between, attribute):
                return None
            listed = "," in between
            if (
                listed
                and attribute == NEGATED
                and self._scope.is_affirmed(left, between, symptom=symptom)
            ):
                return None  # "Hb 11.2 빈혈, HBsAg 음성"
            if self._scope.targets_later_item(between, attribute, listed=listed, item=item):
                return None
            if self._person_at(end) < self._person_at(first):
                return None  # "배우자 확진, 자녀 음성"
            if self._re["condition"].match(self.note, first) and not self._scope.is_list(between):
                return None  # "흉통 운동 시 악화" is there
            if self._re["result"].match(self.note, first) and not self._scope.is_list(between):
                listed = True  # "만성 위염, 헬리코박터 음성": the result of another test
                if "," in between:
                    return None
            if item and listed:
                return None
            two = listed and len(re.findall(f"{MASK}+", between)) == 1
            topic = two and not symptom and re.search(f"{MASK}(?:은|는)", between)
            if topic and self._re["observed"].match(self.note, first):
                return None  # "역류성 식도염, 식도정맥류는 관찰되지 않음"
            if listed and _HEADED_LIST.search(between):
                return None  # "Dysphagia — VFSS: 물 흡인, PEG 없음"
            # "기침, 폐렴 의심", "HTN, stroke prevention": the first is there.
            if listed and (
                (symptom and attribute == POSSIBLE)
                or (chronic and attribute in PLANS and "등" not in between)
            ):
                return None
            # "AFib on apixaban for stroke prevention": only a list is prevented together.
            if attribute not in _FACTS and MASK in between:
                rest = self._scope.strip_predicate(
                    self._re["COMPLICATIONS"].sub("", self._scope.strip_predicate(between))
                )
                nouns = self._re["LIST"].fullmatch(rest) or (
                    attribute in PLANS and self._re["NOUNS"].fullmatch(rest)
                )
                if not nouns:
                    return None
            leads_on = self._re["leads on"].match(self.hidden, last) and _LATIN.match(
                self.note[first]
            )
            if leads_on and self._re["versus"].match(self.note, first):
                leads_on = None  # about both
            # "adenoma, probably, 1.2cm"
            ends = _ENDS.match(self.note, last) is not None
            if not leads_on and (ends or not between.rstrip().endswith(",")):
                return first, last
        return None

    def _conclusion(self, spans: list[tuple[int, int]], end: int) -> tuple[int, int] | None:
        """Give the cue that is said of a topic after a reason: "폐렴은 발열 없어 배제함"."""
        for first, last in spans[bisect.bisect_left(spans, (end, end)) :]:
            between = self.hidden[end:first]
            if "\n" in between or not is_near(between):
                return None
            if self._re["concludes"].match(self.note, first) and self._re["reason"].match(between):
                return first, last
        return None

    def _is_of_another(self, between: str, attribute: str, symptom: bool) -> bool:
        """Tell whether a noun that is no mention stands between a comma and the cue.

        "Hyperkalemia, EKG peaked T 없음": the cue is about that. Symptoms are denied together, and
        one word may be a symptom that the lexicon does not have.
        """
        last = self._scope.strip_predicate(between.rpartition(",")[2])
        if "," not in between or MASK in last or not _NAMED.search(last):
            return False
        return len(last.split()) > 1 and not (symptom and attribute == NEGATED)

    def _signed(
        self, start: int, end: int, found: dict[str, Reason], symptom: bool
    ) -> dict[str, Reason]:
        """Let the item's own sign decide whatever is said about the list."""
        note, hidden = self.note, self.hidden
        left = hidden[max(0, start - WINDOW) : start]
        right = hidden[end : end + WINDOW]
        tested = self._re["tested"].match(right.partition("\n")[0])
        own = sign(left, right[tested.end() :] if tested else right)
        yes_no = _YES_NO.match(note, end) if self._yes_no else None
        if not own and yes_no:
            own = "-" if yes_no["yn"] in "Nn" else "+"
        if self._re["positive"].search(note[start:end]) and not self._re["denied"].match(note, end):
            own = "+"
        if own:
            found = {says: why for says, why in found.items() if says != NEGATED}
        shared = not own and self._scope.has_shared_sign(right)
        if own == "-" or (shared and not self._scope.is_affirmed(left, right, symptom=symptom)):
            place = yes_no.span() if yes_no else sign_place(hidden, start, end)
            rule = "its own sign" if own else "the sign of its list"
            found[NEGATED] = self._reason(NEGATED, *place, rule)
        came = self._re["came"].match(hidden, end) if POSSIBLE in found else None
        if came and NEGATED not in found:
            found[NEGATED] = self._reason(NEGATED, *came.span(), "what came of it", by="came")
        return found

    def _experiencer(
        self, start: int, end: int, heading: _Heading | None
    ) -> tuple[str, Reason | None]:
        who, place = "", (0, 0)
        for at in range(self._person_at(start) - 1, -1, -1):
            first, last, person = self._persons[at]
            if last > start:
                continue
            if start - last > WINDOW:
                break
            between = self._re["his now"].sub("", self._re["his"].sub("", self.hidden[last:start]))
            if "\n" in between or self._re["nothing"].match(self.note, last):
                break
            if person == PATIENT:
                # "환자 父 뇌동맥류": the nearer one counts, which came first here.
                who = PATIENT
                break
            whole = self._in_family(heading) or (first, last) in self._mothers
            cut = (_STOP if whole else self._re["person ends"]).search(between)
            if cut or not is_near(between):
                break
            who, place = person, (first, last)
            break
        if who and who != PATIENT:
            return who, self._by_person(who, place, "before it")
        right = self.hidden[end : end + 60].partition("\n")[0]
        after = self._re["family after"].search(right)
        owned = self._re["its family"].match(right)  # "기흉 가족력 : 친형(+)"
        both = self._re["both histories"].search(right)
        if both and not self._scope.is_terminated(right[: both.start()]):
            owned = after = None
        if owned or (after and not self._scope.is_terminated(right[: after.start()])):
            first, last = (owned or after).span()  # type: ignore[union-attr]
            return FAMILY, self._reason(
                FAMILY, end + first, end + last, "after it, same clause", by="family after"
            )
        behind = re.match(
            r"[^\n,;.]{0,12}(?:\(|\bin (?:her|his|the|a )?\s*|\bof (?:her|his) )|\s*[:：\-–]\s*|\s",
            right,
        )
        if behind:
            at = self._person_at(end + behind.end())
            named = not re.fullmatch(r"\s*[:：\-–]?\s*", behind.group())
            for first, last, person in self._persons[at : at + 2]:
                # "AMD: 모친.", but not "흉통: 아들과 다툰 후".
                alone = named or re.match(r"\s*(?:[,.;/)\n(]|$)", self.note[last : last + 3])
                if person != PATIENT and first - end == behind.end() and alone:
                    return person, self._by_person(person, (first, last), "after it")
        # "폐암으로 형님 사망"
        by = re.match(r"(?:으로|로)\s+", right)
        at = self._person_at(end + by.end()) if by else len(self._persons)
        if by and at < len(self._persons):
            first, last, person = self._persons[at]
            if (
                first == end + by.end()
                and person != PATIENT
                and self._re["suffers"].match(self.note, last)
            ):
                return person, self._by_person(person, (first, last), "after it")
        if who == PATIENT:
            return PATIENT, None
        if heading is not None:
            family = {FAMILY: True, MOTHER: self.newborn, BABY: not self.newborn}
            if family.get(heading.effect):
                return FAMILY, self._under(heading, FAMILY)
        return PATIENT, None

    def _by_person(self, who: str, place: tuple[int, int], where: str) -> Reason:
        row = self.rules.row_of_word("persons.tsv", self.note[place[0] : place[1]])
        return self._reason(who, *place, f"a person {where}, same clause", row)

    def _in_family(self, heading: _Heading | None) -> bool:
        return heading is not None and heading.effect == FAMILY

    def _heading(self, start: int) -> _Heading | None:
        at = bisect.bisect_right(self._ends, start) - 1
        return self._headings[at] if at >= 0 and start < self._headings[at].reach else None

    def _person_at(self, place: int) -> int:
        """Give how many persons are named before a place."""
        return bisect.bisect_left(self._places, place)

    def _item(self, start: int, end: int, *, dates: bool = False) -> str:
        """Give a mention with what is around it, up to commas; of dates, not the next one's."""
        left = re.split(rf"[,;\n(){MASK}]", self.hidden[max(0, start - 24) : start])[-1]
        right = re.split(rf"[;\n{MASK}]", self.hidden[end : end + 32])[0]
        if dates and self.hidden[end + len(right) : end + 32].startswith(MASK):
            right = right.rpartition(",")[0] or right
        right = re.split(r"\),?|,\s(?=[가-힣a-z]{4})", right)[0]
        return f"{left}{self.note[start:end]}{right}"


_FACTS = (NEGATED, HISTORICAL, RESOLVED)
_LATERALITY, _SEVERITY = ("bilateral", "right", "left"), ("severe", "moderate", "mild")


@lru_cache(maxsize=16)
def _grammar(rules: ContextRules) -> Grammar:
    return Grammar(rules.words, EXPRESSIONS)
