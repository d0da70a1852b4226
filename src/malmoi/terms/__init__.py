"""Code tables → a lexicon of names and concepts → a mention's ranked concepts, with the evidence.

    from malmoi.terms import Linker
    Linker("kcd.lexicon", malmoi.load()).link("DM nephropathy", k=5)

One code for each mention: post-coordination (several codes that together say what one does not) is
not attempted.
"""

from .abbreviations import AbbreviationExpansion, Abbreviations
from .build import add_names, build_lexicon, memory_lexicon
from .builder import BuildReport
from .lexicon import Lexicon
from .linker import Candidate, Linked, Linker, Threshold, calibrate
from .names import KINDS, LANGUAGES, Concept, Exclusion, Name, fold, language_of
from .rank import Weights
from .segment import Segment

__all__ = [
    "KINDS",
    "LANGUAGES",
    "AbbreviationExpansion",
    "Abbreviations",
    "BuildReport",
    "Candidate",
    "Concept",
    "Exclusion",
    "Lexicon",
    "Linked",
    "Linker",
    "Name",
    "Segment",
    "Threshold",
    "Weights",
    "add_names",
    "build_lexicon",
    "calibrate",
    "fold",
    "language_of",
    "memory_lexicon",
]
