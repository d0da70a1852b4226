"""Code tables made into a lexicon: names, concepts, languages, opened in a moment."""

from .abbreviations import Abbreviations, Expansion
from .build import add_names, build_lexicon, memory_lexicon
from .report import Report
from .segment import Segment
from .store import Lexicon
from .terms import KINDS, LANGUAGES, Concept, Exclusion, Name, fold, language_of

__all__ = [
    "KINDS",
    "LANGUAGES",
    "Abbreviations",
    "Concept",
    "Exclusion",
    "Expansion",
    "Lexicon",
    "Name",
    "Report",
    "Segment",
    "add_names",
    "build_lexicon",
    "fold",
    "language_of",
    "memory_lexicon",
]
