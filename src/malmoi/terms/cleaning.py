"""Cleaning of names: what a code table writes around them is removed and counted.

Nothing is lost: the lexicon keeps the table's own text next to the cleaned one, and the report
says how often each step changed something, with examples.
"""

import re
from dataclasses import dataclass

from ..text.cleanup import clean
from .names import tidy

_CODE = r"[A-Z]\d{2}(?:\.[\dXx]*)?-?[†‡*+]?(?:\.-)?"
_JOIN = r"(?:\s*(?:[,;~–-]|및|and|or|또는)\s*|\s+)"
_CODES = re.compile(rf"\s*[(\[]\s*({_CODE}(?:{_JOIN}{_CODE})*)\s*[)\]](?:\s*[†‡*+])?")
# "(4단위 및 5단위 숫자 .51에 해당되는 E10-E14†)": words around a marked code are an instruction.
_MARKED = re.compile(r"\s*\([^()]*[A-Z]\d{2}[\d.-]*[†‡*][^()]*\)")
_POINTS = re.compile(r"[†‡*+]|\.?-(?=[\s,;†‡*+]|$)")  # marks, and "A32.-" for all of A32
_MARKS = re.compile(r"\s*[†‡]|(?<=[\w)\]])\s*\*+$")
_CHAPTER = re.compile(r"^(?:[Ⅰ-Ⅻ]+|[IVX]+)\s*\.\s*")
_NOS = re.compile(r"[\s,]*\b(?:NOS|NEC|N\.O\.S\.?|N\.E\.C\.?)$|\s*[(\[](?:NOS|NEC)[)\]]$")
_HANJA = re.compile(
    r"\s*[(\[][\u3400-\u9fff\uf900-\ufaff][\u3400-\u9fff\uf900-\ufaff\s,·、/]*[)\]]"
)
_BRACKETS = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]")
_LAST = re.compile(r"[(\[]([^()\[\]]+)[)\]]$")
# What stands in the last brackets is another name of the thing when it ends like one.
_DISEASE = re.compile(
    r"(?:병|증|염|열|암|종|증후군|질환|disease|syndrome|fever|sickness|(?:it|os)is|oma)$",
    re.IGNORECASE,
)
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9/&+-]{1,9}")
_HANGUL = re.compile("[가-힣]")
_WRONG = re.compile("[\x80-\u02ff‘-•…‰‹›€™ŒœŠšŽžŸƒˆ˜–—]{2,}")
# As which encoding a text was read, and in which it was written.
_AS_LATIN = (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "euc_kr"))
_AS_KOREAN = (("cp949", "utf-8"),)
BROKEN = "\ufffd"

# The steps by name, as a report counts them, with what each one means.
STEPS = {
    "encoding": "decoded wrongly once, brought back",
    "white space": "width, white space and invisible characters",
    "chapter number": "Roman number of a chapter",
    "codes": "codes in brackets",
    "marks": "dagger and asterisk",
    "hanja": "Chinese characters in brackets",
    "NOS/NEC": "not otherwise specified, not elsewhere classified",
    "brackets": "a form without its brackets added as a name",
}


@dataclass(frozen=True)
class Cleaned:
    """A name as it is to be matched, the steps that changed it, and the forms it brings along.

    `extras` are (text, kind) of names that stand in brackets or around them; `codes` are the
    codes that stood in brackets.
    """

    text: str
    steps: tuple[str, ...]
    extras: tuple[tuple[str, str], ...] = ()
    codes: str = ""


def clean_name(text: str, *, code: str = "") -> Cleaned:
    """Remove what a table writes around a name.

    >>> clean_name("결핵성 장염(A18.31†)").text, clean_name("Amoeboma NOS").text
    ('결핵성 장염', 'Amoeboma')
    >>> clean_name("Ⅱ. 신생물(C00-D48)", code="C00-D48").steps
    ('chapter number', 'codes')
    >>> clean_name("본태성(원발성) 고혈압").extras
    (('본태성 고혈압', 'synonym'),)
    >>> clean_name("Severe acute respiratory syndrome [SARS]").extras[1]
    ('SARS', 'abbreviation')
    >>> clean_name("Acute obstructive laryngitis [croup]").extras
    (('Acute obstructive laryngitis', 'synonym'),)
    >>> clean_name("홍반열[진드기매개 리케차병]").extras[1]
    ('진드기매개 리케차병', 'synonym')
    """
    steps: list[str] = []
    codes = _CODES.search(text)
    chapter = "-" in code
    for step, changed in (
        ("encoding", lambda text: repair(text) or text),
        ("white space", tidy),
        ("chapter number", lambda text: _CHAPTER.sub("", text) if chapter else text),
        ("codes", lambda text: _MARKED.sub("", _CODES.sub("", text))),
        ("marks", lambda text: _MARKS.sub("", text)),
        ("hanja", lambda text: _HANJA.sub("", text)),
        ("NOS/NEC", lambda text: _NOS.sub("", text)),
    ):
        after = changed(text).strip()
        if after and after != text:
            steps.append(step)
            text = after
    extras = _extras(text)
    if extras:
        steps.append("brackets")
    return Cleaned(text, tuple(steps), extras, _POINTS.sub("", codes.group(1)) if codes else "")


def _extras(text: str) -> tuple[tuple[str, str], ...]:
    """Give the form without brackets, and a name or abbreviation that stands in the last."""
    if "(" not in text and "[" not in text:
        return ()
    found: list[tuple[str, str]] = []
    bare = clean(_BRACKETS.sub("", text))
    if bare != text and len(bare) > 1 and not re.search(r"[()\[\]]", bare):
        found.append((bare, "synonym"))
    last = _LAST.search(text)
    inner = last.group(1) if last else ""
    # An abbreviation is known by its form: short, one word, two capitals or more.
    if _SHORT.fullmatch(inner) and sum(letter.isupper() for letter in inner) >= 2:
        found.append((inner, "abbreviation"))
    elif last and text[last.start()] == "[" and _DISEASE.search(inner):
        found.append((clean(inner), "synonym"))
    return tuple(found)


def repair(text: str) -> str | None:
    """Restore Korean that was decoded wrongly and saved again; None where nothing is wrong.

    No byte of such a text ("ë‹¹ë‡¨ë³‘") was lost, so it can often be decoded again.

    >>> repair("당뇨병".encode("utf-8").decode("latin-1"))
    '당뇨병'
    >>> repair("당뇨병".encode("cp949").decode("latin-1"))
    '당뇨병'
    >>> repair("Ménière병"), repair("당뇨병"), repair("Behçet’s disease")
    (None, None, None)
    """
    if text.isascii() or BROKEN in text:
        return None
    latin = _WRONG.search(text) and not _HANGUL.search(text)
    for wrong, right in _AS_LATIN if latin else _AS_KOREAN:
        try:
            repaired = text.encode(wrong).decode(right)
        except UnicodeError:
            continue
        # Korean: nearly everything that is not ASCII is Hangul.
        others = sum(not letter.isascii() for letter in repaired)
        if len(_HANGUL.findall(repaired)) >= max(1, 0.9 * others):
            return repaired
    return None
