"""Names brought to normal forms in which wordings of one thing meet.

Three forms of a text, each looser than the one before:

    plain   lower case, one spelling, no punctuation
    core    plain without what only says "unspecified" or binds words together, and with one word
            for each thing (콩팥 and 신장, renal and kidney)
    bag     the words of the core in alphabetical order, so that "of the liver, cirrhosis" matches;
            its syllables if it is Korean, whose word borders are not known

The same functions run over a lexicon's names once and over every mention.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..io.files import read_lines
from ..io.fingerprint import hash_text
from ..text.cleanup import clean

TABLES = Path(__file__).parent / "tables"


class Variants:
    """A table of variants, applied to a normalised text longest first."""

    def __init__(self, table: dict[str, str]) -> None:
        """Take variant → replacement, both normalised; a word on both sides is kept."""
        self._table = table
        english = sorted((word for word in table if word.isascii()), key=len, reverse=True)
        self._english = re.compile("|".join(rf"\b{re.escape(w)}\b" for w in english) or "(?!)")
        # Korean words have no borders: the variants by first syllable, the longest first.
        self._korean: dict[str, list[str]] = {}
        for word in sorted((w for w in table if not w.isascii()), key=len, reverse=True):
            self._korean.setdefault(word[0], []).append(word)
        self.identity = hash_text("\n".join(f"{a}\t{b}" for a, b in sorted(table.items())))

    @classmethod
    def of(cls, groups: Iterable[Sequence[str]]) -> "Variants":
        """Make a table of groups; the first of each replaces the rest."""
        table: dict[str, str] = {}
        for group in groups:
            words = [_flat(word) for word in group]
            for word in words:
                table.setdefault(word, words[0])
            for word in words:  # as the end of a word, where 증 has been removed before
                if len(word) > 3 and word.endswith("증"):
                    table.setdefault(word[:-1], words[0].removesuffix("증"))
        return cls({word: first for word, first in table.items() if word})

    @classmethod
    def open(cls, path: str | Path | None = None) -> "Variants":
        """Read a table with one group a line, separated by tabs; the shipped one by default."""
        return cls.of(
            [word for word in line.split("\t") if word.strip()]
            for line in read_lines(path or TABLES / "variants.tsv")
            if line.strip() and not line.startswith("#")
        )

    def apply(self, text: str) -> str:
        """Replace every variant in a text.

        >>> Variants.of([("신장", "콩팥"), ("kidney", "renal")]).apply("콩팥결석 renal adrenal")
        '신장결석 kidney adrenal'
        """
        replaced = "".join(self._replaced(text)) if not text.isascii() else text
        return self._english.sub(lambda found: self._table[found.group()], replaced)

    def _replaced(self, text: str) -> Iterator[str]:
        i = 0
        while i < len(text):
            for word in self._korean.get(text[i], ()):
                end = i + len(word)
                # 호흡곤란증 is no part of 호흡곤란증후군.
                if text.startswith(word, i) and not text.startswith("증후군", end - 1):
                    yield self._table[word]
                    i = end
                    break
            else:
                yield text[i]
                i += 1


def _flat(word: str) -> str:
    """A variant as it is written in a core: lower case, Korean without spaces."""
    word = word.strip().casefold()
    return word if word.isascii() else word.replace(" ", "")


_ICD = re.compile(r"[A-Z]\d{2}(?:\.(\d{1,4}))?")
_RANGE = re.compile(r"[A-Z]\d{2}-[A-Z]\d{2}")


def shape_of(code: str) -> tuple[int, int, int, int]:
    """Read the form of an ICD code as category, depth, rest and group; zeros for other codes.

    category  1 for three characters
    depth     how many digits follow the fourth character
    rest      1 where the fourth character is 9 ("unspecified"), -1 where it is 8 ("other")
    group     1 for a range of codes

    >>> shape_of("J18.9"), shape_of("J18"), shape_of("A00-B99"), shape_of("D003920")
    ((0, 0, 1, 0), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0))
    """
    found = _ICD.fullmatch(code)
    if found is None:
        return 0, 0, 0, int(bool(_RANGE.fullmatch(code)))
    digits = found.group(1) or ""
    return int(not digits), max(0, len(digits) - 1), {"9": 1, "8": -1}.get(digits[:1], 0), 0


def category_of(code: str) -> str:
    """Give the category of an "unspecified" code, any other code as it is.

    >>> category_of("C15.9"), category_of("K74.6"), category_of("I10"), category_of("D003920")
    ('C15', 'K74.6', 'I10', 'D003920')
    """
    found = _ICD.fullmatch(code)
    return code[:3] if found is not None and found.group(1) == "9" else code


# A mention is a name, not a document: characters beyond this many are ignored.
LONGEST = 400

_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "κ": "kappa", "ω": "omega"}
_ROMAN = {"ⅰ": "i", "ⅱ": "ii", "ⅲ": "iii", "ⅳ": "iv", "ⅴ": "v", "ⅵ": "vi", "ⅶ": "vii", "ⅷ": "viii"}
_LETTERS = str.maketrans(_GREEK | _ROMAN | {"–": "-", "—": "-", "’": "'", "‘": "'"})
_POSSESSIVE = re.compile(r"(?<=[a-z])'s?(?![a-z])")
_NO_WORD = re.compile(r"[^0-9a-z가-힣ㄱ-ㅎㅏ-ㅣà-öø-ÿ]+")
_UNSPECIFIC = re.compile(
    r"상세불명 ?부분의?|상세불명의?|달리 명시되지 않은|달리 분류되지 않은|달리 분류된"
    r"|(?:\S+ (?:또는|및) )?\S+로 명시되(?:어 있)?지 않은|명시되지 않은"
    r"|합병증을 동반하지 않은|(?:\S+ (?:또는|및) )?\S+에 대한 언급이 없는"
    r"|\b(?:not specified as \w+(?: or \w+)*|without mention of \w+(?: or \w+)*"
    r"|without complications?|unspecified|not otherwise specified"
    r"|not elsewhere classified|nos|nec)\b"
)
# British spellings → American, by the letters that differ.
_BRITISH = (
    (re.compile(r"(?<=[a-z])ae(?=[a-z])|\bae(?=[a-z])"), "e"),
    (re.compile(r"oe(?=[dsmtp])(?!s\b)"), "e"),
    (re.compile(r"rrhoea\b"), "rrhea"),
    (re.compile(r"(?<=[a-z]{2})our\b"), "or"),
    (re.compile(r"is(?=ed\b|ation\b|ing\b)"), "iz"),
)
STOP = frozenset(
    "of the and or with due to in by from a an on for as 및 또는 의".split()  # noqa: SIM905
)
# Endings of Korean words that add no meaning, and how many syllables must be left before them.
_TAILS = (
    ("에서의", 2), ("에서", 2), ("의", 1), ("을", 2), ("를", 2), ("으로", 2), ("에", 2),
    ("증", 2), ("형", 2),
)  # fmt: skip
_WHOLE = re.compile("(?:기형|[0-9a-z]형|수두증)$")  # words that keep their ending
# 바이러스성폐렴 is 바이러스폐렴; but 급성, 양성 and their like are words, and so are 성인, 성장.
_QUALITY = re.compile(
    "(?<=[가-힣]{2})(?<![급만양음악여남독활각관특정지감이조난속])성"
    "(?:인?$|(?=[가-힣]{2})(?!매개|행위|장|병|염색|호르몬|기|숙|격|대[^장동]|인|교|적|별|충|욕))"
)
_BOUND = re.compile("(?<=[가-힣])[이가] (?=없는|있는|없이)")
_HANGUL = re.compile("[가-힣]")
_LATIN = re.compile("[a-z]")
_CANCER = re.compile(r"(?<=[가-힣])암$")


@dataclass(frozen=True)
class NormalForms:
    """A text in its three forms; `unspecific` says whether core lost such a word."""

    plain: str
    core: str
    bag: str
    unspecific: bool

    @property
    def key(self) -> str:
        """The plain form without spaces."""
        return self.plain.replace(" ", "")

    @property
    def core_key(self) -> str:
        """The core without spaces."""
        return self.core.replace(" ", "")


def plain(text: str) -> str:
    """Give a text in lower case, American spelling and single spaces, without punctuation.

    >>> plain("Oesophageal  Haemorrhage(急), Crohn's")
    'esophageal hemorrhage crohn'
    >>> plain("Ｂ형　간염 - 급성")
    'b형 간염 급성'
    """
    text = clean(text[: 4 * LONGEST]).casefold().translate(_LETTERS)
    text = _POSSESSIVE.sub("", text)
    text = _NO_WORD.sub(" ", text).strip()[:LONGEST]
    for pattern, american in _BRITISH:
        text = pattern.sub(american, text)
    return text


def key_of(text: str) -> str:
    """Give the plain form without spaces, under which tables are looked up."""
    return plain(text).replace(" ", "")


class Normalizer:
    """Forms of texts by a table of variants."""

    def __init__(self, variants: Variants) -> None:
        """Take the variants; `variants.identity` says which these were."""
        self.variants = variants
        self._cached = lru_cache(maxsize=20_000)(self._form)

    def form(self, text: str) -> NormalForms:
        """Give the forms of a text.

        >>> form = Normalizer(Variants.of([("신장", "콩팥"), ("kidney", "renal")])).form
        >>> form("콩팥의 상세불명 결석").core, form("Renal calculi, unspecified").core
        ('신장결석', 'kidney calculus')
        >>> form("위암").core == form("위의 악성 신생물").core
        True
        """
        return self._cached(text[: 4 * LONGEST])

    def _form(self, text: str) -> NormalForms:
        straight = plain(text)
        bare = _UNSPECIFIC.sub(" ", straight)
        bound = _BOUND.sub(" ", bare)
        words = [word for word in map(_bare_word, bound.split()) if word not in STOP]
        words = words or straight.split()
        # Twice, for what the first pass has put together: 콩팥돌 → 신장돌 → 신장결석.
        core = self.variants.apply(self.variants.apply(_joined(words)))
        bag = " ".join(sorted(core.split() if not _HANGUL.search(core) else core.replace(" ", "")))
        return NormalForms(straight, core, bag, len(bare) != len(straight))


def _bare_word(word: str) -> str:
    """Remove particles and endings of a Korean word, the plural of an English one."""
    if _HANGUL.search(word):
        word = _CANCER.sub("악성신생물", word)
        word = _QUALITY.sub("", word)
        for tail, stem in _TAILS:
            if word.endswith(tail) and len(word) >= len(tail) + stem:
                return word if _WHOLE.search(word) else word[: -len(tail)]
        return word
    return singular(word) if _LATIN.search(word) else word


def singular(word: str) -> str:
    """Give an English noun's singular, by the endings medicine uses.

    >>> [singular(word) for word in ("tumors", "biopsies", "metastases", "calculi", "diabetes")]
    ['tumor', 'biopsy', 'metastasis', 'calculus', 'diabetes']
    """
    if len(word) < 4 or word in _SINGULAR:
        return word
    for ending, single in _PLURALS:
        if word.endswith(ending):
            return word[: -len(ending)] + single
    return word


_SINGULAR = frozenset(
    "diabetes rabies scabies herpes caries series species lens aids".split()  # noqa: SIM905
)
_PLURALS = (
    ("ses", "sis"), ("ies", "y"), ("omata", "oma"), ("culi", "culus"), ("xes", "x"),
    ("ches", "ch"), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", ""),
)  # fmt: skip


def _joined(words: Iterable[str]) -> str:
    """Join words with spaces, but Korean ones without, whose spacing is free."""
    out = ""
    for word in words:
        both = out and _HANGUL.match(out[-1]) and _HANGUL.match(word)
        out += word if both or not out else f" {word}"
    return out


def read_pairs(lines: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Read lines of a mention, a tab and meanings separated by |; lines with # are comments.

    >>> read_pairs(["# lay names", "중풍\\t뇌졸중", "배탈\\t설사|위장염"])
    {'중풍': ('뇌졸중',), '배탈': ('설사', '위장염')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        mention, _, meanings = line.partition("\t")
        if meanings and not line.startswith("#"):
            key = key_of(mention)
            found[key] = (*found.get(key, ()), *(part.strip() for part in meanings.split("|")))
    return found
