"""Symbols spelt in letters that every vocabulary has.

A WordPiece vocabulary without ㆍ or ㎎ loses the whole word around it: 진통ㆍ소염 and 500㎎ are one
unknown token each. Here ㎎ becomes mg, Ⅱ II, ① (1), ㈜ (주), each dot between words ·, and marks
(▲, →, 😀) get spaces around them. Signs that vocabularies know as a rule (½, ², ×, ™) stay.
Hanja are written by their reading: 無 becomes 무.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources

# One sign for those that look the same; the second μ is Greek, and part of ㎍.
_SAME = {**dict.fromkeys("ㆍ‧∙․･・⋅ꞏ", "·"), "∼": "~", "〜": "~", "˚": "°", "\u00b5": "\u03bc"}
# Letters of another shape, which stay part of their word: ℓ, ﬁ, 𝐀.
_SHAPES = "\u2113\ufb00-\ufb06\U0001d400-\U0001d7ff"
# ① ⑴ ⒈ ⓐ ❶ ㉠ ㉮ ㈜ and their like.
_ENCLOSED = "\u2460-\u24ff\u2776-\u2793\u3200-\u321e\u3220-\u3247\u3251-\u327e\u3280-\u32bf"
# ℃ ℉ ℡ ℻, fractions but halves, thirds and quarters, Roman numerals, units in one square.
_WORDS = "\u2103\u2109\u2121\u213b\u2150-\u2152\u2155-\u215e\u2160-\u217f\u32cc-\u32cf\u3371-\u33df"
# Arrows, technical signs, boxes, shapes, pictures; and what makes one picture of several.
_MARKS = (
    "\u2190-\u21ff\u2300-\u23ff\u2500-\u2775\u2794-\u27bf\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff"
    "\U0001f000-\U0001faff"
)
_JOINERS = "\u200d\ufe0f\U000e0020-\U000e007f"
# ᆞ is a vowel of old Korean; where no consonant stands before it, it is written for the dot.
_OLD_DOT = "\u119e"

_LEAD = re.compile("[\u1100-\u1112]")
_OTHERS = f"{''.join(_SAME)}{_SHAPES}{_ENCLOSED}"
_ANY = re.compile(f"[{_OTHERS}{_WORDS}{_MARKS}{_OLD_DOT}]")
_SIGN = re.compile(
    f"(?P<mark>[{_MARKS}][{_MARKS}{_JOINERS}]*)|(?P<word>[{_WORDS}]+)|(?P<enclosed>[{_ENCLOSED}])"
    f"|[{_OTHERS}]|(?<![\u1100-\u115f\ua960-\ua97c]){_OLD_DOT}"
)


def spell_symbols(text: str) -> str:
    """Spell units, numerals and list numbers, write one dot for all dots, set marks apart.

    >>> spell_symbols("진통ㆍ소염 500㎎, 안지오텐신Ⅱ, 25℃, ㈜말모이")
    '진통·소염 500mg, 안지오텐신 II, 25°C, (주)말모이'
    >>> spell_symbols("①공복에▲")
    '(1)공복에 ▲'
    """
    # One class of letters is looked for many times as fast as the whole expression.
    if text.isascii() or not _ANY.search(text):
        return text
    return _SIGN.sub(_spelling, text)


def spellings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the span of each sign, and what `spell_symbols` writes for it.

    >>> list(spellings("25℃에서"))
    [(2, 3, '°C')]
    """
    yield from ((*sign.span(), _spelling(sign)) for sign in _SIGN.finditer(text))


def _spelling(sign: re.Match[str]) -> str:
    before = sign.string[sign.start() - 1 : sign.start()]
    if sign["mark"]:
        after = sign.string[sign.end() : sign.end() + 1]
        accent = bool(after) and unicodedata.combining(after) != 0  # stays on what it stands on
        return f"{_gap(before)}{sign[0]}{'' if accent else _gap(after)}"
    if sign["enclosed"]:
        return _inside(sign[0])
    if sign["word"]:
        spelt = "".join(map(_parts, sign[0]))
        # 안지오텐신Ⅱ and 1⅛ must not become 안지오텐신II and 11/8.
        letters = before.isalpha() and spelt[0].isalpha()
        return f" {spelt}" if letters or (before.isdigit() and spelt[0].isdigit()) else spelt
    return "·" if sign[0] == _OLD_DOT else _SAME.get(sign[0]) or _parts(sign[0])


def _gap(neighbour: str) -> str:
    return " " if neighbour and not neighbour.isspace() else ""


@cache
def _parts(sign: str) -> str:
    """Give the letters that Unicode decomposes a sign into, or the sign itself.

    One level deep, so that ㎡ keeps its ². NFC makes syllables of the jamo in ㈎; those that are
    left, as in ㉠, become letters of their own.
    """
    codes = unicodedata.decomposition(sign).split()[1:]  # the first word says of which kind it is
    parts = unicodedata.normalize("NFC", "".join(chr(int(code, 16)) for code in codes))
    for lead in filter(_LEAD.match, parts):
        letter = unicodedata.lookup(f"HANGUL LETTER {unicodedata.name(lead).split()[-1]}")
        parts = parts.replace(lead, letter)
    return parts.translate({0x2044: "/", 0x2215: "/", 0x2113: "l"}) or sign


@cache
def _inside(sign: str) -> str:
    """The number or the letters of a sign in brackets, in place of a circle or a full stop."""
    inside = _parts(sign).strip("().")
    return f"({unicodedata.numeric(sign):g})" if inside == sign else f"({inside})"


# ㄴ and ㄹ change at the start of a word: 女 is 녀, and 여 in 女子. Both fall away before these:
_SOFT = "ㅑㅒㅕㅖㅛㅠㅣ"
_HANJA = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


@cache
def _readings() -> dict[int, str]:
    """Every hanja with its reading, from Unicode's Unihan."""
    lines = (resources.files("malmoi") / "data/hanja.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {ord(hanja): syllable for syllable, several in rows for hanja in several}


def read_hanja(text: str) -> str:
    """Write hanja by their Korean reading, letter for letter; one without a reading stays.

    >>> read_hanja("고지혈증 無, 右側 骨折, 女子와 男女")
    '고지혈증 무, 우측 골절, 여자와 남녀'
    """
    if text.isascii() or not _HANJA.search(text):
        return text
    return _HANJA.sub(_read_run, text)


def _read_run(run: re.Match[str]) -> str:
    read = run.group().translate(_readings())
    before = run.string[: run.start()][-1:]
    return read if "가" <= before <= "힣" else _soften(read[0]) + read[1:]


def _soften(syllable: str) -> str:
    """Give a syllable's form at the start of a word.

    >>> [_soften(one) for one in "녀력락노"]
    ['여', '역', '낙', '노']
    """
    code = ord(syllable) - 0xAC00
    lead, vowel = code // 588, code % 588 // 28
    if not 0 <= code < 11172 or lead not in (2, 5):  # ㄴ, ㄹ
        return syllable
    soft = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"[vowel] in _SOFT
    return chr(0xAC00 + (11 if soft else 2) * 588 + code % 588)
