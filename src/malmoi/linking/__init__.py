"""A mention → ranked concepts, with the evidence; and the mentions of a note.

    from malmoi.linking import Linker
    Linker("kcd.lexicon", malmoi.load()).link("DM nephropathy", k=5)

One code a mention: post-coordination, several codes that together say what one does not, is not
attempted.
"""

from .evidence import Weights
from .highlight import to_html
from .linker import Candidate, Linked, Linker
from .nil import Threshold, calibrate
from .note import NoteMention, NoteReader, NoteScan

__all__ = [
    "Candidate",
    "Linked",
    "Linker",
    "NoteMention",
    "NoteReader",
    "NoteScan",
    "Threshold",
    "Weights",
    "calibrate",
    "to_html",
]
