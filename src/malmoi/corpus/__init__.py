"""Documents that last: one SQLite file, found by meaning and by words, reranked when asked."""

from .corpus import Corpus
from .filters import Filter
from .ingest import IngestReport, index_files, sync_files, watch_files
from .ranking import DocumentHits, Hit, group_hits
from .store import (
    Document,
    DocumentInfo,
    PassageKey,
    PassageWithDocument,
    Progress,
    ScoredPassage,
    Store,
    StoredDocument,
    StoreInfo,
    SyncedFile,
)

__all__ = [
    "Corpus",
    "Document",
    "DocumentHits",
    "DocumentInfo",
    "Filter",
    "Hit",
    "IngestReport",
    "PassageKey",
    "PassageWithDocument",
    "Progress",
    "ScoredPassage",
    "Store",
    "StoreInfo",
    "StoredDocument",
    "SyncedFile",
    "group_hits",
    "index_files",
    "sync_files",
    "watch_files",
]
