"""The format of a corpus file: its tables, their rows with checksums, and SQLite's errors.

Rows are written with a checksum and compared with it when they are read.
"""

import contextlib
import errno
import json
import math
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..documents import Passage
from ..errors import CorpusBusy, CorpusError, MalmoiError, OutputError
from ..io.files import parse_json
from .store import Create, Document, StoredDocument, StoreInfo, hangul_share, passage_digest

APPLICATION = 0x4D616C6D  # "Malm", by which `file` and others recognise it
VERSION = 3  # of a file without token vectors
TOKENS_VERSION = 4
_WAIT = 10.0  # seconds to wait for another writer's transaction, which lasts milliseconds

# A passage's row number is never used twice, so that an index made earlier stays valid for its
# rows: to catch up it only needs the greater rows and those in `removed`. `vectors` holds all
# vectors of a passage one after the other. `terms` remembers the analyses of Korean words.
# Checksums are NULL in rows that were written before version 3.
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT,
    metadata TEXT NOT NULL,
    title TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    modified REAL,
    file TEXT,
    digest TEXT NOT NULL,
    checksum INTEGER,
    text_checksum INTEGER
);
CREATE INDEX file_documents ON documents (file) WHERE file IS NOT NULL;
CREATE TABLE passages (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    headings TEXT NOT NULL,
    page INTEGER,
    sentences TEXT NOT NULL,
    hangul INTEGER,
    digest BLOB NOT NULL,
    checksum INTEGER,
    words_checksum INTEGER
);
CREATE UNIQUE INDEX document_passages ON passages (document, number);
CREATE INDEX texts ON passages (digest);
CREATE TABLE vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER);
CREATE TABLE removed (
    number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL,
    vectors INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE fields (field INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE facts (field INTEGER, value, row INTEGER, PRIMARY KEY (field, value, row))
    WITHOUT ROWID;
CREATE TABLE sources (
    source TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, lines INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, root TEXT NOT NULL, id TEXT NOT NULL, fingerprint TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE terms (word TEXT PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (cut, tokenize = 'porter unicode61 remove_diacritics 0');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, row);
"""
# Packed token vectors, in files that were made with them or upgraded.
_TOKENS = "CREATE TABLE tokens (row INTEGER PRIMARY KEY, tokens BLOB NOT NULL, checksum INTEGER)"
# A document of version 1 was one passage with one vector. Tables that are not named stay as they
# are; the rest of this version's tables is made as for a new corpus.
_FROM_1 = """
ALTER TABLE documents RENAME TO old;
DROP INDEX texts;
ALTER TABLE removed ADD COLUMN vectors INTEGER NOT NULL DEFAULT 1;
{tables};
INSERT INTO documents SELECT row, id, NULL, metadata, '', '', '', NULL, NULL, '', NULL, NULL
    FROM old;
INSERT INTO passages SELECT row, row, 0, text, '[]', NULL, '[]', NULL, digest, NULL, NULL FROM old;
DELETE FROM sqlite_sequence WHERE name IN ('documents', 'passages');
INSERT INTO sqlite_sequence SELECT 'documents', seq FROM sqlite_sequence WHERE name = 'old';
INSERT INTO sqlite_sequence SELECT 'passages', seq FROM sqlite_sequence WHERE name = 'old';
DROP TABLE old;
ALTER TABLE vectors ADD COLUMN checksum INTEGER
"""
_FROM_2 = """
ALTER TABLE documents ADD COLUMN checksum INTEGER;
ALTER TABLE documents ADD COLUMN text_checksum INTEGER;
ALTER TABLE passages ADD COLUMN checksum INTEGER;
ALTER TABLE passages ADD COLUMN words_checksum INTEGER;
ALTER TABLE vectors ADD COLUMN checksum INTEGER
"""
# Rows with their checksums, as `read_document` and `read_passage` read them. The number of the
# last passage is part of a document's, so that none can be missing.
_LAST = "(SELECT max(number) FROM passages WHERE document = d.row)"
DOCUMENT = (
    "d.row, d.id, d.title, d.metadata, d.source, d.type, d.modified, d.file, d.digest, "
    f"{_LAST}, d.checksum"
)
PASSAGE = (
    "p.row, p.document, p.number, p.text, p.headings, p.page, p.sentences, p.hangul, p.digest, "
    "p.checksum"
)
ABOUT = 11  # columns of `DOCUMENT`


def connect(path: Path, *, create: Create | None) -> sqlite3.Connection:
    """Open a corpus file; one that does not exist, or is blank, is made when `create` is given."""
    if path.is_dir():
        raise CorpusError(f"{path} is a folder; expected a corpus file. Name a file in it.")
    if not path.exists() and create is None:
        raise CorpusError(f"there is no corpus {path}; expected one. Create it with: malmoi index")
    if not path.parent.is_dir():
        raise CorpusError(
            f"there is no folder {path.parent} for a corpus. Create the folder first."
        )
    with translated_errors(path):
        frozen = is_frozen(path)
        if frozen:
            _refuse_unmerged(path)
        # SQLite writes next to a file even to read it, unless it knows that nobody writes.
        place = f"{path.absolute().as_uri()}?mode=ro&immutable=1" if frozen else str(path)
        connection = sqlite3.connect(
            place, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=frozen
        )
        try:
            if frozen and _version(connection, path) < VERSION:
                connection = _in_memory(connection)
            _prepare(connection, path, create)
        except BaseException:
            connection.close()
            raise
    return connection


def _in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Copy a file that must be upgraded, and may not be written to."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.backup(copy)
    connection.close()
    return copy


def is_frozen(path: Path) -> bool:
    """Tell whether a corpus is in a place that may not be written to."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _refuse_unmerged(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise CorpusError(
            f"{path} may not be written to, and {log.name} holds documents that are not in it yet; "
            "expected a whole file. Open it once where it may be written, with: malmoi corpus, or "
            "copy it while nobody writes."
        )


def _prepare(connection: sqlite3.Connection, path: Path, create: Create | None) -> None:
    # Another process may be creating the file right now; its transaction is whole or absent.
    if create is not None and not _table_count(connection):
        _make(connection, create())
    if _version(connection, path) < VERSION:
        _upgrade(connection, path)
    connection.execute("PRAGMA synchronous = FULL")  # acknowledged means on the disk
    connection.execute("PRAGMA cache_size = -16384")


def _make(connection: sqlite3.Connection, about: StoreInfo) -> None:
    # Five vectors of 384 floats, where 4096 hold but two; or three passages' token vectors, where
    # 8192 hold but one.
    connection.execute(f"PRAGMA page_size = {16384 if about.tokens else 8192}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _table_count(connection):  # no other process was faster
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            values = {"about": about.to_json(), "mark": secrets.token_hex(8)}
            connection.executemany("INSERT INTO about VALUES (?, ?)", values.items())
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            if about.tokens:
                _make_tokens(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _make_tokens(connection: sqlite3.Connection) -> None:
    connection.execute(_TOKENS)
    connection.execute(f"PRAGMA user_version = {TOKENS_VERSION}")


def add_tokens(connection: sqlite3.Connection, about: StoreInfo) -> None:
    """Let a file have token vectors from now on, inside a transaction."""
    [[version]] = connection.execute("PRAGMA user_version")
    if version < TOKENS_VERSION:
        _make_tokens(connection)
        connection.execute("UPDATE about SET value = ? WHERE key = 'about'", (about.to_json(),))


def _table_count(connection: sqlite3.Connection) -> int:
    [[count]] = connection.execute("SELECT count(*) FROM sqlite_master")
    return int(count)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    [[application]] = connection.execute("PRAGMA application_id")
    if application != APPLICATION:
        raise CorpusError(
            f"{path} is a database, but not a corpus. Name another file, or make a new corpus "
            "with: malmoi index"
        )
    [[version]] = connection.execute("PRAGMA user_version")
    if version > TOKENS_VERSION:
        raise CorpusError(
            f"{path} is a corpus of version {version}; this malmoi reads up to {TOKENS_VERSION}. "
            "Install a newer malmoi."
        )
    return int(version)


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file of an earlier version to this one, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)  # another process may have been faster
        if version < VERSION:
            for statement in (_from_1() if version == 1 else _FROM_2).strip().split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _from_1() -> str:
    kept = ("about", "vectors", "removed", "fields", "facts", "sources")
    tables = [
        one
        for one in _TABLES.strip().rstrip(";").split(";\n")
        if not one.startswith(tuple(f"CREATE TABLE {name} " for name in kept))
        and "VIRTUAL TABLE words" not in one
    ]
    return _FROM_1.format(tables=";\n".join(tables))


def read_about(connection: sqlite3.Connection) -> tuple[StoreInfo, str]:
    """What the corpus was made for, and the mark by which its index file recognises it."""
    values = dict(connection.execute("SELECT key, value FROM about"))
    try:
        return StoreInfo.from_json(json.loads(values["about"])), values["mark"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorpusError(
            "what the corpus was made for cannot be read; expected it in the table about. Restore "
            "a backup, or build the corpus again with: malmoi index"
        ) from error


@contextlib.contextmanager
def one_state(connection: sqlite3.Connection) -> Iterator[None]:
    """Let all that the block reads be of one state of the file, whatever others write."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into malmoi's, with the cause kept."""
    try:
        yield
    except MalmoiError:
        raise
    except sqlite3.DatabaseError as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # in what SQLite says of a damaged schema
        raise _damaged(path) from error
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise OutputError(f"cannot write {path}: {reason}. Check disk and permissions.") from error


def _translate(error: sqlite3.DatabaseError, path: Path) -> MalmoiError:
    kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
    if kind.startswith("FULL") or kind in ("IOERR_WRITE", "IOERR_SHMSIZE"):
        return OutputError(
            f"cannot write {path}: the disk is full; the documents of this batch were rolled "
            "back, those before it are safe. Free some space and run it again."
        )
    if kind.startswith(("BUSY", "LOCKED")):
        return CorpusBusy(
            f"another process has been writing to {path} for {_WAIT:.0f} seconds; expected the "
            "corpus to be free. Wait until it has finished, and try again."
        )
    if kind.startswith(("READONLY", "CANTOPEN", "PERM", "AUTH")):
        return OutputError(f"{path} may not be written or opened. Check its permissions.")
    if kind.startswith("NOTADB"):
        return CorpusError(
            f"{path} is not a corpus; expected a file that malmoi index made. Name another file."
        )
    if kind.startswith("CORRUPT"):
        return _damaged(path)
    return CorpusError(f"{path} cannot be used: {error}. Check the file and the disk.")


def _damaged(path: Path) -> CorpusError:
    return CorpusError(
        f"{path} is damaged; expected a complete corpus file. Restore a backup, or build it again "
        "with: malmoi index"
    )


def row_checksum(values: Iterable[Any]) -> int:
    """A checksum of the values of a row, as they come out of SQLite."""
    return zlib.crc32("\0".join(map(str, values)).encode("utf-8", "surrogatepass"))


def read_document(row: Sequence[Any], *, text: str = "") -> Document:
    """A document, read and checked; `row` starts with the columns of `DOCUMENT`."""
    *values, checksum = row[:ABOUT]
    _, id, title, metadata, source, type, modified, *_ = values
    try:
        if checksum not in (None, row_checksum(values)):
            raise damaged_row()
        return Document(id, text, dict(parse_json(metadata)), title, source, type, modified)
    except (ValueError, TypeError):
        raise damaged_row() from None


def checked_passage(row: Sequence[Any]) -> Sequence[Any]:
    """The columns of `PASSAGE`, if they are as they were written."""
    if row[-1] not in (None, row_checksum(row[:-1])):
        raise damaged_row()
    return row


def read_passage(row: Sequence[Any]) -> Passage:
    """A passage, read and checked, from the columns of `PASSAGE`."""
    _, _, _, text, headings, page, sentences, *_ = checked_passage(row)
    try:
        spans = tuple((int(start), int(end)) for start, end in parse_json(sentences))
        return Passage(text, tuple(map(str, parse_json(headings))), page, spans)
    except (ValueError, TypeError):
        raise damaged_row() from None


def whole_text(text: str | None, checksum: int | None, *, passages: Sequence[str] = ()) -> str:
    """The text of a document, which is that of its passages unless it is kept apart."""
    if checksum not in (None, row_checksum([text])):
        raise damaged_row()
    return "\n\n".join(passages) if text is None else text


def document_row(row: int, stored: StoredDocument) -> tuple[Any, ...]:
    """The row of the table `documents` of a document."""
    one = stored.document
    joined = "\n\n".join(passage.text for passage in stored.passages)
    text = None if one.text == joined or stored.file else one.text
    # What SQLite makes of numbers: floats, and NULL of those that are none.
    modified = None if one.modified is None or math.isnan(one.modified) else one.modified + 0.0
    metadata, file, digest = _json(one.metadata), stored.file or None, stored.digest
    about = (metadata, one.title, one.source, one.type, modified, file, digest)
    last = len(stored.passages) - 1 if stored.passages else None
    values = (row, one.id, one.title, metadata, *about[2:], last)
    return (row, one.id, text, *about, row_checksum(values), row_checksum([text]))


def passage_row(
    place: int, document: int, number: int, title: str, one: Passage, words: Sequence[str]
) -> tuple[Any, ...]:
    """The row of the table `passages` of a passage."""
    values = (
        place,
        document,
        number,
        one.text,
        json.dumps(one.headings, ensure_ascii=False),
        one.page,
        json.dumps(one.sentences),
        hangul_share(one.text),
        passage_digest(title, one),
    )
    return (*values, row_checksum(values), row_checksum([" ".join(words)]))


def _json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False) if metadata else "{}"


def vector_checksum(row: int, raw: bytes) -> int:
    """The checksum of a passage's vectors, which tells those of another passage too."""
    return zlib.crc32(raw, row & 0xFFFFFFFF)


def is_whole(row: int, raw: bytes, checksum: int | None) -> bool:
    """Tell whether vectors are as they were written; without a checksum they are taken as such."""
    # Damage may also turn the bytes into text or a number.
    return isinstance(raw, bytes) and checksum in (None, vector_checksum(row, raw))


def checked_vectors(row: int, raw: bytes, checksum: int | None) -> bytes:
    """The vectors of a passage, if they are as they were written."""
    if not is_whole(row, raw, checksum):
        raise damaged_row()
    return raw


def damaged_row() -> CorpusError:
    """What is said of a row that is not as it was written."""
    return CorpusError(
        "a document of the corpus is damaged: what was read is not what was written. See what is "
        "left with: malmoi corpus check, and restore a backup, or build the corpus again with: "
        "malmoi index"
    )
