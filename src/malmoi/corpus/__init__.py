"""Documents that last: one SQLite file, found by meaning and by words, reranked when asked."""

from .answers import FoundAnswer
from .corpus import Corpus
from .filters import Filter
from .ingest import IngestReport, index_files, sync_files, watch_files
from .ranking import DocumentHits, Hit, Match, group_hits
from .relevance import RELEVANT
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
    "RELEVANT",
    "Corpus",
    "Document",
    "DocumentHits",
    "DocumentInfo",
    "Filter",
    "FoundAnswer",
    "Hit",
    "IngestReport",
    "Match",
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
