"""What carries meaning in Korean text, by kiwipiepy: in whole texts, or in words by themselves.

An analyser takes longer over a text than all the rest of storing it, and most of a text's words
have been seen before. A word that is analysed by itself, whatever stands beside it, need be
analysed but once.

What keyword search counts: Korean morphemes or pairs of syllables, and Latin words.

Words of Latin letters are stemmed by SQLite's own Porter stemmer when they are stored and when
they are asked for, so they are only cut here.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..errors import OptionError
from ..text import morphemes
from ..text.cleanup import SAFE, clean

HANGUL = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]+")
# What is longer than any word is cut, so that what is remembered stays small.
_WORD = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]{1,64}")
# Latin words and numbers are found without an analyser, so their tags are not here.
_TAGS = {"NNG", "NNP", "NNB", "NR", "XR", "VV", "VA", "MAG", "MAJ", "MM", "XPN", "XSN"}
_STEMS = ("VV", "VA")
_HELPING = "VX"

# Particles, and forms of 이다, 하다 and 되다, that nouns hardly ever end in. Without them 서버에서
# and 서버를 are one word to analyse, and so are 사용하는 and 사용되고.
_PARTICLES = """
    을 를 은 에 에는 에도 에만 에서 에서는 에서도 에서의 에서만 에게 에게는 으로 으로는 으로도
    으로의 으로서 으로써 부터 부터는 까지 까지는 처럼 마다"""
_BEING = "입니다 이다 이며 이고"
_DOING = """
    합니다 했습니다 하였습니다 하겠습니다 하십시오 하세요 해요 했어요 한다 했다 하였다 하다
    하는 하던 했던 할 하려는 한다는 하고 했고 하며 했으며 하였으며 하여 해서 하면서 하지
    하지만 했지만 하기 하기를 하게 하거나 하도록 하려고 하려면 하면 해야 하므로 하는데 했는데
    하는지 할지 했을 됩니다 되었습니다 됐습니다 된다 되었다 됐다 되다 되는 된 될 됨 된다는
    되고 되며 되었으며 되어 되어야 되면서 되지 되지만 되기 되게 되거나 되도록 되려면 되면
    되므로 되었을"""
_LONGEST_FIRST = "|".join(
    sorted(" ".join((_PARTICLES, _BEING, _DOING)).split(), key=len, reverse=True)
)
# What is left must have two syllables, or three before those that short verbs end in, and must
# not be a verb's form that goes on with 하다 or 오다, as in 좋아하는 and 돌아와.
_LEFT = "[^아어여와워해려]"
_ENDINGS = re.compile(f"(?:(?<=.{_LEFT})(?:{_LONGEST_FIRST})|(?<=..{_LEFT})[는와])+$")

# Distinct words to remember: those of some hundred thousand sentences, in about 60 MB.
_ROOM = 300_000

Form = tuple[str, str]
Terms = tuple[str, ...]
Analyse = Callable[[list[str]], Iterable[list[Form]]]


def terms_of_texts(texts: list[str]) -> Iterator[Terms]:
    """Give the terms of each text, every word read in its sentence."""
    return map(_telling, morphemes.forms_of(texts))


class Remembered:
    """The terms of words by themselves, each found once. Safe to use from several threads."""

    def __init__(self, analyse: Analyse = morphemes.forms_of, *, room: int = _ROOM) -> None:
        self._analyse, self._room = analyse, room
        self._known: dict[str, Terms] = {}

    def __call__(self, texts: Iterable[str]) -> list[Terms]:
        """Give the terms of each text, word by word.

        >>> Remembered()(["배를 타고 왔다", "배에서 사용하는"])
        [('배', '타다', '오다'), ('배', '사용')]
        """
        found = [_WORD.findall(text) for text in texts]
        known = self._learn(found)
        return [tuple(term for word in words for term in known[word]) for words in found]

    def foresee(self, texts: Iterable[str]) -> None:
        """Learn the words of texts that will soon be asked for."""
        self._learn([_WORD.findall(text) for text in texts])

    def _learn(self, words: list[list[str]]) -> dict[str, Terms]:
        """Give a dictionary that knows all the words of some texts."""
        wanted, known = set(itertools.chain.from_iterable(words)), self._known
        missing = {word: base_of(word) for word in wanted.difference(known)}
        if missing and len(known) > self._room:
            # A new one, so that another thread goes on undisturbed with the old.
            known = self._known = {word: known[word] for word in wanted if word in known}
        # Sorted, since words that begin alike take the analyser to the same parts of its tables;
        # all at once, since then it works in threads of its own and leaves Python to the encoder.
        bases = sorted(set(missing.values()).difference(known))
        known.update(zip(bases, map(_alone, self._analyse(bases)), strict=True))
        known.update((word, known[base]) for word, base in missing.items())
        return known

    def forget(self) -> None:
        """Know no word, as at first."""
        self._known = {}


def base_of(word: str) -> str:
    """Take off the particles and endings of a word that cannot well be anything else.

    >>> base_of("서버에서는"), base_of("사용하기를"), base_of("좋아한다"), base_of("가에")
    ('서버', '사용', '좋아한다', '가에')
    """
    return _ENDINGS.sub("", word)


def _telling(forms: list[Form]) -> Terms:
    return tuple(
        form + "다" if tag in _STEMS else form
        for form, tag in forms
        if tag in _TAGS and HANGUL.search(form)
    )


def _alone(forms: list[Form]) -> Terms:
    """The terms of a word by itself: where only a helping verb is seen, it helps no other."""
    return _telling(forms) or tuple(form + "다" for form, tag in forms if tag == _HELPING)


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
