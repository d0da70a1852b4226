"""Files and folders → documents → passages: a loader for each format, and splitting."""

from ..errors import DocumentError
from .content import supported_types
from .document import (
    Block,
    FoundFile,
    Passage,
    RowColumns,
    SkippedPath,
    SourceDocument,
    Splitter,
)
from .files import find_files, read_documents
from .split import CountTokens, estimate_tokens, split_document

__all__ = [
    "Block",
    "CountTokens",
    "DocumentError",
    "FoundFile",
    "Passage",
    "RowColumns",
    "SkippedPath",
    "SourceDocument",
    "Splitter",
    "estimate_tokens",
    "find_files",
    "read_documents",
    "split_document",
    "supported_types",
]
