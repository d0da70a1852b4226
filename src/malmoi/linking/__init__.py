"""A mention → ranked concepts, with the evidence.

    from malmoi.linking import Linker
    Linker("kcd.lexicon", malmoi.load()).link("DM nephropathy", k=5)

One code a mention: post-coordination, several codes that together say what one does not, is not
attempted.
"""

from importlib import import_module
from typing import Any

from .features import Weights
from .linker import Candidate, Linked, Linker
from .nil import Threshold, calibrate

__all__ = [
    "Candidate",
    "Linked",
    "Linker",
    "Threshold",
    "Weights",
    "calibrate",
]


def __getattr__(name: str) -> Any:
    """Give the names that moved to `malmoi.clinical`, for code that was written for 0.1."""
    if name in ("NoteMention", "NoteReader", "NoteScan", "to_html"):
        return getattr(import_module("malmoi.clinical"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
