"""What keyword search counts: Korean morphemes or pairs of syllables, and Latin words.

Words of Latin letters are stemmed by SQLite's own Porter stemmer when they are stored and when
they are asked for, so they are only cut here.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from .. import morphemes
from ..errors import OptionError
from ..text import SAFE, clean

KINDS = ("morphemes", "bigrams")
# Korean: what carries meaning. Latin words and numbers are found without an analyser.
_TAGS = {"NNG", "NNP", "NNB", "NR", "XR", "VV", "VA", "MAG", "MAJ", "MM", "XPN", "XSN"}
_STEMS = ("VV", "VA")
_HANGUL = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]+")
_OTHER = re.compile(r"[^\W_가-힣ㄱ-ㅎㅏ-ㅣ]+")

# English words that stand in every other sentence say nothing of what a question is about. They
# are stored, since a phrase may be made of them alone, but not asked for beside better ones.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and any are as at be been but by can could did do does for from get gets
        getting got had has have he her him his how i if in into is it its just me my of on or our
        she should so some than that the their them then there these they this those to us was we
        were what when where which who whom why will with would you your""",
    )
)

# A query is a question, not a book: what comes after so many letters or words is not looked at.
QUERY_LETTERS = 4096
QUERY_WORDS = 64


def default_words() -> str:
    """Morphemes where kiwipiepy is installed, pairs of syllables otherwise."""
    return "morphemes" if morphemes.available() else "bigrams"


def check_words(kind: str) -> None:
    """Raise for a way of cutting that is not known."""
    if kind not in KINDS:
        raise OptionError(f"words is {kind!r}; known are {', '.join(KINDS)}. Choose one of these.")


def cut(texts: Iterable[str], kind: str) -> Iterator[list[str]]:
    """Yield the words of each text.

    >>> next(cut(["배송일은 May 5"], "bigrams"))
    ['배송', '송일', '일은', 'may', '5']
    """
    check_words(kind)
    cleaned = [clean(text, SAFE) for text in texts]
    korean = _KOREAN[kind]([text for text in cleaned if _HANGUL.search(text)])
    for text in cleaned:
        hangul = next(korean) if _HANGUL.search(text) else []
        yield [*hangul, *(word.lower() for word in _OTHER.findall(text))]


def query_words(query: str, kind: str) -> list[str]:
    """The distinct words of a query, the first ones of a long one.

    >>> query_words("When is my product getting delivered", "bigrams")
    ['product', 'delivered']
    """
    [words] = cut([query[:QUERY_LETTERS]], kind)
    telling = [word for word in words if word not in _COMMON]
    return list(dict.fromkeys(telling or words))[:QUERY_WORDS]


def _bigrams(texts: list[str]) -> Iterator[list[str]]:
    for text in texts:
        yield [pair for run in _HANGUL.findall(text) for pair in _pairs(run)]


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _morphemes(texts: list[str]) -> Iterator[list[str]]:
    for found in morphemes.morphemes_of(texts):
        yield [
            one.text + "다" if one.tag in _STEMS else one.text
            for one in found
            if one.tag in _TAGS and _HANGUL.search(one.text)
        ]


_KOREAN: dict[str, Callable[[list[str]], Iterator[list[str]]]] = {
    "morphemes": _morphemes,
    "bigrams": _bigrams,
}
