"""Documents that last: one SQLite file, found by meaning and by words, reranked when asked."""

from .corpus import Corpus
from .filters import Filter
from .hits import DocumentHits, Hit, group_hits
from .ingest import Columns, IngestReport, index_files
from .store import (
    Document,
    DocumentInfo,
    EncodedPassage,
    FoundPassage,
    PassageKey,
    Progress,
    ScoredId,
    Store,
    Stored,
    StoreInfo,
    SyncedFile,
)
from .sync import SyncReport, sync_files, watch_files

__all__ = [
    "Columns",
    "Corpus",
    "Document",
    "DocumentHits",
    "DocumentInfo",
    "EncodedPassage",
    "Filter",
    "FoundPassage",
    "Hit",
    "IngestReport",
    "PassageKey",
    "Progress",
    "ScoredId",
    "Store",
    "StoreInfo",
    "Stored",
    "SyncReport",
    "SyncedFile",
    "group_hits",
    "index_files",
    "sync_files",
    "watch_files",
]

# The names of 0.1.
About, Scored, Taken = StoreInfo, ScoredId, IngestReport
