"""Hangul letter by letter: jamo for comparing, and what the other keyboard would have typed.

On the two-set keyboard (두벌식) every jamo shares its key with a Latin letter, so a word typed
with the language switch the wrong way is not lost: "ekdsy" is 당뇨, "ㅇㅡ" is dm.
"""

import functools
import re

_LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_TAILS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")

_KEYS = dict(
    zip(
        "ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔㅁㄴㅇㄹㅎㅗㅓㅏㅣㅋㅌㅊㅍㅠㅜㅡ",
        "qwertyuiopasdfghjklzxcvbnm",
        strict=True,
    )
)
_KEYS |= dict(zip("ㅃㅉㄸㄲㅆㅒㅖ", "QWERTOP", strict=True))
# Letters of two strokes, as they are typed.
_STROKES = {
    "ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ",
    "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ", "ㅢ": "ㅡㅣ",
    "ㄳ": "ㄱㅅ", "ㄵ": "ㄴㅈ", "ㄶ": "ㄴㅎ", "ㄺ": "ㄹㄱ", "ㄻ": "ㄹㅁ", "ㄼ": "ㄹㅂ",
    "ㄽ": "ㄹㅅ",
    "ㄾ": "ㄹㅌ", "ㄿ": "ㄹㅍ", "ㅀ": "ㄹㅎ", "ㅄ": "ㅂㅅ",
}  # fmt: skip
_JOINED = {strokes: letter for letter, strokes in _STROKES.items()}
_LETTERS = {key: letter for letter, key in _KEYS.items()}

_LATIN_WORD = re.compile(r"[A-Za-z]+")
_HANGUL = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]")
_JAMO = re.compile(r"[ㄱ-ㅎㅏ-ㅣ]")


def letters(text: str) -> str:
    """Spell every syllable by its strokes on the keyboard; everything else stays.

    >>> letters("당뇨 DM")
    'ㄷㅏㅇㄴㅛ DM'
    >>> letters("왔")
    'ㅇㅗㅏㅆ'
    """
    return "".join(map(_spelled, text))


@functools.lru_cache(maxsize=20_000)
def _spelled(character: str) -> str:
    number = ord(character) - 0xAC00
    if not 0 <= number < 11172:
        return _STROKES.get(character, character)
    parts = (_LEADS[number // 588], _VOWELS[number // 28 % 21], _TAILS[number % 28])
    return "".join(_STROKES.get(part, part) for part in parts)


def to_latin(text: str) -> str:
    """Give what the same keys type with the keyboard on English.

    >>> to_latin("ㅇㅡ"), to_latin("채ㅔㅇ"), to_latin("당뇨")
    ('dm', 'copd', 'ekdsy')
    """
    return "".join(_KEYS.get(letter, letter) for letter in letters(text))


def to_hangul(text: str) -> str:
    """Give what the same keys type with the keyboard on Korean.

    >>> to_hangul("ekdsy"), to_hangul("rksrudqus")
    ('당뇨', '간경변')
    """
    strokes = "".join(_LETTERS.get(key, _LETTERS.get(key.lower(), key)) for key in text)
    return _composed(strokes)


def mistyped(text: str) -> str | None:
    """Give the text as the other keyboard would have it, or None if it looks right as it is.

    Korean keys on English give Latin words without a gap between consonants and vowels that
    Korean would allow; they are mistyped when every Latin word spells whole syllables. English
    keys on Korean leave letters that form no syllable.

    >>> mistyped("ekdsyqud"), mistyped("ㅗ수"), mistyped("당뇨병"), mistyped("asthma")
    ('당뇨병', 'htn', None, None)
    """
    if _JAMO.search(text) and not _LATIN_WORD.search(text):
        return to_latin(text)
    if _HANGUL.search(text) or not _LATIN_WORD.search(text):
        return None
    typed = to_hangul(text)
    return None if _JAMO.search(typed) or len(text) < 4 else typed


def _composed(strokes: str) -> str:
    out: list[str] = []
    i = 0
    while i < len(strokes):
        if strokes[i] in _LEADS and i + 1 < len(strokes) and strokes[i + 1] in _VOWELS:
            syllable, i = _syllable(strokes, i)
            out.append(syllable)
        else:
            out.append(strokes[i])
            i += 1
    return "".join(out)


def _syllable(strokes: str, i: int) -> tuple[str, int]:
    """The syllable that begins at i, and where the next one does."""
    lead, vowel, tail = strokes[i], strokes[i + 1], ""
    i += 2
    if strokes[i - 1 : i + 1] in _JOINED and strokes[i : i + 1] in _VOWELS:
        vowel, i = _JOINED[strokes[i - 1 : i + 1]], i + 1
    for width in (2, 1):  # a tail of two strokes first
        found = strokes[i : i + width]
        found = _JOINED.get(found, "") if width == 2 else found
        follows = strokes[i + width : i + width + 1]
        if found and found in _TAILS and not (follows and follows in _VOWELS):
            tail, i = found, i + width
            break
    number = (_LEADS.index(lead) * 21 + _VOWELS.index(vowel)) * 28 + _TAILS.index(tail)
    return chr(0xAC00 + number), i
