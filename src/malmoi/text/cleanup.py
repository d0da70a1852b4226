"""Clean-up of Hangul and Latin text: pure, idempotent functions from str to str.

`clean` applies several by name, so that a bundle's manifest can say which ones its model expects.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from ..errors import OptionError, TextError
from .symbols import read_hanja, spell_symbols

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
