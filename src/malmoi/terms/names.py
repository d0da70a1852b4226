"""What a lexicon is made of: names, and the concepts they belong to."""

import re
from dataclasses import dataclass

from ..text.cleanup import clean

LANGUAGES = ("ko", "en", "mixed", "other")
# In this order the names of a concept are stored; the first name of a language is shown.
KINDS = ("preferred", "synonym", "narrower", "lay", "abbreviation")
# Rows of this kind say what a concept is not; they are stored apart from its names.
EXCLUDED = "excluded"


@dataclass(frozen=True)
class Name:
    """One way to write a concept; `original` is the table's own text where cleaning changed it."""

    text: str
    concept: str
    language: str
    source: str
    kind: str
    original: str


@dataclass(frozen=True)
class Concept:
    """A code with the names that stand for it; `ko` and `en` are those to be shown."""

    code: str
    ko: str | None
    en: str | None
    names: tuple[Name, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The code's parts, where a dictionary gives one concept several ids ("D009290|605841").

        >>> Concept("D009290|605841", None, None, ()).ids
        ('D009290', '605841')
        """
        return tuple(part for part in self.code.split("|") if part)


@dataclass(frozen=True)
class Exclusion:
    """A name that does not belong to `concept`, and the code it belongs to, where the table says.

    Names a table excludes from a code are near it in wording: hard negatives for training.
    """

    text: str
    concept: str
    belongs_to: str
    language: str


_HANGUL = re.compile("[가-힣ㄱ-ㅎㅏ-ㅣ]")
_LATIN = re.compile("[A-Za-zÀ-ÖØ-öø-ÿ]")
_LATIN_WORD = re.compile("[A-Za-z]{2,}")
# Printable ASCII and syllables with single spaces: nothing here that cleaning would change.
_TIDY = re.compile("[!-~가-힣]+(?: [!-~가-힣]+)*")
# Marks of classification, not English words.
_NO_WORDS = re.compile(r"\b(?:NOS|NEC|II|III|IV|VI|VII|VIII|IX)\b")


def tidy(text: str) -> str:
    """Normalise width, white space and composition of a text; most texts are so already."""
    return text if _TIDY.fullmatch(text) else clean(text)


def fold(text: str) -> str:
    """Make names that differ only in case, width or white space equal.

    >>> fold("Ｔype 2  Diabetes")
    'type 2 diabetes'
    """
    return tidy(text).casefold()


def language_of(text: str, declared: str | None = None) -> str:
    """Tell a name's language by its letters; what its table declares wins where they allow it.

    >>> language_of("당뇨병"), language_of("DM 신증"), language_of("B형 간염"), language_of("DM")
    ('ko', 'mixed', 'ko', 'en')
    >>> language_of("투명세포 종양 NOS", "ko"), language_of("Cushing syndrome", "ko")
    ('ko', 'en')
    """
    hangul, latin = bool(_HANGUL.search(text)), bool(_LATIN.search(text))
    if hangul:
        if declared == "ko" or not _LATIN_WORD.search(_NO_WORDS.sub(" ", text)):
            return "ko"
        return "mixed"
    return "en" if latin else "other"
