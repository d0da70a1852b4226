"""Checksums of what rows are found by: words, fields and analyses of words, and SQLite's indexes.

A document that is read is compared with its own checksum (`row_codec`). What is not found cannot
be: that a passage does not have a word, or that there is no such id, is only known if the table
that says so is intact. Words, fields and analyses are made from the rows, so a whole table has one
checksum: it is written when a writer closes the file, discarded by the next write, and compared
once before the first answer. A table that differs is rebuilt (`SqliteStore.check_lookups`).
"""

import contextlib
import marshal
import sqlite3
import zlib

from ..errors import CorpusError
from .schema import one_state

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
