"""A corpus's name → the store that keeps it: a file, or an address in Milvus."""

from pathlib import Path

from .milvus import MilvusStore, is_milvus
from .schema import Create
from .sqlite import SqliteStore
from .store import Store


def open_store(path: str | Path, *, create: Create | None = None, engine: str = "auto") -> Store:
    """Open a store; one that is not there is made when `create` says what for."""
    if is_milvus(path):
        return MilvusStore(str(path), create=create)
    return SqliteStore(path, create=create, engine=engine)
