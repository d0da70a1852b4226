"""Clean-up of Hangul and Latin text: pure, idempotent functions from str to str.

`clean` applies several by name, so that a bundle's manifest can say which ones its model expects.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources

from ..errors import OptionError, TextError

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

_LEADING_JAMO = re.compile("[\u1100-\u1112]")
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
    for lead in filter(_LEADING_JAMO.match, parts):
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


_SURROGATE = re.compile("[\ud800-\udfff]")
# Zero-width characters and marks of direction that no tokenizer should see. ZWJ and ZWNJ carry
# meaning inside emoji and Indic words, so only those without a meaning in Korean or English go.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
INVISIBLE = frozenset(filter(_INVISIBLE.match, map(chr, (0xAD, *range(0x2000, 0x2070), 0xFEFF))))
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SPACE = re.compile(r"\s+")

# U+FF01–FF5E are ASCII moved by a constant; the wide space and the wide signs stand apart.
_WIDTH = {0xFF01 + i: 0x21 + i for i in range(0x5E)} | {0x3000: 0x20}
_WIDTH |= {0xFFE0 + i: ord(sign) for i, sign in enumerate("¢£¬¯¦¥₩")}

_LEAD = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWEL = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_TAIL = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_JAMO_RUN = re.compile("[ㄱ-ㅎㅏ-ㅣ]{2,}")
# Half-width jamo (U+FFA1–FFDC) come from old terminals. NFKC makes conjoining jamo of them, which
# would need to know lead from tail, so they become compatibility jamo, letter by letter.
_CONSONANTS = "ㄱㄲㄳㄴㄵㄶㄷㄸㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅃㅄㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_HALF_VOWELS = (0xFFC2, 0xFFCA, 0xFFD2, 0xFFDA)  # where each run of six begins; the last has three
_HALF_WIDTH = {0xFFA1 + i: jamo for i, jamo in enumerate(_CONSONANTS)} | {
    _HALF_VOWELS[i // 6] + i % 6: jamo for i, jamo in enumerate(_VOWEL)
}

_HANGUL_LATIN = re.compile("(?<=[가-힣])(?=[A-Za-z])")


def as_text(value: object, *, where: str = "text") -> str:
    """Return the value if it is a str, or raise a TextError; `where` names it in the message."""
    if isinstance(value, str):
        return value
    raise TextError(
        f"{where} is {type(value).__name__}; expected str. "
        "Decode bytes first, and turn other values into text yourself."
    )


def as_texts(values: object) -> list[str]:
    """Return the option `texts` as a list of str, or raise a TextError; one str is refused."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TextError(
            f"texts is {type(values).__name__}; expected a list of strings. "
            "Put a single text into a list, and decode bytes first."
        )
    return [as_text(value, where=f"texts[{i}]") for i, value in enumerate(values)]


def mend_surrogates(text: str) -> str:
    """Join surrogate pairs, and put U+FFFD where one of a pair stands alone."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def compose(text: str) -> str:
    """Bring text into NFC, so that conjoining jamo become syllables."""
    return unicodedata.normalize("NFC", text)


def narrow(text: str) -> str:
    """Turn full-width letters and signs into ordinary ones, and half-width jamo into jamo.

    >>> narrow("ＣＯＶＩＤ－１９　검사")
    'COVID-19 검사'
    """
    return text.translate(_WIDTH).translate(_HALF_WIDTH)


def drop_invisible(text: str) -> str:
    """Take out zero-width characters, direction marks and soft hyphens."""
    return _INVISIBLE.sub("", text)


def drop_control(text: str) -> str:
    """Put a space where a control character (NUL among them) stands; tab and newline stay."""
    return _CONTROL.sub(" ", text)


def squeeze(text: str) -> str:
    """Make every run of white space one space, and trim both ends."""
    return _SPACE.sub(" ", text).strip()


def join_jamo(text: str) -> str:
    """Join runs of compatibility jamo that spell syllables; lone ones (ㅋㅋ, ㅠㅠ) stay.

    A consonant goes to the syllable it begins when a vowel follows it, as on a keyboard.

    >>> join_jamo("ㄷㅏㅇㄴㅛ ㅋㅋ")
    '당뇨 ㅋㅋ'
    """
    return _JAMO_RUN.sub(lambda run: _join_run(run.group()), text)


def _join_run(run: str) -> str:
    out: list[str] = []
    i = 0
    while i < len(run):
        if i + 1 < len(run) and run[i] in _LEAD and run[i + 1] in _VOWEL:
            code = 0xAC00 + (_LEAD.index(run[i]) * 21 + _VOWEL.index(run[i + 1])) * 28
            i += 2
            ends = i + 1 >= len(run) or run[i + 1] not in _VOWEL
            if i < len(run) and run[i] in _TAIL and ends:
                code += _TAIL.index(run[i]) + 1
                i += 1
            out.append(chr(code))
        else:
            out.append(run[i])
            i += 1
    return "".join(out)


def space_scripts(text: str) -> str:
    """Put a space where a Latin word follows Hangul without one.

    The other way round ("DM으로") a particle follows its noun and belongs to it, so it stays.

    >>> space_scripts("환자는DM으로 f/u중")
    '환자는 DM으로 f/u중'
    """
    return _HANGUL_LATIN.sub(" ", text)


def is_whole(text: str) -> bool:
    """Tell whether text can be written to a file: it has no lone surrogate."""
    return _SURROGATE.search(text) is None


STEPS: dict[str, Callable[[str], str]] = {
    "surrogates": mend_surrogates,
    "compose": compose,
    "narrow": narrow,
    "invisible": drop_invisible,
    "control": drop_control,
    "jamo": join_jamo,
    "symbols": spell_symbols,
    "hanja": read_hanja,
    "spaces": squeeze,
    "scripts": space_scripts,
    "lower": str.lower,
}

# What text needs before any tokenizer may see it.
SAFE: tuple[str, ...] = ("surrogates",)
# What Korean and English text of mixed origin needs to be comparable.
STANDARD: tuple[str, ...] = ("surrogates", "narrow", "invisible", "control", "compose", "spaces")


def clean(text: str, steps: Sequence[str] = STANDARD) -> str:
    """Apply the named steps in the order given.

    >>> clean("ＤＭ\\u200b  있음")
    'DM 있음'
    """
    for step in check_steps(steps):
        text = STEPS[step](text)
    return text


def check_steps(steps: Sequence[str]) -> tuple[str, ...]:
    """Return the steps as a tuple, or raise an OptionError that names an unknown one."""
    for step in steps:
        if step not in STEPS:
            raise OptionError(
                f"text clean-up step {step!r} is not known; known are {', '.join(STEPS)}. "
                'Correct the list, or the field "clean" of the bundle\'s malmoi.json.'
            )
    return tuple(steps)
