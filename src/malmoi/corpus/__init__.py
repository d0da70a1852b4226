"""Documents that last: one SQLite file, found by meaning and by words, reranked when asked."""

from .corpus import Corpus, Hit
from .filters import Filter
from .ingest import Columns, IngestReport, index_files
from .store import Document, Progress, ScoredId, Store, Stored, StoreInfo

__all__ = [
    "Columns",
    "Corpus",
    "Document",
    "Filter",
    "Hit",
    "IngestReport",
    "Progress",
    "ScoredId",
    "Store",
    "StoreInfo",
    "Stored",
    "index_files",
]

# The names of 0.1.
About, Scored, Taken = StoreInfo, ScoredId, IngestReport
