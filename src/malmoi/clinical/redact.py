"""De-identification: numbers, names, addresses and dates of a note found and masked, offsets kept.

Rules know the forms of Korean notes: resident numbers, phones, hospital numbers, e-mail, addresses,
dates. Names are found by where they stand (after a field, next to a title or an age, in a signature)
and by the syllables that given names have; one that is found is hidden everywhere in its note, and
nothing that is a cue or a term is. The words are in tables/identifiers.tsv. A tagger that knows
persons and places can be given. A mask is as long as what it hides, so offsets stay valid.

Nothing here promises anonymity: a name without a label, a nickname, a rare disease or a place of work
may stay. Read a sample before anything leaves the house.
"""

# ruff: noqa: E501 - an expression reads better in one piece

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..errors import OptionError
from ..text.cleanup import as_text
from .reader import MentionTagger
from .rules import TABLES, table_rows
from .typing_errors import common_words

DATES = ("mask", "keep", "shift")
_MASK = "*"
_SURNAMES = (
    "김이박최정강조윤장임한오서신권황안송전홍유고문양손배백허남심노하곽성차주우구나민진지엄채원천방공현함변염여추"
    "도소석선설마길연위표명기반왕금옥육인맹제모탁국어은편용"
)
_RARE = "간감갈견경계궁뇌단당동두라류리림매목묵범봉부빈빙사상승시여영예온옹좌준즙진춘태팽피호형음필평포운순"  # only next to a role or a title
_DOUBLE = "남궁|황보|제갈|사공|선우|서문|독고|동방|망절"
_NAME = rf"(?:(?:{_DOUBLE})[가-힣]{{1,2}}|[{_SURNAMES}][가-힣]{{1,2}})"
_HIDDEN = r"[가-힣][OoXx○◯●*＊]{1,2}[가-힣]?"  # 김OO, 홍*동
_SYLLABLE = r"(?:[bdghjklmnprstwy]|kk|ch|sh)?(?:ae|eo|yeo|ye|yo|yu|ya|you|oo|ou|ee|ui|eu|wa|wo|wi|we|oh|a|e|i|o|u)(?:ng|n|m|l|k|b|p|h|r)?"
_PART = r"[A-Z][a-z]+(?:-[A-Za-z][a-z]+)*"
_SYLLABLE_CAP = rf"(?i:{_SYLLABLE})"
_GIVEN = rf"(?i:{_SYLLABLE}[- ]?{_SYLLABLE}(?:[- ]?{_SYLLABLE})?)(?![A-Za-z])"
_LATIN = (
    rf"(?:(?:[A-Z]\. ?){{1,3}}{_PART}|{_PART}, ?{_PART}|{_PART}(?: (?:[A-Z]{{1,3}}\.?(?![a-z])|{_PART})){{0,3}}"
    r"|[A-Z]{2,}(?:-[A-Z]+)?(?: [A-Z]{1,}(?:-[A-Z]+)?){1,2})"
)
_PLACE = (
    r"(?:서울|부산|대구|인천|광주|대전|울산|세종|경기|강원|충북|충남|전북|전남|경북|경남|제주|충청[남북]?|전라[남북]?|경상[남북]?)"
    r"(?:특별자치시|특별자치도|특별시|광역시|도|시)?"
)
_UNIT = r"[가-힣0-9·]{1,10}(?:시|군|구|읍|면|동|리|가|로|길)"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_AGE = r"(?:[(\[]\s?)?(?:(?:M|F|남|여|남자|여자|male|female)\s?[/,]?\s?\d{1,3}(?:세|y/?o)?|\d{1,3}\s?(?:세|y/?o)?\s?[/,]?\s?(?:M|F|남|여|male|female)(?![a-z가-힣])|\d{1,3}\s?세)"
_SHORT = r"(?<![\d./~-])(?:1[0-2]|0?[1-9])[/.](?:3[01]|[12]\d|0?[1-9])(?![\d/%]|\.\d)"


@lru_cache
def _words(kind: str) -> tuple[str, ...]:
    rows = table_rows("identifiers.tsv", ("kind", "words"), ())
    return tuple(word for own, words in rows if own == kind for word in words.split("|"))


def _any(kind: str) -> str:
    """An expression of the words of a kind, the longest first; spaces in them are free."""
    listed = sorted(_words(kind), key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"[\s.]*") for word in listed)


@lru_cache
def _taken() -> frozenset[str]:
    """Words of notes that read like a name: cues, headings, persons, diseases and what is usual."""
    found = {*_words("ordinary"), *_words("common"), *_words("department")}
    for kind in ("label", "role", "relation", "role_end", "title", "number", "date", "day"):
        found.update(word for word in _words(kind) if len(word) > 1)
    for name in ("cues.tsv", "ordinary.tsv", "sections.tsv", "persons.tsv", "chronic.tsv"):
        text = (TABLES / name).read_text("utf-8")
        found.update(re.findall(r"(?<![가-힣])[가-힣]{2,4}(?![가-힣])", text))
    for name in ("names.tsv", "clinical.tsv", "sample.tsv"):
        text = (TABLES.parents[1] / "data" / name).read_text("utf-8")
        found.update(re.findall(r"(?<![가-힣])[가-힣]{2,4}(?![가-힣])", text))
    return frozenset(found)


@lru_cache
def _rules() -> tuple[tuple[str, str, "re.Pattern[str]"], ...]:
    """Kind, whether a name must read like one, and what group `hide` (else all) is hidden of."""
    name, latin = f"(?P<hide>{_NAME}|{_HIDDEN})", f"(?P<hide>{_NAME}|{_HIDDEN}|{_LATIN})"
    relation = r"(?:\s?\([^()\n]{1,8}\))?"
    end = r"(?![A-Za-z가-힣])"
    value = r"(?![A-Z]\d\d\.\d|\d\d[MF](?!\w)|(?:19|20)\d\d(?:\.\d{1,2}\.|\s|$))(?=[\w.-]*\d{2})[A-Z]{0,5}-?(?:\d{4}-[가-힣]{1,6}-\d+|\d[\dA-Z]*(?:[-.]\d+[A-Z]?)+(?:-[A-Z0-9]+)?|\d{1,4}(?: \d{3,4}){1,2}(?!\d)|[A-Z]{0,4}\d[\dA-Z]{2,})(?![\dA-Za-z.]\d|\s?(?:mg|ml|cc|회|일|세|%|번째))"
    near = r"(?:[A-Z]{0,3}\d{5,10}|\d{1,4}(?:-\d{1,6}){1,3}(?:-[A-Z])?|\d{2,3}(?: \d{3}){1,2}|\d{4}\.\d{4})(?![\d.]|\s?(?:mg|ml|cc))"
    road = r"[가-힣\d]{1,8}(?:(?:로|길|대로)\s?(?:\d{1,4}(?:번길|길|가길)\s?)?|(?:동|리|가)\s)\d{1,5}(?:-\d{1,4})?"
    tail = r"(?:,?\s(?:[가-힣]{1,8}\d?\s?)?(?:[A-Z비\d]{1,4}\s?(?:동|호|층|단지|-\d{1,4})\s?){1,4}|,\s\d{2,4}-\d{2,5}|\s지하|,\s[가-힣]{1,5}(?:동|리)|\s\([가-힣\d ,]{2,40}\))*"
    full = rf"(?P<hide>(?:(?:{_DOUBLE})[가-힣]{{1,3}}|[{_SURNAMES}][가-힣]{{1,3}}|[{_RARE}][가-힣]{{2,3}}))(?!과\s)"
    spaced = rf"(?P<hide>[{_SURNAMES}{_RARE}] [가-힣](?: [가-힣]|(?=\s*\()))"
    stop = r"(?=\s*(?:[,/()|│\[\]→:;.\"\d+☎]|$|\n|\s\s)|\s(?:[A-Z][A-Za-z]?\d?\b|M\.D|RN|인\s\s|받음|통화|동석|동반|참석|동행|동거|대신|확인|기록|작성|검토|문의|수령|도착|연락처|전화|관계|귀하|초진|사번|진정|조산사|어시|마취|보조|인계|서명|주무관|대리|여사|면회|간호사|외|는\s|은\s|님|씨))"
    weak = r"(?=(?:님|씨|이|가|은|는|과|와|에게|께|의|를|을)[\s,.)])"
    sep = r"(?:\s*[:：|│=]\s*|[ \t]+|\s?[(/]\s?)"
    role_end = rf"[가-힣A-Z]{{0,6}}(?:{_any('role_end')})"
    dept = rf"(?:{_any('department')})"
    sur = rf"(?:{_any('surname')})"
    particle = r"(?=(?:은|는|이|가|을|를|의|에게|께|께서|과|와|도|로|에)?(?![가-힣]))"
    rules = (
        ("resident", r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\s?[-–−~]?\s?[0-9]\d{6}(?!\d)"),
        ("resident", r"(?<!\d)\d{6}\s?[-–−]\s?[0-9][\d*xX●]{6}"),
        ("resident", r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\s?[-–−]\s?[1-8](?![\d.])"),
        ("passport", r"(?<![A-Za-z0-9])[MSRODG]\d{3}[A-Z]?\d{4,5}(?![A-Za-z0-9])"),
        ("email", r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
        ("url", r"(?i:https?://[^\s<>\"']+)"),
        ("phone", r"(?<![\d.-])(?:\+?82[-\s.]?|0)(?:1[016789]|2|[3-6][1-5]|70|50\d)[-\s.)]{0,2}\d{3,4}[-\s.]?\d{4}(?![\d])"),
        ("phone", r"(?<![\d.-])0(?:1[016789]\s?[-.)]?|(?:2|[3-6][1-5]|70)(?:\s?[-.)]|\s))\s?\d{3,4}\s?[-.]?\s?(?:\d{4}|\*{4})(?!\d)"),
        ("phone", r"(?i:(?:내선|당직폰|당직|구내|콜폰|연락|통화|ext|pager|tel|phone|전화|원내)\.?\s?[:(]?\s?)(?P<hide>\d{1,2}-\d{4}|(?!1[0-9]{3}(?!\d))\d{4,5})(?![\d-])"),
        ("phone", r"(?<![\d.-])(?P<hide>\d-\d{4})(?=\s?(?:통화|로|으로|번|연락))"),
        ("resident", r"(?:주민|앞자리|생년월일)[가-힣 ]*[:(]?\s?(?P<hide>\d{6})(?!\d)"),
        ("account", r"(?:계좌|카드)\s?(?:번호)?\s*[:.]?\s*(?P<hide>\d[\d -]{8,22}\d)"),
        ("account", r"(?<!\d)\d{4}[- ]\d{4}[- ]\d{4}[- ]\d{4}(?!\d)"),
        ("number", rf"(?i:(?<![A-Za-z가-힣])(?:{_any('number')})(?![a-z가-힣])\s*(?:no\.?|number|번호)?\s*[:.#)\]=]?\s*#?(?P<hide>[A-Z]{{0,3}}-?(?=[\dA-Z-]{{4}}|\d{{3}}(?!\d))\d[\dA-Z]*(?:-\d+)*))(?![\dA-Za-z-]|[ \t]?(?:mg|ml|cc|회|일|세|%|번째))"),
        ("number", r"(?<![A-Za-z0-9-])[A-Z]{1,3}\d{2}-\d{3,7}(?![\d-])"),
        # Any field that ends in 번호 or the like, in a table too; then numbers by their shape and by what stands next to them.
        ("number", rf"(?i:(?<![A-Za-z가-힣])(?:[가-힣]{{0,6}}번호|{_any('number')}|{_any('short_number')})(?![a-z가-힣])(?:[ \t.:#│|=\])]{{1,14}}|(?<=[가-힣]))(?:(?:no\.?|number)[\s.:]*)?#?(?:제\s?)?(?P<hide>{value}))"),
        ("number", r"제\s?(?P<hide>\d{4,7})\s?호"),
        ("number", rf"(?<![\w])#\s?(?=[\d-]{{5}})(?P<hide>{value})"),
        ("number", rf"{_AGE}\s?[,/|]?\s?(?:(?:M|F|남|여)\s?/\s?)?[,|(]?\s?#?(?P<hide>{near})"),
        ("number", rf"(?<![가-힣])(?:{_NAME})님?\s?(?:\(|/|,|님)\s?#?(?:[MF남여]\s?[/,]\s?\d{{1,3}}\s?[,/]\s?|\d{{1,3}}\s?[,/]\s?)?(?P<hide>{near})"),
        ("number", r"(?<![\w.,/+<>=~%-])(?P<hide>\d{7,12})(?![\w.,%/-]|\s?(?:mg|ml|cc|IU|U/|/|원|단위|copies|개))"),
        ("number", rf"(?<![\w.,/-])(?P<hide>\d{{5,6}})(?=\s(?:{_NAME})(?:\s|$))"),
        ("number", r"(?<![\w./-])(?P<hide>[A-Z]{1,5}-?\d{5,}(?:-\d+)*|[A-Z]{1,4}-\d{2,4}-\d{3,}(?:-\d+)?|\d{4}-[가-힣]{1,6}-\d{3,}|\d{8}-[가-힣]{1,6}-\d{3,}|[가-힣]{2,4}-\d{4}-\d{4,})(?![\w-])"),
        ("number", r"(?<![\w./~-])(?!(?:19|20)?\d\d-(?:1[0-2]|0?[1-9])-(?:3[01]|[12]\d|0?[1-9])(?!\d))(?P<hide>\d{1,4}-\d{2,4}-\d{1,6}(?:-[A-Z])?|\d{6,8}-\d{3,7}|0\d{3}-\d{3,5}|(?!1[5-9]\d\d)\d{3,4}-\d{4})(?![\w-]|\.\d|\s?(?:mg|ml|cc|kcal|m|시|초|분))"),
        ("address", r"(?:주소지?|주거지|거주지|본적|소재지|현주소)\s*[:：]?\s+(?=[^\n]{0,30}(?:(?<!터)[시군구읍면동리로길]\s\d|\d{1,4}[-호동]|[시군구]\s[가-힣]+[동읍면리]))(?P<hide>[가-힣]{2,7}\s[가-힣]{1,5}(?:\s?[가-힣\d,-]+){1,8}?)(?=\s*[│|()\n]|\s{2}|\s?(?:전화|연락처|tel|HP)|$)"),
        ("address", rf"(?:{_PLACE}\s+)?(?:(?<![가-힣])[가-힣]{{1,5}}(?:시|군|구)\s+){{1,3}}(?:[가-힣]{{1,4}}(?:읍|면|구)\s+)?{road}{tail}"),
        ("address", rf"{_PLACE}\s+{road}{tail}"),
        ("address", rf"(?<![가-힣])(?:{_any('city')})(?:시\s?[가-힣]{{1,4}}[읍면동]|\s[가-힣]{{1,4}}(?:읍|면|동)(?!맥|반|통|안|시|작|요|공)|(?=에\s?(?:계시|계심|거주|사[시는심]|살)))"),
        ("address", r"(?:\d{1,5}(?:-\d+)? )?(?:[A-Z][a-z]+(?:-?(?:daero|ro|gil|dong|ga|gu|si|gun|do|myeon|eup|ri))(?: ?\d+(?:-(?:ga|gil|ro))?)?,? ?){1,5}(?:, ?)?(?:\d-ga, ?)?(?:(?:Seoul|Busan|Incheon|Daegu|Daejeon|Gwangju|Ulsan|Korea|[A-Z][a-z]+-(?:gu|si|do))[, ]*){1,4}(?:\d{5})?"),
        ("address", rf"{_PLACE}\s+(?:{_UNIT}\s*){{1,5}}(?:\d+(?:-\d+)?\s?(?:번지|호|동|층)?,?\s*){{0,4}}(?:\([가-힣0-9, ]{{1,20}}\))?"),
        ("address", r"(?<![가-힣])[가-힣0-9]{1,8}(?:(?<![으바따서새대맥경])로|길)\s?\d{1,4}(?:-\d{1,4})?(?:번길\s?\d{1,4})?(?:,?\s?\d{1,4}(?:동|호|층)){0,3}(?![가-힣\d%])"),
        ("address", r"(?i:거주지|현주소|home address|address)\s*[:.]\s*(?P<hide>[^\n]{4,80})"),
        ("address", r"[가-힣A-Za-z0-9]{2,15}(?:아파트|빌라|맨션|오피스텔|주공)\s?\d{0,4}\s?동?\s?\d{0,5}\s?호?"),
        # A field and its value, several people in it, a relative in brackets behind the label.
        ("name", rf"(?i:(?<![A-Za-z가-힣])(?:{_any('label')}|{_any('relation')}|{_any('role')})){relation}[ \t]*[:：=|\]\t][ \t]*(?:(?i:{_any('role')})\s*)?{latin}{end}"),
        ("name?", rf"(?i:(?<![A-Za-z가-힣])(?:{_any('label')}|{_any('role')})){relation}\s*[-–]?\s*{name}{particle}"),
        ("name?", rf"(?<![A-Za-z가-힣])(?:{_any('relation')})\s?\(?\s?{name}{particle}"),
        ("name", rf"(?<![A-Za-z가-힣])(?:Dr|Prof|Mr|Mrs|Ms|Miss|Nurse|RN)\b\.?\s+{latin}"),
        ("name", rf"(?<![A-Za-z])(?i:{_any('label')}|{_any('role')})\s+(?P<hide>(?:{_any('surname')})(?:[ -][A-Z][A-Za-z.]*){{0,2}})(?![A-Za-z])"),
        ("name", rf"(?<![A-Za-z])(?P<hide>(?:{_any('surname')}) [A-Z]{{1,3}}|[A-Z]{{2}} (?:{_any('surname')}))(?=[\s,/)]|$)"),
        ("name", rf"(?<![A-Za-z])(?P<hide>{_LATIN}),?\s+(?:M\.?D\.?|R\.?N\.?|Ph\.?D\.?)(?![A-Za-z])"),
        ("name", rf"(?<![가-힣]){name}\s?(?:{_any('title')})(?=[\s,.)(은는이가을를께의에과와로:/]|$)"),
        ("name?", rf"(?<![가-힣]){name}\s?(?:{_any('patient')})(?=[\s,.)(은는이가을를께의에과와로:/]|$)"),
        # A line that begins or ends with a name and an age: 조인성 45/M, (F/67) 김OO.
        ("name", rf"(?m:^[ \t#*-]*{name}\s?[,/]?\s?{_AGE})"),
        ("name?", rf"(?<![가-힣]){name}\s?[,/]?\s?{_AGE}"),
        ("name?", rf"{_AGE}\s?[)\]]?\s?[,/]?\s?{name}{end}"),
        ("name", rf"(?i:이름은|성함은|baby of|산모)\s+{latin}(?=[\s,.)의은는이가]|$)"),
        ("name?", rf"(?m:^[ \t]*{name}(?=(?:은|는|이|가|님은|씨는|씨가)[ \t]))"),
        # Behind a field, a role, a department or a relative, and before an end: no word of notes stands there.
        ("name!", rf"(?<![A-Za-z가-힣])(?:{_any('label')}|{_any('role')}|{role_end})(?:\s?\([^()\n]{{1,8}}\))??{sep}(?:(?:{role_end}|{_any('role')}|{_any('relation')}|{dept}|[가-힣]{{2,5}}과|[가-힣]{{2,6}}사|CDE)\s*)?{full}{stop}"),
        ("name", rf"(?i:{_any('label')}|{_any('role')}|성\s명)\s*[:：|│\t ]\s*{spaced}(?=\s|$)"),
        ("name", rf"(?m:^[ \t]*{spaced}(?=\s*(?:{_AGE}|/\s?\d\d\s?[MF])))"),
        ("name!", rf"(?<![A-Za-z가-힣])(?:{_any('relation')}){sep}{full}{stop}"),
        ("name~", rf"(?<![A-Za-z가-힣])(?:{_any('label')}|{_any('role')}|{role_end}|{_any('relation')}){sep}{full}{weak}"),
        ("name!", rf"(?<![A-Za-z가-힣])(?i:{_any('short_label')})[: ]\s?{full}{stop}"),
        ("name~", rf"(?<![A-Za-z가-힣]){dept}{sep}{full}{stop}"),
        ("name?", rf"(?<![가-힣]){name}(?=\s(?:확인|작성|기록|서명|보고|받음|통화|올림|배상)(?:[\s.,(]|$))"),
        ("name~", rf"(?<![가-힣]){full}(?=\s?/\s?[가-힣]{{2,4}}(?:\s+20\d\d|\s*$))"),
        ("name?", rf"(?<=[가-힣]\s\(){name}(?=\))"),
        ("name~", rf"(?<![가-힣]){full}(?=\s?\((?:{role_end}|{_any('title')}|\d급|부\)|모\)|자\)))"),
        ("single", rf"(?<![A-Za-z가-힣])(?:{_any('relation')})\s?\((?P<hide>[가-힣]{{1,2}}(?: [가-힣]{{1,2}}){{2,3}})\)"),
        ("name", rf"→\s?(?P<hide>{_PART} {_PART})"),
        ("single", r"(?i:patient|name|pt)\s*:\s*(?P<hide>[A-Z]{2,})(?=,)"),
        ("name", rf"(?i:signed|electronically)[, ]+(?:by )?(?P<hide>{_PART} {_PART})"),
        ("name", rf"(?:{_any('label')})\s*[│|]\s*{full}(?=\s)"),
        ("name!", rf"(?<![가-힣]){full}\s?(?!드림|올림|배상|샘|쌤|의사)(?:{_any('title')})(?=[\s,.)(은는이가을를께의에과와로:/→한]|$)"),
        ("name~", rf"(?<![가-힣]){full}\s?(?:드림|올림|배상|샘|쌤|의사)(?=[\s,.)(은는이가을를께의에과와로:/→한]|$)"),
        ("name~", rf"(?<![가-힣]){full}\s?(?:/|,|\(|\||\s)\s?{_AGE}"),
        ("name!", rf"(?<![가-힣]){full}(?=님?\s?[/(]?\s?(?:\d{{2}}\s?(?:[MF,/]|(?=\s))|\d세|여\s?[,/)]|남\s?[,/)]))"),
        ("name~", rf"(?<![가-힣]){full}(?=\s?[\s,(/]\s?(?:01\d|\(?0\d{{1,2}}[-)\s]|☎|#?\d{{5,}}(?!\d*\s?mg)))"),
        ("name~", rf"(?<=\d{{5}})\s{full}(?=\s|$)"),
        ("name~", rf"(?m:(?:→|/)\s?{full}{stop})"),
        ("name~", rf"(?m:^|(?<=\s\s)|(?<=[-–/→,] )|(?<=[-–/→,]))(?P<hide>[{_SURNAMES}][가-힣]{{2,3}})(?=\s*(?:$|\n|→|/\s?[가-힣]{{2,4}}\s*(?:$|\n)))"),
        ("single", rf"(?<![가-힣])(?P<hide>[{_SURNAMES}태류라봉])\s?(?=(?:교수|선생|과장|부장|원장|팀장|주무관|사무장|계장|실장|약사|간호사|staff|샘|쌤)(?:님|이|께|은|는|\s|[,./)(]|$)|씨[\s,)])"),
        ("single", rf"(?m:(?:판독의|작성|주치의|교수|^|{dept})\s?(?P<hide>[{_SURNAMES}{_RARE}])(?=\s?/\s?[가-힣]{{2,4}}(?:\s|$)|[ \t]*$))"),
        ("single", rf"(?<![가-힣])(?:환자|성명)\s?[:]?\s?(?P<hide>[{_SURNAMES}][가-힣]?)(?=[○OoXx*]{{1,2}})"),
        ("name", r"(?<![가-힣])(?P<hide>[가-힣]{2})(?=씨(?:한테|는|가|를|의|와|\s|,))"),
        ("name", r"[\"'“](?P<hide>[가-힣]{2})[야아][\"'”]"),
        ("name", rf"(?<![A-Za-z])(?P<hide>{sur},? {_GIVEN})"),
        ("name", rf"(?<![A-Za-z])(?P<hide>[A-Z](?i:{_SYLLABLE})?{_GIVEN} {sur})(?![A-Za-z-])"),
        ("name", rf"(?<![A-Za-z-])(?P<hide>(?:{_PART} )?(?=[A-Z][a-z]){_SYLLABLE_CAP}-{_SYLLABLE}(?:,? {_PART})?)(?![A-Za-z-])"),
        ("name", rf"(?<![A-Za-z])(?i:{_any('label')}|{_any('role')}|{_any('relation')})\.?[ \t]*(?:[:(]|(?<=[a-z]),)[ \t]*(?:(?:Dr|Mr|Mrs|Ms)\.?\s)?(?P<hide>{_LATIN})(?=\s?(?:,?\s?(?:MD|M\.D|RN)|,?\s?(?:cell|tel|\+?\d)|[,/|]|\s\s|$|\n))"),
        ("name", rf"(?m:(?<![A-Za-z.])(?P<hide>(?:[A-Z]\. ?){{1,2}}{_PART}|(?!(?:M\.D|R\.N|O\.K|P\.O|I\.V|C\.C|P\.I|P\.R)\.)(?:[A-Z]\. ?){{2,3}})(?=\s*(?:$|\n|/|\(|\s\s|,\s?(?:R\d|M\.?D|RN))))"),
        ("single", r"(?i:scribe|referring|dictated by|ref)\s*[:]\s*(?P<hide>[A-Za-z]{2,4})(?=[\s(]|$)"),
        ("name", rf"(?m:(?:^|(?:pt|name|patient)[ \t]*[:/|])[ \t]*(?P<hide>(?:[A-Z]{{2,}}, ?[A-Z]{{2,}}|(?i:{_any('surname')}|nguyen|tran|pham) [A-Z]{{2,}}|[A-Z]{{2,}} (?i:{_any('surname')}))(?:[ -][A-Z]+)*)(?=\s*[/|]?\s+[/|]?\s?(?:{_AGE}|[MF]\s?[/|])))"),
        ("name", rf"(?m:^Name[ \t:]+(?P<hide>{_LATIN}))"),
        ("name", rf"(?<=\d{{5}} )(?P<hide>{_PART} {_PART})"),
        # Where a list of patients, a header or a signature has a name: by a bed, a number, a dash, a year of birth.
        ("name~", rf"(?m:^[ \t]*{full}(?=\s?/\s?#?\d{{4,}}|\s[—–]\s))"),
        ("name~", rf"(?:\[[^\[\]\n]{{1,8}}\]|(?<![\d.])\d{{3,4}}호?)[ :]\s?{full}(?=\s?(?:[—–/,|]|\n|$))"),
        ("name~", rf"(?<![가-힣]){full}(?=\s?[(\[]\s?(?:\d{{2}}|\d{{4}})년?\s?생)"),
        ("name~", rf"(?<![A-Za-z])by\s{full}(?![가-힣])"),
        ("name~", rf"(?m:(?:\s\s|[.)]\s){full}[ \t]*\Z)"),
        ("name", rf"(?<![A-Za-z])(?P<hide>(?i:{_any('surname')})(?: [A-Z]{{2,}}){{1,2}})(?=\s?[,/(]?\s?{_AGE})"),
        ("name", rf"(?m:^[ \t]*(?P<hide>{_PART} (?:{_any('surname')}))(?=\s[—–|/]))"),
        # Alone on a line, perhaps with a role: a signature.
        ("name?", rf"(?m:^[ \t\-–/()\[\]]*(?:(?:{_any('role')})\s*)?{name}\s*(?:\(?(?:인|서명|sign|{_any('title')})\)?)?[\s.)\]]*$)"),
        ("name?", rf"(?m:[/,|]\s?(?:{_any('role')})\s?{name}[\s.)\]]*$)"),
        # A word by itself whose syllables are those of a name, and which no text has otherwise.
        ("name?*", rf"(?<![A-Za-z가-힣]){name}(?=(?:님|씨)?(?:은|는|이|가|을|를|의|에게|께|께서|과|와|도)?(?![A-Za-z가-힣]))"),
        ("date", r"(?<![\d.])(?:19|20)\d{2}\s?[-./년]\s?(?:1[0-2]|0?[1-9])(?:\s?[-./월]\s?(?:3[01]|[12]\d|0?[1-9])\s?일?|월)?(?![\d])"),
        ("date", r"(?<!\d)(?:1[0-2]|0?[1-9])\s?월\s?(?:3[01]|[12]\d|0?[1-9])\s?일"),
        ("date", r"(?<![\d.])'?\d{2}[./-](?:1[0-2]|0?[1-9])[./-](?:3[01]|[12]\d|0?[1-9])(?![\d.])"),
        ("date", r"(?<!\d)(?:19|20)\d{2}(?:1[0-2]|0[1-9])(?:3[01]|[12]\d|0[1-9])(?!\d)"),
        ("date", rf"(?i:(?<![A-Za-z])(?:{_MONTHS})[a-z]*\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+(?:19|20)\d{{2}})?(?!\s?[\d/%]))"),
        ("date", rf"(?i:(?<!\d)\d{{1,2}}[- ](?:{_MONTHS})[a-z]*[- ](?:19|20)?\d{{2}})"),
        ("date", rf"(?i:(?<!\d)\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})[a-z]*(?:,? (?:19|20)\d{{2}})?(?![a-z]))"),
        ("date", rf"(?i:(?<!\d)(?:19|20)\d\d[- ./](?:{_MONTHS})[a-z]*[- ./]\d{{1,2}}(?!\d))"),
        ("date", r"(?<![\d./-])(?:1[0-2]|0?[1-9])([/.-])(?:3[01]|[12]\d|0?[1-9])\1(?:(?:19|20)\d\d|2\d)(?![\d/-]|\.\d)"),
        ("date", r"(?<![\d.])(?:19|20)?'?\d{2}\s?[./-]\s?(?:1[0-2]|0?[1-9])\s?[./-]\s?(?:3[01]|[12]\d|0?[1-9])(?!\d|\.\d)"),
        ("date", r"(?<![\d.])'?\d{2}\s?년\s?(?:1[0-2]|0?[1-9])\s?월(?:\s?(?:3[01]|[12]\d|0?[1-9])\s?일)?"),
        ("date", r"'\d{2}[./](?:1[0-2]|0?[1-9])(?![\d.])"),
        ("date", r"(?<![\d가-힣])(?:1[0-2]|[1-9])월(?=[\s(,.]|에|말|초|중)(?!\s?\d)"),
        ("date", r"(?m:(?:\s\s|\s|^)(?P<hide>2[0-9](?:1[0-2]|0[1-9])(?:3[01]|[12]\d|0[1-9]))(?=\s*$))"),
        ("date", r"(?<=\()(?P<hide>(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))(?=[,)])"),
        ("date", r"(?m:(?:\s)(?P<hide>(?:1[0-2]|[1-9])\.(?:3[01]|[12]\d|[1-9]))(?=\s\d\d:\d\d))"),
        ("date", rf"(?<![\w/.~-])(?P<hide>{_SHORT})\s?~"),
        ("date", r"\d\s?~\s?(?P<hide>(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9]))(?![/\d]|\.\d)"),
        ("date", rf"(?m:\s\s(?P<hide>{_SHORT})[ \t]*$)"),
        ("date", rf"{_SHORT}-(?P<hide>(?:1[0-2]|[1-9])/(?:3[01]|[12]\d|[1-9]))(?!\d)"),
        ("date", r"(?<![\d./~-])(?P<hide>(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9]))(?=-(?:1[0-2]|[1-9])/\d)"),
        ("date", rf"(?P<hide>{_SHORT})\s?\(?(?:[월화수목금토일](?=[)\s.])|\d\d:\d\d)"),
        ("fraction", r"(?P<hide>(?<![\d./~-])(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9])(?![\d/%A-Za-z]|\.\d|점))"),
        ("date", rf"(?m:^[ \t]*[-*•(\[]?\s?(?P<hide>{_SHORT})(?=\s|[)\]:]|$))"),
        ("date", rf"(?P<hide>(?=\d+/){_SHORT})\s?\)?\s?(?:자\s|일\s|에\s|~|-)?\s?(?i:{_any('day')})"),
        ("date", rf"(?i:(?<![A-Za-z])(?:{_any('day')})\s?(?:일|일자|date)?\s?[:(,]?\s?)(?P<hide>(?=\d+/){_SHORT})(?!\s?(?:점|회|mg|cm|mm))"),
        ("date", rf"(?P<hide>{_SHORT})\s?\)?\s?(?:자\s|일\s|에\s|~|-)?\s?(?i:{_any('date')})"),
        ("date", rf"(?i:(?<![A-Za-z])(?:{_any('date')})\s?(?:일|일자|date)?\s?[:(,]?\s?)(?P<hide>{_SHORT})(?!\s?(?:점|회|mg|cm|mm))"),
    )  # fmt: skip
    return tuple(
        (kind.rstrip("?!~*"), kind[-1] if kind[-1] in "?!~*" else "", re.compile(text))
        for kind, text in rules
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
            # What an earlier rule has hidden stays its own; the rest of a longer one is added.
            for free in re.finditer(rb"\0+", taken[one.start : one.end]):
                start, end = one.start + free.start(), one.start + free.end()
                rest = note[start:end]
                whole = end - start == one.end - one.start
                if (
                    whole
                    or re.search(r"\d", rest)
                    or (one.kind == "name" and _LATIN_NAME.fullmatch(rest.strip(" ,")))
                ):
                    found.append(IdentifierSpan(start, end, one.kind))
            taken[one.start : one.end] = b"\1" * (one.end - one.start)
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
    names: set[str] = set()
    for kind, doubt, pattern in _rules():
        group = "hide" if "hide" in pattern.groupindex else 0
        at = 0
        while match := pattern.search(note, at):
            start, end = match.span(group)
            at = max(match.end(group) if group else match.end(), at + 1)
            while end > start and note[end - 1].isspace():
                end -= 1
            if kind == "fraction":
                if not _is_day(note, start, end):
                    continue
                kind_now = "date"
            else:
                kind_now = "name" if kind == "single" else kind
            if kind == "name":
                end = _name_end(note, start, end, doubt)
            if end <= start:
                continue
            yield IdentifierSpan(start, end, kind_now)
            if kind == "name":
                names.add(note[start:end])
                yield from _listed(note, end, names)
    # Who is named once is hidden everywhere, also by the given name.
    for name in names:
        given = name[1:] if _HANGUL_NAME.fullmatch(name) and len(name) == 3 else ""
        if given and name[:2] not in _DOUBLE and given not in _taken():
            for match in re.finditer(
                rf"(?<![가-힣]){given}(?=이?(?:는|가|를|랑|야|의|인|[\s,.\"')])|[은을아])", note
            ):
                yield IdentifierSpan(*match.span(), "name")
    for name in sorted(names, key=len, reverse=True):
        if len(name) < 3 or not (_HANGUL_NAME.fullmatch(name) or " " in name):
            continue
        for match in re.finditer(re.escape(name), note):
            yield IdentifierSpan(*match.span(), "name")


_LATIN_NAME = re.compile(r"[A-Z][A-Za-z. -]{2,}")
_HANGUL_NAME = re.compile(r"[가-힣]{3,4}")
_NEXT_NAME = re.compile(
    rf"\s?[,/·&+]\s?(?:(?:R[1-4]|Dr\.?)\s?)?(?P<hide>{_NAME}|{_HIDDEN})(?![가-힣])"
)
_HONORED = "은는이가을를의님씨군양"


def _name_end(note: str, start: int, end: int, doubt: str) -> int:
    """Give where a name ends, or its start if it is none.

    doubt  "" behind a label with a colon; "!" next to a role or title: any syllables; "~" those of
           rarer names too; "?" the usual ones only; "*" and no word of any text
    """
    text = note[start:end]
    if text in _taken() or text.lower() in ("unknown", "none", "name", "md"):
        return start
    if text[-1] in "은는을를의로와과도분" and text[:-1] in _taken():
        return start
    if text.isascii() and len(text) < 3 and text not in _words("surname"):
        return start
    if not re.fullmatch("[가-힣]+", text):
        return start if text.isascii() and text.isupper() and len(text) < 4 else end
    if doubt not in ("?", "*"):
        # Beside a role or a title any name, if it does not begin with a word; elsewhere by its syllables.
        good = _could_be_a_name(text) or (doubt != "~" and text[:2] not in _taken())
        return end if good and not text.endswith(_words("ending")) else start
    if doubt == "*" and _is_a_word(text):
        return start
    return end if _reads_like_a_name(text) else start


_FULL_DATE = re.compile(
    r"(?<!\d)(?:(?:19|20)\d{2}|2\d)\s?[-./년]\s?(1[0-2]|0?[1-9])\s?[-./월]\s?\d{1,2}"
)


def _is_day(note: str, start: int, end: int) -> bool:
    """Whether 3/5 is a day: no score stands before it, and the note has dates of that season."""
    before = note[max(0, start - 16) : start]
    words = re.findall(r"[A-Za-z가-힣]+", before)
    if re.search(r"[\d+/=:\-]\s?$", before) or (words and words[-1] in _words("score")):
        return False
    month, day = (int(part) for part in note[start:end].split("/"))
    if (
        re.match(r"\s?(?:점|회|등급|정|T\b|to\b)", note[end:])
        or month == day
        or (day == 10 and month <= 10 and not re.search(r"[(,]\s?$", before))
        or (month, day) in ((1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (1, 5), (1, 10))
    ):
        return False
    if (
        words
        and re.search(r"[A-Z가-힣]$", words[-1])
        and words[-1].isupper()
        and day in (5, 10, 30)
    ):
        return False
    dated = {int(one[1]) for one in _FULL_DATE.finditer(note)}
    near = any((month - one) % 12 <= 3 or (one - month) % 12 <= 3 for one in dated)
    others = re.findall(r"(?m:^[ \t\-•]*\d{1,2}/\d{1,2}\s)|\d{1,2}/\d{1,2}\s?(?:~|\d\d:)", note)
    return (near or bool(others) or not dated) and (
        day > 10 or re.search(r"(?:[가-힣(,:]|[가-힣]\.)\s?$", before) is not None
    )


def _reads_like_a_name(text: str) -> bool:
    """Whether the syllables are those that given names have; two syllables alone are too few."""
    given = text[2:] if text[:2] in _DOUBLE.split("|") else text[1:]
    if text in _taken() or len(given) != 2:
        return False
    [first], [last] = _words("first"), _words("last")
    return given[0] in first and given[1] in last and given not in _words("ordinary")


def _is_a_word(text: str) -> bool:
    """Whether it is, or begins with, a word that texts have, or ends as words do."""
    words = {text, text[:2]}
    known = not words.isdisjoint(common_words()) or not words.isdisjoint(_taken())
    ends = text.endswith((*_words("ending"), "심", "함", "음", "됨", "다", "부", "적", "성"))
    return known or ends or any(word.startswith(text) for word in _taken())


def _could_be_a_name(text: str) -> bool:
    """Whether the syllables are those of rarer given names too, of one to three syllables."""
    given = text[2:] if text[:2] in _DOUBLE.split("|") else text[1:]
    first = _words("first")[0] + _words("first_more")[0]
    last = _words("last")[0] + _words("last_more")[0]
    if text in _taken() or given in _words("ordinary") or len(given) < 2:
        return False
    return given[0] in first and given[-1] in last and (len(given) == 2 or given[1] in first + last)


def _listed(note: str, at: int, names: set[str]) -> Iterator[IdentifierSpan]:
    """Give the names that follow one in a list: 집도의: 김영수, 이민호."""
    while (match := _NEXT_NAME.match(note, at)) and _reads_like_a_name(match["hide"]):
        names.add(match["hide"])
        yield IdentifierSpan(*match.span("hide"), "name")
        at = match.end()


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
