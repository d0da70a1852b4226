"""Files and folders → documents → passages: a loader for each format, and splitting."""

from ..errors import DocumentError
from .document import (
    Block,
    FoundFile,
    Passage,
    RowColumns,
    SkippedPath,
    SourceDocument,
    Splitter,
)

__all__ = [
    "Block",
    "DocumentError",
    "FoundFile",
    "Passage",
    "RowColumns",
    "SkippedPath",
    "SourceDocument",
    "Splitter",
]
