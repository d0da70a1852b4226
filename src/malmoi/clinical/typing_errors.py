"""Names that were typed with one error: a letter or a jamo wrong, missing, too many, or swapped.

A Hangul syllable is compared by its jamo, so 당뇨뱡 is one error from 당뇨병. Short names have too
many neighbours to be guessed, and where two names are as near, none is chosen.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..bundle.bundle import find_model

_HANGUL = re.compile(r"[가-힣]{3,12}")
_LATIN = re.compile(r"[a-z]{8,24}")


class TypingErrors:
    """Single-word names, found by what is left of them around one error.

    >>> TypingErrors(["당뇨병", "pneumonia"]).name_of("당뇨뱡")
    '당뇨병'
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take names; those of several words or other scripts are left out."""
        self._halves: dict[tuple[int, bool, str], list[str]] = {}
        for name in {name.casefold() for name in names}:
            if is_long(name):
                own = _letters(name)
                for key in _keys(own, len(own)):
                    self._halves.setdefault(key, []).append(name)

    def name_of(self, word: str) -> str:
        """Give the only name that is one error away from a word, or ""."""
        word = word.casefold()
        if not is_long(word):
            return ""
        own = _letters(word)
        near = {
            name
            for length in (len(own) - 1, len(own), len(own) + 1)
            for key in _keys(own, length)
            for name in self._halves.get(key, ())
            if _is_one_error(own, _letters(name)) and _is_likely(word, name)
        }
        return near.pop() if len(near) == 1 else ""


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Give the words that the shipped tokenizer knows whole, which are no typing errors."""
    model = json.loads((find_model() / "tokenizer.json").read_text("utf-8"))["model"]
    return frozenset(word for word in model["vocab"] if not word.startswith("##"))


def is_long(word: str) -> bool:
    """Tell whether a word is of one script and long enough to be recognised with an error."""
    return bool(_HANGUL.fullmatch(word) or _LATIN.fullmatch(word))


def _letters(word: str) -> str:
    return unicodedata.normalize("NFD", word)


def _keys(letters: str, length: int) -> Iterator[tuple[int, bool, str]]:
    """Give the halves of a name of that length, less the letters where an error touches both."""
    half = length // 2 - 1
    yield length, False, letters[:half]
    yield length, True, letters[len(letters) - half :]


def _is_one_error(a: str, b: str) -> bool:
    """Tell whether two different words differ by one letter, or by two that are swapped."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    short, long = sorted((a, b), key=len)
    at = next((i for i, letter in enumerate(short) if letter != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return swapped or short[at + 1 :] == long[at + 1 :]


# Keys of a Korean and of a Latin keyboard, row by row; a key's neighbours are typed by mistake.
_LATIN_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_HANGUL_ROWS = ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ")
_TAILS = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_VOWELS = frozenset("aeiouy")
_PLACES = {
    unicodedata.normalize("NFKD", key): (y, x + 0.4 * (y % 3))
    for y, row in enumerate(_LATIN_ROWS + _HANGUL_ROWS)
    for x, key in enumerate(row)
}
_PLACES |= {
    chr(0x11A8 + i): _PLACES[lead]
    for i, key in enumerate(_TAILS)
    if (lead := unicodedata.normalize("NFKD", key)) in _PLACES
}
# What ends words that are no noun, or stands after one.
_ENDINGS = frozenset("이가은는을를에의로도만과와고며나서게지하한함음임인적성형시상중")


def _is_likely(word: str, name: str) -> bool:
    """Tell a typing error from another word: an inflection, a particle, another syllable."""
    a, b = _letters(word), _letters(name)
    at = next((i for i, letter in enumerate(a) if letter != b[i : i + 1]), len(a))
    one = len(a) == len(b) and a[at + 1 :] == b[at + 1 :]  # one letter instead of another
    if word.isascii():
        alike = not one or {a[at], b[at]} <= _VOWELS or _are_neighbours(a[at], b[at])
        return alike and a[-1] == b[-1]  # pneumoniae is an inflection
    if len(word) != len(name) or (word[-1] in _ENDINGS and word[-1] != name[-1]):
        return False
    if len(word) < 5 and word[0] != name[0]:
        return False  # 재출혈 is no 대출혈
    return len(word) > 3 or (one and _are_neighbours(a[at], b[at]))


def _are_neighbours(a: str, b: str) -> bool:
    (y, x), (other_y, other_x) = _PLACES.get(a, (-9, -9)), _PLACES.get(b, (9, 9))
    return abs(y - other_y) + abs(x - other_x) <= 1.7
