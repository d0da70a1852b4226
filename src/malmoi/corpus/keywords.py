"""What keyword search counts: Korean morphemes or syllable bigrams, and Latin words.

Morphological analysis (kiwipiepy) takes longer than all other steps of storing a text, and most
words of a text have been seen before. A word that is analysed on its own, whatever its context,
has to be analysed only once and is then cached.

Latin words are only split here: SQLite's Porter tokenizer stems them, when they are stored and
when they are searched for.
"""

import functools
import itertools
import operator
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

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

    def terms_of(self, bases: Iterable[str]) -> dict[str, Terms]:
        """The terms of words without their endings that texts had just now."""
        known = self._learn([list(bases)])
        return {base: known[base] for base in bases}

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
# Words or numbers that belong together, as in ERR-4021, db-kr-07 and 4.11.2.
_JOINED = re.compile(r"[^\W_가-힣ㄱ-ㅎㅏ-ㅣ]+(?:[-_./:@#][^\W_가-힣ㄱ-ㅎㅏ-ㅣ]+)+")
_LATIN = re.compile("[0-9a-z]+")  # the same among ASCII, and much faster

# Frequent words do not tell what a question is about. They are stored, because a phrase
# may consist of them alone, but not searched for if the query has other words.
COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and any are as at be been but by can could did do does for from get gets
        getting got had has have he her him his how i if in into is it its just me my of on or our
        she should so some than that the their them then there these they this those to us was we
        were what when where which who whom why will with would you your
        하다 되다 있다 없다 않다 수 것 거 때 뭐 무엇 어떻 어떻다 어떻게 언제 어디 어느 누구 누 얼마
        얼마나 왜 몇 알다 좀 나 저 제 내 이 그""",
    )
)

# A query is a question, not a book: further characters or words are ignored.
QUERY_CHARACTERS = 4096
QUERY_WORDS = 64
# Vowels of a stem and its ending in one syllable, and the stem's: 려 is 리어, 와 오아, 줘 주어.
_CONTRACTED = {6: 20, 9: 8, 14: 13, 1: 0, 4: 18, 10: 11}


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


class TermMemory(Protocol):
    """What a store knows about the words of its passages."""

    def remembered(self, words: Sequence[str]) -> Mapping[str, Terms]:
        """The terms of those Korean words whose analyses were stored."""
        ...

    def known_terms(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Those terms that passages have, with the number of passages."""
        ...


class QueryTerms(NamedTuple):
    """What is searched for.

    Attributes:
        words: the distinct keywords of the query.
        more: phrases (with spaces), parts of compounds, and beginnings (with "*" at their ends),
            by which passages are found too.
    """

    words: list[str]
    more: list[str]


def query_words(query: str, kind: str, memory: TermMemory | None = None) -> list[str]:
    """The distinct keywords of a query; only the first ones of a long query.

    With a memory, words are not analysed again: loading the analyser takes three seconds.

    >>> query_words("When is my product getting delivered", "bigrams")
    ['product', 'delivered']
    """
    query = query[:QUERY_CHARACTERS]
    if memory is not None and kind == "word-morphemes" and not morphemes.loaded():
        [cleaned] = _cleaned([query], kind)
        words = [*_recalled(_WORD.findall(cleaned), memory), *_others(cleaned)]
    else:
        [words] = cut([query], kind)
    rare = [word for word in words if word not in COMMON]
    return list(dict.fromkeys(rare or words))[:QUERY_WORDS]


def query_terms(query: str, kind: str, memory: TermMemory | None = None) -> QueryTerms:
    """The keywords of a query, and what else passages are found by.

    >>> query_terms("product PX-40", "bigrams")
    QueryTerms(words=['product', 'px', '40'], more=['px 40'])
    """
    words = query_words(query, kind, memory)
    related = _related(words, memory) if memory is not None and kind != "bigrams" else []
    return QueryTerms(words, [*related, *_identifiers(query[:QUERY_CHARACTERS])])


def _identifiers(text: str) -> list[str]:
    """Codes such as ERR-4021 as phrases: all of their parts, one right after the other."""
    found = [_OTHER.findall(code.lower()) for code in _JOINED.findall(text)]
    return list(dict.fromkeys(" ".join(parts) for parts in found))[:QUERY_WORDS]


def _related(words: Sequence[str], memory: TermMemory) -> list[str]:
    """The parts of compounds, and words that no passage has as the beginning of others.

    A query for 택시비 finds 택시, and one for 택시 finds 택시비 where there is no 택시.
    """
    korean = [word for word in words if HANGUL.fullmatch(word) and len(word) > 1]
    parts = {word: [word[:i] for i in range(2, len(word))] for word in korean}
    for word in korean:
        parts[word] += [word[i:] for i in range(1, len(word) - 1)]
    known = memory.known_terms([*korean, *(part for own in parts.values() for part in own)])
    found = [part for own in parts.values() for part in own if part in known]
    beginnings = [f"{word}*" for word in korean if word not in known]
    return [word for word in dict.fromkeys([*found, *beginnings]) if word not in words]


def _recalled(words: Sequence[str], memory: TermMemory) -> list[str]:
    """The terms of words from memory; of a word that is not there, the known terms inside."""
    bases = [base_of(word) for word in words]
    known = memory.remembered(list(dict.fromkeys(bases)))
    unknown = [base for base in dict.fromkeys(bases) if base not in known]
    pieces = {
        base: {*_substrings(base), *(f"{stem}다" for stem in _stems(base))} for base in unknown
    }
    there = memory.known_terms([piece for own in pieces.values() for piece in own])
    return [
        term for base in bases for term in (known.get(base) or _inside(base, there) if base else ())
    ]


def _substrings(word: str) -> Iterator[str]:
    shortest = min(2, len(word))
    for start in range(len(word)):
        yield from (word[start:end] for end in range(start + shortest, len(word) + 1))


def _stems(word: str) -> Iterator[str]:
    """What the stem of a verb may be of which a word is a form, the longest first.

    >>> list(_stems("걸려요"))[1:]
    ['걸려', '걸리', '걸', '거', '그']
    """
    for end in range(len(word), 0, -1):
        yield word[:end]
        initial, rest = divmod(ord(word[end - 1]) - 0xAC00, 588)
        vowel, final = divmod(rest, 28)
        if not 0 <= initial < 19:
            continue
        base = 0xAC00 + 588 * initial
        if final:
            yield word[: end - 1] + chr(base + 28 * vowel)
        if vowel in _CONTRACTED:
            yield word[: end - 1] + chr(base + 28 * _CONTRACTED[vowel])


def _inside(word: str, known: Mapping[str, int]) -> list[str]:
    """The longest known terms in a word from left to right, or else the stem it begins with."""
    found, at = [], 0
    while at < len(word):
        ends = range(len(word), at, -1)
        end = next((end for end in ends if word[at:end] in known), None)
        if end is not None:
            found.append(word[at:end])
        at = end if end is not None else at + 1
    stems = (f"{stem}다" for stem in _stems(word))
    return found or list(itertools.islice((stem for stem in stems if stem in known), 1))


def analysed(texts: Iterable[str], kind: str, *, without: set[str]) -> dict[str, Terms]:
    """The analyses of the Korean words of texts that are not in `without`; they are added to it."""
    if kind != "word-morphemes":
        return {}
    bases = {base_of(word) for text in _cleaned(texts, kind) for word in _WORD.findall(text)}
    new = bases - without
    without |= new
    return word_cache.terms_of(new)


@functools.cache
def _stemmer() -> tuple[threading.Lock, sqlite3.Connection]:
    """SQLite's Porter stemmer: a table in memory, whose vocabulary holds the stems of its words."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(
        "CREATE VIRTUAL TABLE w USING fts5(x, tokenize='porter unicode61 remove_diacritics 0');"
        "CREATE VIRTUAL TABLE v USING fts5vocab(w, instance);"
    )
    return threading.Lock(), connection


@functools.lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A word's stem as in SQLite's full-text search; empty for a word without letters.

    >>> stem("arriving"), stem("배송"), stem("*")
    ('arriv', '배송', '')
    """
    lock, connection = _stemmer()
    with lock:
        connection.execute("INSERT INTO w(rowid, x) VALUES (1, ?)", (word,))
        found = connection.execute("SELECT term FROM v ORDER BY offset").fetchall()
        connection.execute("DELETE FROM w WHERE rowid = 1")
    return " ".join(term for (term,) in found)


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
