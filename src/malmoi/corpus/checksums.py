"""Checksums of what rows are found by: words, fields and analyses of words, and SQLite's indexes.

A document that is read is compared with its own checksum (`row_codec`). What is not found cannot
be: that a passage does not have a word, or that there is no such id, is only known if the table
that says so is intact. Words, fields and analyses are made from the rows, so a whole table has one
checksum: it is written when a writer closes the file, discarded by the next write, and compared
once before the first answer. A table that differs is rebuilt (`SqliteStore.check_lookups`).

If rows themselves are damaged, a repair reads documents, passages and vectors row by row, compares
each with its checksum, and writes them into a new file. The damaged file is kept next to it.
"""

import contextlib
import marshal
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..documents import Passage
from ..errors import CorpusError
from .schema import (
    DOCUMENT,
    PASSAGE,
    is_whole,
    one_state,
    read_document,
    read_passage,
    row_checksum,
    whole_text,
)
from .store import PassageVectors, StoredDocument, TitledPassage, Vector

_CREATE = """
CREATE TABLE IF NOT EXISTS checksums (part TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
DROP TABLE IF EXISTS sums;
DROP TABLE IF EXISTS word_blocks
"""
# All that an answer of each part depends on, in one order.
_QUERIES = {
    # SQLite takes any word for the type of a column, so a changed one is not an error to it.
    "schema": (
        "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
    ),
    "fields": (
        "SELECT field, name FROM fields ORDER BY field",
        "SELECT field, value, row FROM facts",
    ),
    "terms": ("SELECT word, terms FROM terms",),
    "words": (
        "SELECT id, block FROM words_data",
        "SELECT segid, term, pgno FROM words_idx",
        "SELECT id, sz FROM words_docsize",
    ),
}
# Tables whose keys SQLite itself compares with their rows. FTS5 says that a block or a length is
# missing where there should be one.
_TABLES: dict[str, tuple[str, ...]] = {
    "schema": (),
    "documents": ("documents",),
    "passages": ("passages",),
    "fields": ("fields", "facts"),
    "terms": ("terms",),
    "words": ("words_idx",),
}
_NAMES = {
    "schema": "the list of tables is",
    "documents": "the index of documents is",
    "passages": "the index of passages is",
    "fields": "the fields that documents are filtered by are",
    "terms": "the analyses of words are",
    "words": "the keyword index is",
}
PARTS = tuple(_NAMES)
DERIVED = ("fields", "terms", "words")  # can be rebuilt from the rows
Encode = Callable[[Sequence[TitledPassage]], list[PassageVectors]]


def is_intact(connection: sqlite3.Connection, part: str) -> bool:
    """Tell whether a part is as it was written; without a checksum, whether it can be."""
    try:
        with one_state(connection):
            there = _tables(connection)
            for table in filter(there.__contains__, _TABLES[part]):  # earlier versions have fewer
                check = f"PRAGMA main.integrity_check('{table}')"
                if connection.execute(check).fetchone() != ("ok",):
                    return False
            if part not in _QUERIES or "checksums" not in there:
                return True
            query = "SELECT value FROM checksums WHERE part = ?"
            stored = connection.execute(query, (part,)).fetchone()
            return stored is None or stored == (_checksum(connection, part),)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_CORRUPT"):
            return False
        raise


def discard(connection: sqlite3.Connection) -> None:
    """Discard the checksums inside a transaction that changes what they are of."""
    if "checksums" in _tables(connection):
        connection.execute("DELETE FROM checksums")
        return
    for statement in _CREATE.strip().split(";\n"):
        connection.execute(statement)


def record(connection: sqlite3.Connection) -> None:
    """Write the checksums that the last writer discarded, unless another process is writing."""
    if "checksums" not in _tables(connection):
        return
    with contextlib.suppress(sqlite3.OperationalError):
        [[count]] = connection.execute("SELECT count(*) FROM checksums")
        if not count:
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("BEGIN IMMEDIATE")
            values = [(part, _checksum(connection, part)) for part in _QUERIES]
            connection.executemany("INSERT OR IGNORE INTO checksums VALUES (?, ?)", values)
            connection.execute("COMMIT")


def describe(part: str) -> str:
    """What is said of a part that is not intact."""
    return f"{_NAMES[part]} not as written"


def damaged_part(part: str) -> CorpusError:
    """The error for a part that cannot be rebuilt."""
    return CorpusError(
        f"the corpus is damaged: {describe(part)}. Repair it with: malmoi corpus check CORPUS "
        "--repair, or restore a backup"
    )


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master")}


def _checksum(connection: sqlite3.Connection, part: str) -> int:
    """A checksum over all rows of a part, one at a time: a value may be long."""
    value = 0
    for query in _QUERIES[part]:
        for row in connection.execute(query):
            # Version 2 of the format gives the same bytes for the same values, and tells types.
            value = zlib.crc32(marshal.dumps(row, 2), value)
    return value


def find_damage(
    connection: sqlite3.Connection,
    as_array: Callable[[bytes], Vector],
    *,
    writable: bool,
    tokens: bool,
) -> list[str]:
    """Look for damage of the file itself, of what rows are found by, and of every row."""
    found = []
    with one_state(connection):
        broken = [line for (line,) in connection.execute("PRAGMA integrity_check(10)")]
        if broken != ["ok"]:
            found.append(f"the file is damaged: {broken[0]}")
        found += [describe(part) for part in PARTS if not is_intact(connection, part)]
        empty = [PassageVectors(np.empty(0))]
        reader = Reader(connection, lambda passages: empty, as_array, tokens=tokens)
        for _ in reader.documents():
            pass
        words = (
            "SELECT cut, words_checksum FROM passages p LEFT JOIN words ON words.rowid = p.row "
            "WHERE words_checksum IS NOT NULL"
        )
        cut = sum(row_checksum([cut]) != known for cut, known in connection.execute(words))
        for count, message in (
            (len(reader.lost), "{} documents are not as they were written"),
            (reader.encoded, "vectors of {} passages are not as they were written"),
            (cut, "words of {} passages are not as they were written"),
        ):
            found += [message.format(count)] if count else []
    # FTS5 compares its index with the words of every passage, and writes nothing.
    compare = "INSERT INTO words (words) VALUES ('integrity-check')"
    try:
        if writable:
            connection.execute(compare)
    except sqlite3.DatabaseError as error:
        if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_CORRUPT"):
            raise
        found.append("the keyword index does not fit the words")
    return found


@dataclass(frozen=True)
class Repaired:
    """What a repair did.

    Attributes:
        documents: how many are in the new file.
        encoded: how many passages got new vectors.
        lost: the ids of documents that could not be read, as far as they are known.
        kept: where the damaged file is now.
    """

    documents: int
    encoded: int
    lost: tuple[str, ...]
    kept: Path


class Reader:
    """Reads a file document by document, and notes what is not as it was written."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        encode: Encode,
        as_array: Callable[[bytes], Vector],
        *,
        tokens: bool = False,
    ) -> None:
        self._connection, self._encode, self._as_array = connection, encode, as_array
        self._has_tokens = tokens
        self.encoded, self.lost = 0, list[str]()

    def reindex(self) -> None:
        """Build SQLite's indexes again, so that what a damaged one hides is found."""
        self._rows("REINDEX")

    def documents(self) -> Iterator[StoredDocument]:
        """Yield every document that is whole, in the order of writing."""
        for row, id in self._rows("SELECT row, id FROM documents NOT INDEXED ORDER BY row"):
            stored = self._document(row)
            if stored is not None:
                yield stored
            else:
                self.lost.append(str(id))
        # A document whose own row is gone is known by its passages, but has no id.
        gone = "SELECT DISTINCT document FROM passages WHERE document NOT IN "
        self.lost += [
            f"number {row}" for (row,) in self._rows(f"{gone}(SELECT row FROM documents)")
        ]

    def files(self) -> list[tuple[Any, ...]]:
        """The rows of the table `files`; after a loss, all files are to be read again."""
        rows = self._rows("SELECT path, root, id, fingerprint FROM files")
        return [(*row[:3], "") for row in rows] if self.lost else rows

    def sources(self) -> list[tuple[Any, ...]]:
        """How far files of rows have been read in; after a loss, none of them has."""
        rows = self._rows("SELECT source, fingerprint, lines FROM sources")
        return [] if self.lost else rows

    def _rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query, up to where the file cannot be read any more."""
        found = list[Any]()
        with contextlib.suppress(sqlite3.DatabaseError):
            found.extend(self._connection.execute(query, values))
        return found

    def _document(self, row: int) -> StoredDocument | None:
        query = f"SELECT {PASSAGE} FROM passages p WHERE p.document = ? ORDER BY p.number"
        rows = self._rows(query, row)
        query = f"SELECT {DOCUMENT}, d.text, d.text_checksum FROM documents d WHERE d.row = ?"
        try:
            [about] = self._rows(query, row)
            passages = [read_passage(one) for one in rows]
            whole = whole_text(*about[-2:], passages=[one.text for one in passages])
            document = read_document(about, text=whole)
        except (CorpusError, ValueError):
            return None
        if [one[2] for one in rows] != list(range(len(rows))):
            return None
        vectors = self._vectors(document.title, [one[0] for one in rows], passages)
        file, digest = about[7] or "", about[8] or ""
        return StoredDocument(document, tuple(passages), (), file, digest).with_vectors(vectors)

    def _vectors(
        self, title: str, rows: list[int], passages: list[Passage]
    ) -> list[PassageVectors]:
        """The vectors of passages; those that are damaged are made again."""
        vectors = list[PassageVectors]()
        for row, passage in zip(rows, passages, strict=True):
            found = self._rows("SELECT row, vector, checksum FROM vectors WHERE row = ?", row)
            tokens: list[Any] = [(row, b"", None)]
            if self._has_tokens:
                tokens = self._rows("SELECT row, tokens, checksum FROM tokens WHERE row = ?", row)
            if found and tokens and is_whole(*found[0]) and is_whole(*tokens[0]):
                own = tokens[0][1] if self._has_tokens else None
                vectors.append(PassageVectors(self._as_array(found[0][1]), own))
            else:
                vectors += self._encode([(title, passage)])
                self.encoded += 1
        return vectors
