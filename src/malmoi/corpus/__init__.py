"""Documents that last: one SQLite file, found by meaning and by words, reranked when asked."""

from .corpus import Corpus, Hit
from .filters import Filter
from .importing import Columns, Taken, index_files
from .store import About, Document, Progress, Scored, Store, Stored

__all__ = [
    "About",
    "Columns",
    "Corpus",
    "Document",
    "Filter",
    "Hit",
    "Progress",
    "Scored",
    "Store",
    "Stored",
    "Taken",
    "index_files",
]
