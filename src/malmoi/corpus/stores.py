"""A corpus's name → the store that keeps it: a file, or an address in Milvus.

A corpus carried over into another store, vectors and all: nothing is encoded again.
"""

import contextlib
import itertools
from pathlib import Path

from ..errors import CorpusError, counted
from ..io.progress import progressing
from .milvus import MilvusStore, is_milvus
from .schema import Create
from .sqlite import SqliteStore
from .store import Store


def open_store(path: str | Path, *, create: Create | None = None, engine: str = "auto") -> Store:
    """Open a store; one that is not there is made when `create` says what for."""
    if is_milvus(path):
        return MilvusStore(str(path), create=create)
    return SqliteStore(path, create=create, engine=engine)


_AT_ONCE = 1000


def copy_corpus(source: str | Path, target: str | Path, *, progress: bool = False) -> int:
    """Copy every document of a corpus into a new one; gives how many.

    Either may be a file or an address in Milvus. A target that has documents already is refused;
    one that a copy was cut off from is gone on with, since ids that are there are written again.
    """
    with contextlib.closing(open_store(source)) as old:
        about = old.about
        with contextlib.closing(open_store(target, create=lambda: about)) as new:
            if new.about != about:
                raise CorpusError(
                    f"{target} was made for {new.about.model}, {new.about.dimension} dimensions, "
                    f"{new.about.precision}; the documents are of {about.model}, "
                    f"{about.dimension}, {about.precision}. Name a new one."
                )
            if len(new) > len(old):
                raise CorpusError(
                    f"{target} has {counted(len(new), 'document')}, more than {source}; expected a "
                    "new corpus or one that this copy began. Name another one."
                )
            count = 0
            with progressing("copying", total=len(old), shown=progress) as advance:
                documents = old.everything()
                while batch := list(itertools.islice(documents, _AT_ONCE)):
                    new.write(batch)
                    count += len(batch)
                    advance(len(batch))
            new.settle()
            return count
