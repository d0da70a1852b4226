"""What keyword search counts: Korean morphemes or pairs of syllables, and Latin words.

Words of Latin letters are stemmed by SQLite's own Porter stemmer when they are stored and when
they are asked for, so they are only cut here.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from .. import morphemes
from ..errors import OptionError
from ..text import SAFE, clean
from .korean import HANGUL, Remembered, terms_of_texts

# What a file was made with is written in it, so a name keeps its meaning for good: whatever is
# to be cut in another way needs another name.
KINDS = ("morphemes", "bigrams", "word-morphemes")
_OTHER = re.compile(r"[^\W_가-힣ㄱ-ㅎㅏ-ㅣ]+")
_LATIN = re.compile("[0-9a-z]+")  # the same among ASCII, and much faster

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
    return "word-morphemes" if morphemes.available() else "bigrams"


def check_words(kind: str) -> None:
    """Raise for a way of cutting that is not known."""
    if kind not in KINDS:
        raise OptionError(f"words is {kind!r}; known are {', '.join(KINDS)}. Choose one of these.")


def cut(texts: Iterable[str], kind: str) -> Iterator[list[str]]:
    """Yield the words of each text.

    >>> next(cut(["배송일은 May 5"], "bigrams"))
    ['배송', '송일', '일은', 'may', '5']
    """
    cleaned = _cleaned(texts, kind)
    has_hangul = [bool(HANGUL.search(text)) for text in cleaned]
    korean = iter(_KOREAN[kind](list(itertools.compress(cleaned, has_hangul))))
    for text, has in zip(cleaned, has_hangul, strict=True):
        yield [*(next(korean) if has else ()), *_others(text)]


def foresee(texts: Iterable[str], kind: str) -> None:
    """Find ahead what cutting these texts will take, where it can be remembered."""
    if kind == "word-morphemes":
        remembered.foresee(_cleaned(texts, kind))


def query_words(query: str, kind: str) -> list[str]:
    """The distinct words of a query, the first ones of a long one.

    >>> query_words("When is my product getting delivered", "bigrams")
    ['product', 'delivered']
    """
    [words] = cut([query[:QUERY_LETTERS]], kind)
    telling = [word for word in words if word not in _COMMON]
    return list(dict.fromkeys(telling or words))[:QUERY_WORDS]


def _cleaned(texts: Iterable[str], kind: str) -> list[str]:
    check_words(kind)
    steps = _STEPS.get(kind, SAFE)
    # Nothing that is to be cleaned is ASCII, and half of most texts are.
    return [text if text.isascii() else clean(text, steps) for text in texts]


def _others(text: str) -> list[str]:
    """The words that are not Hangul, in small letters."""
    if text.isascii():
        return _LATIN.findall(text.lower())
    joined = " ".join(_OTHER.findall(text)).lower()
    return joined.split(" ") if joined else []


def _bigrams(texts: Sequence[str]) -> Iterator[list[str]]:
    for text in texts:
        yield [pair for run in HANGUL.findall(text) for pair in _pairs(run)]


def _pairs(run: str) -> list[str]:
    return list(map(operator.add, run, run[1:])) or [run]


_STEPS = {"word-morphemes": (*SAFE, "compose")}
remembered = Remembered()
_KOREAN: dict[str, Callable[[list[str]], Iterable[Sequence[str]]]] = {
    "word-morphemes": remembered,
    "morphemes": terms_of_texts,
    "bigrams": _bigrams,
}
