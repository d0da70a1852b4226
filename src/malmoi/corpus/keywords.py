"""What keyword search counts: Korean morphemes or syllable bigrams, and Latin words.

Morphological analysis (kiwipiepy) takes longer than all other steps of storing a text, and most
words of a text have been seen before. A word that is analysed on its own, whatever its context,
has to be analysed only once and is then cached.

Latin words are only split here: SQLite's Porter tokenizer stems them, when they are stored and
when they are searched for.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..errors import OptionError
from ..text import morphemes
from ..text.cleanup import SAFE, clean

HANGUL = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]+")
# Longer runs are split, so that cached words stay short.
_WORD = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]{1,64}")
# Latin words and numbers are found without the analyser, so their tags are not listed.
_TAGS = {"NNG", "NNP", "NNB", "NR", "XR", "VV", "VA", "MAG", "MAJ", "MM", "XPN", "XSN"}
_STEMS = ("VV", "VA")
_AUXILIARY = "VX"

# Particles, and forms of 이다, 하다 and 되다, in which nouns hardly ever end. Without them 서버에서
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
# What remains must have two syllables (three before endings of short verbs), and must not be a
# verb form that is joined to 하다 or 오다, as in 좋아하는 and 돌아와.
_LEFT = "[^아어여와워해려]"
_ENDINGS = re.compile(f"(?:(?<=.{_LEFT})(?:{_LONGEST_FIRST})|(?<=..{_LEFT})[는와])+$")

# Distinct words to cache: those of some hundred thousand sentences, in about 60 MB.
_CACHED = 300_000

Form = tuple[str, str]
Terms = tuple[str, ...]
Analyse = Callable[[list[str]], Iterable[list[Form]]]


class WordCache:
    """The terms of single words, each analysed once. Safe to use from several threads."""

    def __init__(self, analyse: Analyse = morphemes.forms_of, *, size: int = _CACHED) -> None:
        self._analyse, self._size = analyse, size
        self._known: dict[str, Terms] = {}

    def __call__(self, texts: Iterable[str]) -> list[Terms]:
        """Give the terms of each text, word by word.

        >>> WordCache()(["배를 타고 왔다", "배에서 사용하는"])
        [('배', '타다', '오다'), ('배', '사용')]
        """
        found = [_WORD.findall(text) for text in texts]
        known = self._learn(found)
        return [tuple(term for word in words for term in known[word]) for words in found]

    def prefetch(self, texts: Iterable[str]) -> None:
        """Analyse the words of texts that will be needed soon."""
        self._learn([_WORD.findall(text) for text in texts])

    def _learn(self, words: list[list[str]]) -> dict[str, Terms]:
        """Give a dictionary that has the terms of all these words."""
        wanted, known = set(itertools.chain.from_iterable(words)), self._known
        missing = {word: base_of(word) for word in wanted.difference(known)}
        if missing and len(known) > self._size:
            # A new dictionary, so that other threads can keep using the old one.
            known = self._known = {word: known[word] for word in wanted if word in known}
        # Sorted, because words with the same beginning use the same parts of the analyser's tables;
        # all at once, because then it works in its own threads and leaves Python to the encoder.
        bases = sorted(set(missing.values()).difference(known))
        known.update(zip(bases, map(_word_terms, self._analyse(bases)), strict=True))
        known.update((word, known[base]) for word, base in missing.items())
        return known

    def clear(self) -> None:
        """Empty the cache."""
        self._known = {}


def base_of(word: str) -> str:
    """Strip particles and endings that can hardly be anything else from a word.

    >>> base_of("서버에서는"), base_of("사용하기를"), base_of("좋아한다"), base_of("가에")
    ('서버', '사용', '좋아한다', '가에')
    """
    return _ENDINGS.sub("", word)


def _content_terms(forms: list[Form]) -> Terms:
    return tuple(
        form + "다" if tag in _STEMS else form
        for form, tag in forms
        if tag in _TAGS and HANGUL.search(form)
    )


def _word_terms(forms: list[Form]) -> Terms:
    """The terms of a single word: an auxiliary verb on its own counts as a verb."""
    return _content_terms(forms) or tuple(form + "다" for form, tag in forms if tag == _AUXILIARY)


# A corpus file stores the kind it was made with, so a kind never changes its meaning: another
# way of splitting texts needs another name.
KINDS = ("morphemes", "bigrams", "word-morphemes")
_OTHER = re.compile(r"[^\W_가-힣ㄱ-ㅎㅏ-ㅣ]+")
_LATIN = re.compile("[0-9a-z]+")  # the same among ASCII, and much faster

# Frequent English words do not tell what a question is about. They are stored, because a phrase
# may consist of them alone, but not searched for if the query has other words.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and any are as at be been but by can could did do does for from get gets
        getting got had has have he her him his how i if in into is it its just me my of on or our
        she should so some than that the their them then there these they this those to us was we
        were what when where which who whom why will with would you your""",
    )
)

# A query is a question, not a book: further characters or words are ignored.
QUERY_CHARACTERS = 4096
QUERY_WORDS = 64


def default_words() -> str:
    """Morphemes where kiwipiepy is installed, syllable bigrams otherwise."""
    return "word-morphemes" if morphemes.available() else "bigrams"


def check_words(kind: str) -> None:
    """Raise for an unknown kind of keywords."""
    if kind not in KINDS:
        raise OptionError(f"words is {kind!r}; known are {', '.join(KINDS)}. Choose one of these.")


def cut(texts: Iterable[str], kind: str) -> Iterator[list[str]]:
    """Yield the keywords of each text.

    >>> next(cut(["배송일은 May 5"], "bigrams"))
    ['배송', '송일', '일은', 'may', '5']
    """
    cleaned = _cleaned(texts, kind)
    has_hangul = [bool(HANGUL.search(text)) for text in cleaned]
    korean = iter(_KOREAN[kind](list(itertools.compress(cleaned, has_hangul))))
    for text, has in zip(cleaned, has_hangul, strict=True):
        yield [*(next(korean) if has else ()), *_others(text)]


def prefetch(texts: Iterable[str], kind: str) -> None:
    """Analyse the words of texts ahead, where the results can be cached."""
    if kind == "word-morphemes":
        word_cache.prefetch(_cleaned(texts, kind))


def query_words(query: str, kind: str) -> list[str]:
    """The distinct keywords of a query; only the first ones of a long query.

    >>> query_words("When is my product getting delivered", "bigrams")
    ['product', 'delivered']
    """
    [words] = cut([query[:QUERY_CHARACTERS]], kind)
    rare = [word for word in words if word not in _COMMON]
    return list(dict.fromkeys(rare or words))[:QUERY_WORDS]


def _cleaned(texts: Iterable[str], kind: str) -> list[str]:
    check_words(kind)
    steps = _STEPS.get(kind, SAFE)
    # ASCII needs no cleaning, and often half of the texts are ASCII.
    return [text if text.isascii() else clean(text, steps) for text in texts]


def _others(text: str) -> list[str]:
    """The words that are not Hangul, in lower case."""
    if text.isascii():
        return _LATIN.findall(text.lower())
    joined = " ".join(_OTHER.findall(text)).lower()
    return joined.split(" ") if joined else []


def _bigrams(texts: Sequence[str]) -> Iterator[list[str]]:
    for text in texts:
        yield [
            pair
            for run in HANGUL.findall(text)
            for pair in (map(operator.add, run, run[1:]) if len(run) > 1 else (run,))
        ]


_STEPS = {"word-morphemes": (*SAFE, "compose")}
word_cache = WordCache()
_KOREAN: dict[str, Callable[[list[str]], Iterable[Sequence[str]]]] = {
    "word-morphemes": word_cache,
    "morphemes": lambda texts: map(_content_terms, morphemes.forms_of(texts)),
    "bigrams": _bigrams,
}
