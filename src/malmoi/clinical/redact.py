"""De-identification: numbers, names, addresses and dates of a note found and masked, offsets kept.

Rules know the forms of Korean notes: resident numbers, phones, hospital numbers, e-mail, addresses,
names after a title or a label (환자명:, 보호자, Dr.), dates. A tagger that knows persons and places can
be given. A mask is as long as what it hides, so offsets stay valid.

Nothing here promises anonymity: a name without a label, a nickname, a rare disease or a place of work
may stay. Read a sample before anything leaves the house.
"""

# ruff: noqa: E501 - an expression reads better in one piece

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import OptionError
from ..text.cleanup import as_text
from .reader import MentionTagger

DATES = ("mask", "keep", "shift")
_MASK = "*"
_SURNAMES = (
    "김이박최정강조윤장임한오서신권황안송전홍유고문양손배백허남심노하곽성차주우구나민진지엄채원천방공현함변염여추"
    "도소석선설마길연위표명기반왕금옥육인맹제모탁국어은편용"
)
_GIVEN = r"[가-힣]{1,2}"
_NAME = rf"(?:[{_SURNAMES}]{_GIVEN}|(?:남궁|황보|제갈|사공|선우|서문|독고){_GIVEN})"
_HIDDEN = r"[가-힣][OoXx○◯●*＊]{1,2}[가-힣]?"  # 김OO, 홍*동
_LATIN_NAME = r"[A-Z][a-z]+(?:[ -][A-Z][a-z]+){0,2}"
_LABELS = (
    r"(?:환자\s?명|환자\s?성명|성\s?명|이름|환자|보호자|담당의|담당\s?의사|주치의|의사|전공의|집도의|간호사|수술의"
    r"|기록자|작성자|의뢰자|판독의|서명|pt\.?\s*name|patient\s*name|name|patient)"
)
_NUMBER_LABELS = (
    r"(?:등록\s?번호|환자\s?번호|병록\s?번호|차트\s?번호|원무\s?번호|챠트\s?번호|접수\s?번호|검체\s?번호|보험증?\s?번호|증\s?번호"
    r"|hospital\s*(?:no|number|id)|h\.?\s?no|chart\s*(?:no|number)|mrn|pt\.?\s*(?:no|id)|patient\s*(?:no|id)|reg\.?\s*no"
    r"|accession\s*(?:no|number)|PID)"
)
_PLACE = (
    r"(?:서울|부산|대구|인천|광주|대전|울산|세종|경기|강원|충북|충남|전북|전남|경북|경남|제주|충청[남북]?|전라[남북]?|경상[남북]?)"
    r"(?:특별자치시|특별자치도|특별시|광역시|도|시)?"
)
_UNIT = r"[가-힣0-9·]{1,10}(?:시|군|구|읍|면|동|리|가|로|길)"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"

# Kind, and an expression whose group `hide` (else all of it) is hidden. Earlier ones win.
_RULES: tuple[tuple[str, "re.Pattern[str]"], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE if flags else 0))
    for kind, pattern, flags in (
        ("resident", r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\s?[-–−~]?\s?[0-9]\d{6}(?!\d)", 0),
        ("resident", r"(?<!\d)\d{6}\s?[-–−]\s?[0-9][\d*xX●]{6}", 0),
        ("passport", r"(?<![A-Za-z0-9])[MSRODG]\d{3}[A-Z]?\d{4,5}(?![A-Za-z0-9])", 0),
        ("email", r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", 0),
        ("url", r"https?://[^\s<>\"']+", 1),
        ("phone", r"(?<![\d.-])(?:\+?82[-\s.]?|0)(?:1[016789]|2|[3-6][1-5]|70|50\d)[-\s.)]{0,2}\d{3,4}[-\s.]?\d{4}(?![\d])", 0),
        ("phone", r"(?<!\d)1[5-9]\d{2}-\d{4}(?!\d)", 0),
        ("number", rf"{_NUMBER_LABELS}\s*[:.#)\]]?\s*(?P<hide>[A-Z]?\d[\d-]{{3,14}})", 1),
        ("account", r"(?:계좌|카드)\s?(?:번호)?\s*[:.]?\s*(?P<hide>\d[\d -]{8,22}\d)", 0),
        ("account", r"(?<!\d)\d{4}[- ]\d{4}[- ]\d{4}[- ]\d{4}(?!\d)", 0),
        ("address", rf"{_PLACE}\s+(?:{_UNIT}\s*){{1,5}}(?:\d+(?:-\d+)?\s?(?:번지|호|동|층)?,?\s*){{0,4}}(?:\([가-힣0-9, ]{{1,20}}\))?", 0),
        ("address", r"(?<![가-힣])[가-힣0-9]{1,8}(?:로|길)\s?\d{1,4}(?:-\d{1,4})?(?:번길\s?\d{1,4})?(?:,?\s?\d{1,4}(?:동|호|층)){0,3}(?![가-힣\d%])", 0),
        ("address", r"(?:주소|거주지|address)\s*[:.]\s*(?P<hide>[^\n]{4,80})", 1),
        ("address", r"[가-힣A-Za-z0-9]{2,15}(?:아파트|빌라|맨션|오피스텔|주공)\s?\d{0,4}\s?동?\s?\d{0,5}\s?호?", 0),
        ("name", rf"{_LABELS}\s*[:：)\]]\s*(?P<hide>{_NAME}|{_HIDDEN}|{_LATIN_NAME})(?![가-힣])", 1),
        ("name", rf"(?:환자명|성명|환자성명|보호자|주치의|담당의|전공의|집도의|의사|교수|간호사|Dr\.?|R[1-4])\s+(?P<hide>{_NAME})(?=\s?(?:님|씨|교수|선생|의사|간호사|[,.)/\s]|$))", 0),
        ("name", rf"(?<![가-힣])(?P<hide>{_NAME})\s?(?:님|씨|교수(?:님)?|선생님|의사|간호사|전공의|원장|과장|주임|수간호사|보호사)(?=[\s,.)은는이가을를께의에과와로:]|$)", 0),
        ("name", rf"(?<![A-Za-z])(?:Dr|Prof|Mr|Mrs|Ms|Nurse|RN)\.?\s+(?P<hide>{_LATIN_NAME}|{_NAME})", 0),
        ("name", rf"(?<![가-힣])(?P<hide>{_NAME}|{_HIDDEN})\s?\(\s?(?:M|F|남|여|\d{{1,3}}\s?(?:세|/))", 0),
        ("name", rf"(?<![가-힣])(?P<hide>{_NAME}|{_HIDDEN})\s?[/,]?\s?(?:M|F|남|여)\s?/\s?\d{{1,3}}", 0),
        ("name", rf"(?:이름은|성함은|[Bb]aby of|BABY OF|아기|산모)\s+(?P<hide>{_NAME}|{_LATIN_NAME})(?=[\s,.)의은는이가]|$)", 0),
        ("date", r"(?<![\d.])(?:19|20)\d{2}\s?[-./년]\s?(?:1[0-2]|0?[1-9])(?:\s?[-./월]\s?(?:3[01]|[12]\d|0?[1-9])\s?일?|월)?(?![\d])", 0),
        ("date", r"(?<!\d)(?:1[0-2]|0?[1-9])\s?월\s?(?:3[01]|[12]\d|0?[1-9])\s?일", 0),
        ("date", r"(?<![\d.])'?\d{2}[./-](?:1[0-2]|0[1-9])[./-](?:3[01]|[12]\d|0[1-9])(?![\d.])", 0),
        ("date", r"(?<!\d)(?:19|20)\d{2}(?:1[0-2]|0[1-9])(?:3[01]|[12]\d|0[1-9])(?!\d)", 0),
        ("date", rf"(?<![A-Za-z])(?:{_MONTHS})[a-z]*\.?\s+\d{{1,2}},?\s+(?:19|20)\d{{2}}", 1),
        ("date", rf"(?<!\d)\d{{1,2}}[- ](?:{_MONTHS})[a-z]*[- ](?:19|20)?\d{{2}}", 1),
    )
)  # fmt: skip
# Words that begin like a surname and are no name: 이름, 환자, 정상, 주치의 …
_NO_NAMES = frozenset(
    str.split(
        "이름 정상 환자 주치의 성인 성별 남자 여자 나이 연령 진단 주소 현재 현병 "
        "수술 조직 유방 전신 고혈 심장 신장 폐암 위암 지속 선생 마취 안정 방문 문의 "
        "원장 교수 주임 과장 의사 간호 보호 이상 임신 김치 주의 조절 신경 정신 안과 "
        "외과 내과 소아 한방 양방 배우자 정도 이후 이전 이번 주사 하지 상지 우측 "
        "좌측 양측 전공 오전 오후 하루 고령 노인 남편 아내 장모 장인 조부 조모 고모 "
        "이모 형제 오빠 언니 누나 동생 아들 며느리 신생아 영아 유아 소견 지난 최근 "
        "금일 명일 전일 당일 익일 추후 향후 기타 모두 없음 있음 "
    )
)
_PEOPLE = {"person": "name", "per": "name", "ps": "name", "name": "name"}
_PLACES = {"location": "address", "loc": "address", "lc": "address", "address": "address"}


@dataclass(frozen=True)
class IdentifierSpan:
    """A part of a note that may say who somebody is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class RedactedNote:
    """A note with its identifiers hidden, and where they were; its length is that of the note."""

    text: str
    spans: tuple[IdentifierSpan, ...]


class Redactor:
    """Finds and hides identifiers by rules and, where there is one, a tagger."""

    def __init__(
        self,
        *,
        dates: str = "mask",
        shift: int = 0,
        tagger: MentionTagger | None = None,
    ) -> None:
        """Choose what becomes of dates.

        dates   mask, keep or shift
        shift   days that dates are moved by, with `shift`; the same for all notes of a patient
        tagger  finds persons and places beside the rules
        """
        if dates not in DATES:
            raise OptionError(f"dates is {dates}; expected one of {', '.join(DATES)}. Choose one.")
        if dates == "shift" and not shift:
            raise OptionError(
                "dates are to be shifted by 0 days; expected another number. Name it with --shift."
            )
        self._dates, self._shift, self._tagger = dates, shift, tagger

    def find(self, note: str) -> list[IdentifierSpan]:
        """Give the identifiers of a note in order, none overlapping."""
        taken = bytearray(len(note))
        found = []
        for one in (*_by_rules(note), *self._tagged(note)):
            if taken.find(1, one.start, one.end) < 0:
                taken[one.start : one.end] = b"\1" * (one.end - one.start)
                found.append(one)
        return sorted(found, key=lambda one: one.start)

    def redact(self, note: str) -> RedactedNote:
        """Hide the identifiers of a note; the text is as long as before.

        >>> Redactor().redact("환자명: 홍길동, 010-1234-5678").text
        '환자명: ***, *************'
        """
        note = as_text(note, where="note")
        spans = self.find(note)
        if self._dates == "keep":
            spans = [one for one in spans if one.kind != "date"]
        parts, at = [], 0
        for one in spans:
            hidden = _MASK * (one.end - one.start)
            if one.kind == "date" and self._dates == "shift":
                hidden = shifted(note[one.start : one.end], self._shift)
            parts += [note[at : one.start], hidden]
            at = one.end
        return RedactedNote("".join([*parts, note[at:]]), tuple(spans))

    def _tagged(self, note: str) -> Iterator[IdentifierSpan]:
        for one in self._tagger.tag(note) if self._tagger is not None else ():
            kind = (_PEOPLE | _PLACES).get(str(one.type).casefold())
            if kind is not None and one.end > one.start:
                yield IdentifierSpan(one.start, one.end, kind)


def _by_rules(note: str) -> Iterator[IdentifierSpan]:
    for kind, pattern in _RULES:
        group = "hide" if "hide" in pattern.groupindex else 0
        for match in pattern.finditer(note):
            start, end = match.span(group)
            while end > start and note[end - 1].isspace():
                end -= 1
            text = note[start:end]
            if kind == "name" and (text in _NO_NAMES or text[:2] in _NO_NAMES):
                continue
            if end > start:
                yield IdentifierSpan(start, end, kind)


_DATE_PARTS = re.compile(r"\d+")


def shifted(text: str, days: int) -> str:
    """Move a date by days in the form it is written in; one that cannot be read is masked.

    >>> shifted("2024-03-01", -2), shifted("2024년 3월 1일", 39), shifted("3월 1일", 1)
    ('2024-02-28', '2024년 4월 9일', '*****')
    """
    numbers = list(_DATE_PARTS.finditer(text))
    if len(numbers) == 1 and len(numbers[0].group()) == 8:
        whole = numbers[0].group()
        values = [whole[:4], whole[4:6], whole[6:]]
    else:
        values = [one.group() for one in numbers]
    try:
        year = int(values[0]) + (2000 if len(values[0]) == 2 else 0)
        moved = datetime.date(year, int(values[1]), int(values[2])) + datetime.timedelta(days)
    except (IndexError, ValueError, OverflowError):
        return _MASK * len(text)
    new = [str(moved.year)[-len(values[0]) :], *(str(part) for part in (moved.month, moved.day))]
    new = [part.zfill(len(old)) for part, old in zip(new, values, strict=False)]
    if len(numbers) == 1:
        made = "".join(new)
    else:
        at, parts = 0, []
        for one, part in zip(numbers, new, strict=False):
            parts += [text[at : one.start()], part]
            at = one.end()
        made = "".join([*parts, text[at:]])
    # 3월 9일 → 3월 10일 is longer: the mask keeps the offsets.
    return made if len(made) == len(text) else _MASK * len(text)


# Synthetic notes: {kind|text} is an identifier. Nobody's data.
_TEMPLATES = (
    "환자명: {name|홍길동} ({number_|M}/54)\n등록번호: {number|12345678}\n주민번호 {resident|700101-1234567}\n"
    "연락처 {phone|010-9876-5432}\n{date|2024-03-05} 흉통으로 내원. 주치의 {name|김민수} 교수",
    "성명: {name|이서연}\n생년월일: {date|1988.11.02}\n주소: {address|서울특별시 강남구 테헤란로 123, 101동 1502호}\n"
    "보호자: {name|박영희} ({phone|02-345-6789})\n고혈압 10년",
    "{name|최은지} 님 {date|2023년 12월 1일} 입원, 담당의: {name|정우성}\ne-mail {email|eun.ji@example.org}",
    "Patient name: {name|Jane Kim}\nMRN: {number|00458213}\nDr. {name|Lee} called on {date|Mar 5, 2024}. Phone {phone|+82 10-1234-5678}",
    "{name|김OO} (F/67) {date|24.02.11} 퇴원. 간호사 {name|한지민} 인계\n{address|경기도 성남시 분당구 불정로 6}",
    "Baby of {name|Park Minji}, 출생 {date|20240115}, 주민등록번호 {resident|240115-3******}",
    "전화 {phone|031)123-4567} 로 연락. {name|오세훈} 간호사 확인. {date|3월 7일} 재방문",
    "병록번호 {number|98-765432} 진단서 발급, 서명: {name|윤도현}\n거주지: {address|부산 해운대구 우동 1234-5}",
)


def check_recall(redactor: Redactor | None = None) -> dict[str, tuple[int, int]]:
    """Count by kind how many identifiers of the synthetic notes are found, and how many there are.

    >>> all(found <= there for found, there in check_recall().values())
    True
    """
    redactor = redactor or Redactor()
    counts: dict[str, tuple[int, int]] = {}
    for template in _TEMPLATES:
        text, gold = _filled(template)
        hidden = redactor.find(text)
        for one in gold:
            hit = any(s.start <= one.start and one.end <= s.end for s in hidden)
            found, there = counts.get(one.kind, (0, 0))
            counts[one.kind] = (found + hit, there + 1)
    return dict(sorted(counts.items()))


def _filled(template: str) -> tuple[str, list[IdentifierSpan]]:
    text, gold, at = "", [], 0
    for match in re.finditer(r"\{(\w+)\|([^{}]*)\}", template):
        text += template[at : match.start()]
        if not match[1].endswith("_"):
            gold.append(IdentifierSpan(len(text), len(text) + len(match[2]), match[1]))
        text += match[2]
        at = match.end()
    return text + template[at:], gold
