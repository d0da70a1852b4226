"""Checksums of what rows are found by: words, fields and analyses of words, and SQLite's indexes.

A document that is read is compared with its own checksum. What is not found cannot be: that a
passage does not have a word, or that there is no such id, is only known if the index that says so
is whole. Each index is therefore checked once before its first answer, and before it is written to.
A sum over the checksums of all rows follows every write without reading the other rows.

FTS5 writes its index in segments, each a range of rows of the table `words_data` that do not change
once they are written, except where a merge has reached. Which segments there are is in the record
10 of that table, in the format that fts5_index.c documents.
"""

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import CorpusError
from .rows import row_checksum
from .schema import one_state

SUMS = """
CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS word_blocks (id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL)
"""
_MODULO = 1 << 62
_BLOCK = 10_000
_AVERAGES, _STRUCTURE = 1, 10  # records of `words_data`
_SEGMENT, _LEAVES = 37, 1 << 36  # a segment's number is above these bits, its leaves below
_UNKNOWN = "unknown"  # instead of a structure, where it could not be followed
_SMALL = 8  # leaves of a segment that is read again whenever there was a write

# What each part consists of: SQLite's own check, by table, and the rows that a sum is kept of.
_TABLES = {
    "documents": ("documents",),
    "passages": ("passages",),
    "fields": ("sums", "fields", "facts"),
    "terms": ("sums", "terms"),
    # FTS5 itself says that a block or a length is missing where there should be one.
    "words": ("sums", "words_idx"),
}
_ROWS = {
    "fields": "SELECT field, name FROM fields",
    "facts": "SELECT row, field, value FROM facts WHERE typeof(value) != 'text'",
    "terms": "SELECT word, terms FROM terms",
    "docsize": "SELECT id, sz FROM words_docsize",
}
# Fields may be long, and bytes are read and summed up in half the time of a text.
_TEXTS = "SELECT row, field, CAST(value AS BLOB) FROM facts WHERE typeof(value) = 'text'"
_PARTS = {"fields": ("fields", "facts"), "terms": ("terms",), "words": ("docsize",)}


class Sums:
    """The sums of a corpus file, as one connection follows and checks them."""

    def __init__(self) -> None:
        self._sound: set[str] = set()
        self._changes, self._counts = Counter[str](), Counter[str]()
        self._rows = 0  # of the word index, before this transaction

    def check(self, connection: sqlite3.Connection, part: str) -> None:
        """Raise unless a part is as it was written; what was sound once is not checked again."""
        if part not in self._sound:
            if not is_sound(connection, part):
                raise _damaged(part)
            self._sound.add(part)

    def forget(self) -> None:
        """Drop the changes of a transaction that was rolled back."""
        self._changes.clear()
        self._counts.clear()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Check what a transaction will change, or start sums where there are none yet."""
        self.forget()
        if not _has_sums(connection):
            for statement in SUMS.strip().split(";\n"):
                connection.execute(statement)
            self._start(connection)
        for part in _PARTS:
            self.check(connection, part)
        self._rows = _row_count(connection)

    def add(self, name: str, rows: Iterable[Sequence[Any]], *, sign: int = 1) -> None:
        """Note rows that were inserted, or with the sign -1 deleted."""
        found = list(rows)
        self._changes[name] += sign * _sum(name, found)
        self._counts[name] += sign * len(found)

    def renew(self, connection: sqlite3.Connection, name: str) -> None:
        """Sum up a table again, of which it is not known what was changed."""
        self._changes[name] = _sum_of(connection, name) - _stored(connection)[name]

    def commit(self, connection: sqlite3.Connection) -> None:
        """Write the sums at the end of a transaction."""
        for name, change in self._changes.items():
            connection.execute(
                "UPDATE sums SET value = (value + ?) % ? WHERE name = ?",
                (change % _MODULO, _MODULO, name),
            )
        if self._counts["docsize"] or self._changes["docsize"]:
            _flush_words(connection)
            if _row_count(connection) != self._rows + self._counts["docsize"]:
                # An FTS5 that writes only when it commits: then nothing is known about the words.
                query = "UPDATE sums SET value = ? WHERE name = 'structure'"
                connection.execute(query, (_UNKNOWN,))
            else:
                _follow_words(connection)
        self.forget()

    def _start(self, connection: sqlite3.Connection) -> None:
        values = [(name, _sum_of(connection, name)) for name in _ROWS]
        connection.executemany("INSERT INTO sums VALUES (?, ?)", values)
        connection.execute("INSERT INTO sums VALUES ('structure', x'')")
        _flush_words(connection)
        _follow_words(connection)


def is_sound(connection: sqlite3.Connection, part: str) -> bool:
    """Tell whether a part is as it was written; without sums, whether it can be."""
    with one_state(connection):
        there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master")}
        for table in filter(there.__contains__, _TABLES[part]):  # earlier versions have fewer
            if connection.execute(f"PRAGMA main.integrity_check('{table}')").fetchone() != ("ok",):
                return False
        if part not in _PARTS or "sums" not in there:
            return True
        try:
            stored = _stored(connection)
            if any(stored.get(name) != _sum_of(connection, name) for name in _PARTS[part]):
                return False
            return part != "words" or _words_are_whole(connection, stored)
        except (TypeError, ValueError, KeyError, StopIteration):  # as of a number for bytes
            return False


def _words_are_whole(connection: sqlite3.Connection, stored: dict[str, Any]) -> bool:
    if stored["structure"] == _UNKNOWN:
        return True
    [[words]] = connection.execute("SELECT count(*) FROM words_docsize")
    [[passages]] = connection.execute("SELECT count(*) FROM passages")
    known = dict(connection.execute("SELECT id, checksum FROM word_blocks"))
    found = 0
    for id, block in connection.execute("SELECT id, block FROM words_data"):
        if known.get(id) != zlib.crc32(block, id & 0xFFFFFFFF):
            return False
        found += 1
    segments = {id: sum for id, sum in known.items() if id < 0}
    if segments != {-id: _index_sum(connection, id) for id in _segments(stored["structure"])}:
        return False
    return words == passages and found + len(segments) == len(known)


def _has_sums(connection: sqlite3.Connection) -> bool:
    query = "SELECT count(*) FROM main.sqlite_master WHERE name = 'sums'"
    return bool(connection.execute(query).fetchone()[0])


def _stored(connection: sqlite3.Connection) -> dict[str, Any]:
    return dict(connection.execute("SELECT name, value FROM sums"))


def _sum_of(connection: sqlite3.Connection, name: str) -> int:
    total, rows = 0, connection.execute(_ROWS[name])
    if name == "docsize":
        while block := rows.fetchmany(_BLOCK):
            total += _sum(name, block)
    else:
        total = sum(map(row_checksum, rows))  # one after the other: a value may be long
    if name == "facts":
        for row, field, text in connection.execute(_TEXTS):
            total += zlib.crc32(text, zlib.crc32(f"{row}\0{field}\0".encode()))
    return total % _MODULO


def _sum(name: str, rows: Sequence[Sequence[Any]]) -> int:
    if name != "docsize":
        return sum(map(row_checksum, rows))
    if not rows:
        return 0
    ids, sizes = zip(*rows, strict=True)  # a million of them: without a loop in Python
    return sum(map(zlib.crc32, sizes, ids))


class _Segment(NamedTuple):
    """A segment of FTS5's index: its level, and the numbers of its first and last leaf."""

    level: int
    first: int
    last: int


def _segments(record: bytes) -> dict[int, _Segment]:
    """The segments by their numbers, from FTS5's structure record."""
    if not record:
        return {}
    numbers = iter(_varints(record[4:]))  # after a cookie
    levels, count, _ = next(numbers), next(numbers), next(numbers)
    found = {}
    for level in range(levels):
        next(numbers)
        for _ in range(next(numbers)):
            segment = next(numbers)
            found[segment] = _Segment(level, next(numbers), next(numbers))
    if len(found) != count:
        raise _damaged("words")
    return found


def _varints(data: bytes) -> list[int]:
    found, value, size = list[int](), 0, 0
    for byte in data:
        size += 1
        value = (value << 8 | byte) if size == 9 else (value << 7 | byte & 0x7F)
        if byte < 0x80 or size == 9:
            found.append(value)
            value = size = 0
    return found


def _block(connection: sqlite3.Connection, id: int) -> bytes:
    found = connection.execute("SELECT block FROM words_data WHERE id = ?", (id,)).fetchone()
    return bytes(found[0]) if found else b""


def _row_count(connection: sqlite3.Connection) -> int:
    """How many rows FTS5 says its index has."""
    record = _block(connection, _AVERAGES)
    return _varints(record)[0] if record else 0


def _flush_words(connection: sqlite3.Connection) -> None:
    """Make FTS5 write what it holds in memory, as it does before every savepoint."""
    connection.execute("SAVEPOINT words")
    connection.execute("RELEASE words")


def _follow_words(connection: sqlite3.Connection) -> None:
    """Bring the checksums of the word index up to date, reading only what may have changed."""
    record = _block(connection, _STRUCTURE)
    before = _stored(connection)["structure"]
    if before == _UNKNOWN:
        return
    old, new = _segments(before), _segments(record)
    _sum_blocks(connection, 0, 1 << _SEGMENT)
    for id in old.keys() | new.keys():
        first = id << _SEGMENT
        start = _unchanged_up_to(connection, first, old.get(id), new.get(id))
        if start is None:
            continue
        if start:  # a merge has taken leaves away in front, and added others at the end
            front = first + new[id].first
            connection.execute("DELETE FROM word_blocks WHERE id >= ? AND id < ?", (first, front))
            _sum_blocks(connection, front, front + 1)
        _sum_blocks(connection, first + start, first + _LEAVES)
        _sum_blocks(connection, first + _LEAVES, first + (1 << _SEGMENT))
        connection.execute("DELETE FROM word_blocks WHERE id = ?", (-id,))
        if id in new:
            sums = (-id, _index_sum(connection, id))
            connection.execute("INSERT INTO word_blocks VALUES (?, ?)", sums)
    connection.execute("UPDATE sums SET value = ? WHERE name = 'structure'", (record,))


def _unchanged_up_to(
    connection: sqlite3.Connection, first: int, old: _Segment | None, new: _Segment | None
) -> int | None:
    """From which leaf on a segment has to be read again: None for nowhere, 0 for all of it.

    Numbers of segments are used again, with other contents. Those of another level are others; of
    the same level, their last leaves differ, because no two hold the same rows.
    """
    if old is None or new is None or old.level != new.level:
        return 0
    if new.last - new.first <= _SMALL or new.first < old.first or new.last < old.last:
        return 0
    same = (new.first, new.last) if old == new else (old.last - 1,)
    for leaf in same:
        query = "SELECT checksum FROM word_blocks WHERE id = ?"
        known = connection.execute(query, (first + leaf,)).fetchone()
        block = _block(connection, first + leaf)
        if known != (zlib.crc32(block, (first + leaf) & 0xFFFFFFFF),):
            return 0
    return None if old == new else old.last


def _sum_blocks(connection: sqlite3.Connection, start: int, end: int) -> None:
    connection.execute("DELETE FROM word_blocks WHERE id >= ? AND id < ?", (start, end))
    query = "SELECT id, block FROM words_data WHERE id >= ? AND id < ?"
    connection.executemany(
        "INSERT INTO word_blocks VALUES (?, ?)",
        [
            (id, zlib.crc32(block, id & 0xFFFFFFFF))
            for id, block in connection.execute(query, (start, end))
        ],
    )


def _index_sum(connection: sqlite3.Connection, segment: int) -> int:
    """A checksum of which leaf of a segment a term is on."""
    total, query = 0, "SELECT term, pgno FROM words_idx WHERE segid = ?"
    for term, page in connection.execute(query, (segment,)):
        total += row_checksum((term, page))
    return total % _MODULO


_NAMES = {
    "documents": "the index of documents",
    "passages": "the index of passages",
    "fields": "the fields that documents are filtered by",
    "terms": "the analyses of words",
    "words": "the index of words",
}
PARTS = tuple(_NAMES)


def describe(part: str) -> str:
    """What is said of a part that is not sound."""
    return f"{_NAMES[part]} {'are' if part in ('fields', 'terms') else 'is'} not as written"


def _damaged(part: str) -> CorpusError:
    return CorpusError(
        f"the corpus is damaged: {describe(part)}. Repair it with: malmoi corpus check CORPUS "
        "--repair, or restore a backup"
    )
