"""Code tables made into a lexicon: names, concepts, languages, opened in a moment."""

from .abbreviations import AbbreviationExpansion, Abbreviations
from .build import add_names, build_lexicon, memory_lexicon
from .lexicon import Lexicon
from .report import BuildReport
from .segment import Segment
from .terms import KINDS, LANGUAGES, Concept, Exclusion, Name, fold, language_of

__all__ = [
    "KINDS",
    "LANGUAGES",
    "AbbreviationExpansion",
    "Abbreviations",
    "BuildReport",
    "Concept",
    "Exclusion",
    "Lexicon",
    "Name",
    "Segment",
    "add_names",
    "build_lexicon",
    "fold",
    "language_of",
    "memory_lexicon",
]

# The names of 0.1.
Expansion, Report = AbbreviationExpansion, BuildReport
