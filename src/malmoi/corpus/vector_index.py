"""A vector index that is kept in sync with a corpus file.

SQLite holds the truth. The index is a memory-mapped file next to it and may be deleted at any
time: it is built again. Rows added since it was written are read from SQLite and kept in memory
until there are enough of them to write the file again.
"""

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import BundleCorrupt, MissingExtra, OptionError, OutputError
from ..index import FlatIndex, HnswIndex, make_index, open_index, save_index
from ..index.base import FEW_ROWS, Rows, VectorTable
from ..index.storage import read_about
from .schema import checked_vectors, damaged_row, one_state
from .store import StoreInfo

ENGINES = ("auto", "flat", "hnsw")
# From here on a flat search takes too long, see docs/decisions/flat-index.md.
GRAPH_FROM = 2_000_000
_FRESH = 50_000  # rows that are kept in memory before the file is written again
_REMOVED = 0.25  # the share of removed rows at which it is written again
_BLOCK = 4096
# A passage has up to 64 vectors; in the index the last bits of a row number tell them apart.
ROW_BITS = 6


@dataclass(frozen=True)
class Cursor:
    """How much of the corpus an index contains: up to which row and which removal.

    `commit` is what is in the table of removals at that number: a random mark of the commit.
    """

    row: int = 0
    removal: int = 0
    commit: int = 0


class SyncedIndex:
    """An index of the vectors in a corpus file."""

    def __init__(self, path: Path, about: StoreInfo, mark: str, *, engine: str = "auto") -> None:
        if engine not in ENGINES:
            raise OptionError(
                f"engine is {engine!r}; known are {', '.join(ENGINES)}. Choose one of these."
            )
        self.path = path.with_name(path.name + ".index")
        self._about, self._mark, self._engine = about, mark, engine
        self._lock = threading.RLock()
        self.index = self._empty()
        self.seen = Cursor()
        self._open()

    def follow(self, connection: sqlite3.Connection) -> FlatIndex:
        """Apply what has changed in the file since the last call, and return the index."""
        with self._lock:
            self._sync(connection)
            table = self.index.table
            removed = len(table) - table.alive
            many = table.fresh > max(_FRESH, len(table) // 10)
            if many or removed > max(_FRESH, _REMOVED * len(table)):
                self._save()
            if self._engine == "hnsw" and self._wants_graph():
                self._make_graph()
            return self.index

    def flush(self, connection: sqlite3.Connection) -> None:
        """Write the index as it is now, with its graph where one is due."""
        with self._lock:
            self._sync(connection)
            if self._wants_graph():
                self._make_graph()
            if self.index.table.fresh or len(self.index.table) > len(self.index):
                self._save()

    def discard(self) -> None:
        """Delete the index file; it is built again from the corpus."""
        with self._lock:
            self.path.unlink(missing_ok=True)
            self.index, self.seen = self._empty(), Cursor()

    def _empty(self) -> FlatIndex:
        return FlatIndex(VectorTable(self._about.dimension, precision=self._about.precision))

    def _open(self) -> None:
        """Open the index file if it belongs to this corpus; otherwise start empty."""
        if not self.path.exists():
            return
        try:
            about = read_about(self.path)
            stamp = json.loads(about.stamp or "{}")
            if stamp.get("mark") == self._mark and stamp.get("bits") == ROW_BITS:
                self.index = self._opened()
                if read_about(self.path) != about:  # another process has just replaced it
                    raise BundleCorrupt(f"{self.path} was replaced while it was opened.")
                self.seen = Cursor(stamp["row"], stamp["removal"], stamp["commit"])
        except (BundleCorrupt, MissingExtra, ValueError, KeyError, OSError):
            self.index = self._empty()  # it is built again from the corpus
            self.seen = Cursor()

    def _opened(self) -> FlatIndex:
        index = open_index(self.path)
        if not isinstance(index, FlatIndex) or index.dimension != self._about.dimension:
            raise BundleCorrupt(f"{self.path} is not the index of this corpus. Delete it.")
        return index

    def _sync(self, connection: sqlite3.Connection) -> None:
        """Add new rows and remove deleted ones, all seen in one state of the file."""
        with one_state(connection):
            if not self._belongs(connection):
                self.index, self.seen = self._empty(), Cursor()
            self._add(connection)
            self._remove(connection)

    def _belongs(self, connection: sqlite3.Connection) -> bool:
        """Tell whether what is indexed was once the state of this file.

        A backup that was restored, or a file that was copied without its log, lacks the last commit
        that the index has seen, or has another in its place.
        """
        if not self.seen.removal:
            [[last]] = connection.execute("SELECT coalesce(max(row), 0) FROM vectors")
            return bool(self.seen.row <= last)
        query = "SELECT row FROM removed WHERE number = ?"
        return connection.execute(query, (self.seen.removal,)).fetchall() == [(self.seen.commit,)]

    def _add(self, connection: sqlite3.Connection) -> None:
        first, passages = self.seen.row, 0
        for rows, raw in _new_vectors(connection, self.seen.row, self._size):
            table = self.index.table
            passages += len(np.unique(rows >> ROW_BITS))
            stored = np.frombuffer(raw, dtype=table.base.vectors.dtype).reshape(len(rows), -1)
            self.index.add(table.as_floats(stored) * table.factor, rows)
            self.seen = replace(self.seen, row=int(rows[-1]) >> ROW_BITS)
            # While a million rows are read in, memory must not grow with them.
            if table.fresh > max(4 * _FRESH, len(table) // 4):
                self._save()
        [[count]] = (
            connection.execute("SELECT count(*) FROM passages") if not first else [[passages]]
        )
        if passages != count:  # what is missing here would never be found
            self.index, self.seen = self._empty(), Cursor()
            raise damaged_row()

    @property
    def _size(self) -> int:
        """The bytes of one vector."""
        width = self.index.table.base.vectors[:0]
        return int(width.shape[1] * width.dtype.itemsize)

    def _remove(self, connection: sqlite3.Connection) -> None:
        gone = connection.execute(
            "SELECT number, row, vectors FROM removed WHERE number > ?", (self.seen.removal,)
        ).fetchall()
        if gone:
            try:
                numbers = np.array(gone, dtype=np.int64)
            except (TypeError, ValueError, OverflowError):  # damage made something else of a number
                raise damaged_row() from None
            numbers = numbers[numbers[:, 2] > 0]  # those without vectors mark a commit
            self.index.remove(index_rows(numbers[:, 1], numbers[:, 2]))
            self.seen = Cursor(self.seen.row, int(gone[-1][0]), int(gone[-1][1]))

    def _save(self) -> None:
        """Write the file and open it again; if it cannot be written, keep the index in memory."""
        stamp = {"mark": self._mark, "bits": ROW_BITS, "row": self.seen.row}
        stamp |= {"removal": self.seen.removal, "commit": self.seen.commit}
        if len(self.index) > FEW_ROWS:
            self.index.planes()  # so that the codes are in the file
        with contextlib.suppress(OutputError):
            save_index(self.index, self.path, stamp=json.dumps(stamp))
            if not isinstance(self.index, HnswIndex):  # its graph is in memory already
                self.index = self._opened()

    def _wants_graph(self) -> bool:
        if isinstance(self.index, HnswIndex) or self._engine == "flat":
            return False
        return self._engine == "hnsw" or (len(self.index) >= GRAPH_FROM and _has_usearch())

    def _make_graph(self) -> None:
        """Build a graph over the index, which may take a while."""
        self.index = HnswIndex.over(self.index)
        self._save()


def _has_usearch() -> bool:
    try:
        make_index(2, engine="hnsw")
    except MissingExtra:
        return False
    return True


def index_rows(passages: Rows, counts: Rows) -> Rows:
    """The index's rows of passages that have `counts` vectors each.

    >>> index_rows(np.array([1, 2]), np.array([2, 1])).tolist()
    [64, 65, 128]
    """
    first = np.repeat(np.cumsum(counts) - counts, counts)
    rows: Rows = (np.repeat(passages, counts) << ROW_BITS) + np.arange(len(first)) - first
    return rows


def _new_vectors(
    connection: sqlite3.Connection, after: int, size: int
) -> Iterator[tuple[Rows, bytes]]:
    """The vectors of passages after a row, with their rows in the index; `size` bytes each."""
    found = connection.execute(
        "SELECT row, vector, checksum FROM vectors WHERE row > ? ORDER BY row", (after,)
    )
    while block := found.fetchmany(_BLOCK):
        whole = [checked_vectors(*row) for row in block]
        passages = np.array([row for row, *_ in block], dtype=np.int64)
        counts = np.array([len(raw) // size for raw in whole], dtype=np.int64)
        yield index_rows(passages, counts), b"".join(whole)
