"""A corpus in one SQLite file: documents, fields, vectors and words change together."""

import contextlib
import hashlib
import itertools
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.precision import to_precision
from .filters import Filter, atoms
from .schema import connect, read_about, translated_errors
from .store import Batch, Create, Document, Progress, ScoredId, Store, Stored, Vector, WriteMode
from .vector_index import SyncedIndex

_AT_ONCE = 500  # ids in one query


class SqliteStore(Store):
    """The store in one file. Threads take turns; processes see each other's commits.

    What the methods do is documented in `Store`.
    """

    def __init__(self, path: str | Path, *, create: Create | None = None, engine: str = "auto"):
        self.path = Path(path)
        self._lock = threading.RLock()
        self._connection = connect(self.path, create=create)
        with translated_errors(self.path):
            self.about, mark = read_about(self._connection)
        self._vector_index = SyncedIndex(self.path, self.about, mark, engine=engine)
        zeros = np.zeros((1, self.about.dimension), np.float32)
        self._dtype = to_precision(zeros, self.about.precision).dtype

    def __len__(self) -> int:
        with self._locked() as connection:
            [[count]] = connection.execute("SELECT count(*) FROM vectors")
            return int(count)

    def _write(self, batch: Batch, mode: WriteMode, progress: Progress | None) -> None:
        with self._transaction() as connection:
            known = self._rows([stored.document.id for stored, _ in batch])
            self._check_mode(len(batch), len(known), mode)
            self._remove(list(known.values()))
            self._insert(batch)
            if progress is not None:
                values = (progress.source, progress.fingerprint, progress.lines)
                connection.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?)", values)

    def delete(self, ids: Sequence[str]) -> int:
        with self._transaction():
            known = self._rows(ids)
            self._remove(list(known.values()))
            return len(known)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        found = self._select("SELECT id, text, metadata FROM documents WHERE id IN", ids)
        return {id: Document(id, text, json.loads(data)) for id, text, data in found}

    def vectors_for(self, texts: Sequence[str]) -> dict[str, Vector]:
        digests = {digest(text): text for text in texts}
        found = self._select(
            "SELECT digest, vector FROM documents JOIN vectors USING (row) WHERE digest IN",
            list(digests),
        )
        return {digests[key]: self._vector(raw) for key, raw in found}

    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredId]:
        with self._locked() as connection:
            index = self._vector_index.follow(connection)
            only = self._fitting(filters) if filters else None
            found = index.search(vector, k, exact=exact, only=only)
            scores = dict(zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True))
            ids = dict(self._select("SELECT row, id FROM documents WHERE row IN", list(scores)))
        return [ScoredId(ids[row], score) for row, score in scores.items() if row in ids]

    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredId]:
        if not words:
            return []
        query = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        with self._locked() as connection:
            condition, values = self._condition(filters)
            found = connection.execute(
                "SELECT id, score FROM (SELECT rowid AS row, rank AS score FROM words "
                f"WHERE words MATCH ? {condition} ORDER BY rank LIMIT ?) JOIN documents "
                "USING (row) ORDER BY score, row",
                (query, *values, k),
            ).fetchall()
        return [ScoredId(id, -score) for id, score in found]  # SQLite gives the best the lowest

    def fields(self) -> list[str]:
        with self._locked() as connection:
            return [name for (name,) in connection.execute("SELECT name FROM fields ORDER BY name")]

    def scan(self) -> Iterator[Stored]:
        last = 0
        while True:
            with self._locked() as connection:
                block = connection.execute(
                    "SELECT row, id, text, metadata, vector FROM documents JOIN vectors "
                    "USING (row) WHERE row > ? ORDER BY row LIMIT ?",
                    (last, _AT_ONCE),
                ).fetchall()
            if not block:
                return
            for _, id, text, data, raw in block:
                yield Stored(Document(id, text, json.loads(data)), self._vector(raw))
            last = block[-1][0]

    def sample(self, count: int) -> list[str]:
        with self._locked() as connection:
            [[last]] = connection.execute("SELECT coalesce(max(row), 0) FROM documents")
            rows = {1 + last * i // count for i in range(count)}
            query = "SELECT text FROM documents WHERE row >= ? ORDER BY row LIMIT 1"
            found = [connection.execute(query, (row,)).fetchone() for row in sorted(rows)]
        return list(dict.fromkeys(text for (text,) in filter(None, found)))

    def progress(self, source: str) -> Progress | None:
        with self._locked() as connection:
            query = "SELECT source, fingerprint, lines FROM sources WHERE source = ?"
            found = connection.execute(query, (source,)).fetchone()
        return Progress(*found) if found else None

    def flush(self) -> None:
        """Write the index file, and build the graph where one is due."""
        with self._locked() as connection:
            self._vector_index.flush(connection)

    def close(self) -> None:
        """Wait for work in the background and close the file."""
        self._vector_index.wait()
        with self._lock:
            self._connection.close()

    def _insert(self, batch: Batch) -> None:
        """Insert documents whose ids do not exist, one table after the other."""
        connection = self._connection
        documents = [stored.document for stored, _ in batch]
        rows = self._next_rows(len(batch))
        connection.executemany(
            "INSERT INTO documents (row, id, text, digest, metadata) VALUES (?, ?, ?, ?, ?)",
            (
                (row, one.id, one.text, digest(one.text), _json(one.metadata))
                for row, one in zip(rows, documents, strict=True)
            ),
        )
        raw = (np.ascontiguousarray(one.vector, dtype=self._dtype).tobytes() for one, _ in batch)
        connection.executemany("INSERT INTO vectors VALUES (?, ?)", zip(rows, raw, strict=True))
        connection.executemany(
            "INSERT INTO words (rowid, cut) VALUES (?, ?)",
            zip(rows, (" ".join(words) for _, words in batch), strict=True),
        )
        self._insert_facts(rows, documents)

    def _next_rows(self, count: int) -> range:
        """The next row numbers, none of which was ever used."""
        [[last]] = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'documents'"
        )
        return range(last + 1, last + 1 + count)

    def _insert_facts(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Store the values of metadata fields, by which documents are filtered."""
        connection = self._connection
        facts = [
            (name, one, row)
            for row, document in zip(rows, documents, strict=True)
            for name, value in document.metadata.items()
            for one in atoms(value)
        ]
        names = dict.fromkeys(name for document in documents for name in document.metadata)
        connection.executemany(
            "INSERT OR IGNORE INTO fields (name) VALUES (?)", ((name,) for name in names)
        )
        connection.executemany(
            "INSERT OR IGNORE INTO facts VALUES ((SELECT field FROM fields WHERE name = ?), ?, ?)",
            facts,
        )

    def _remove(self, rows: list[int]) -> None:
        connection = self._connection
        for row in rows:
            [[data]] = connection.execute("SELECT metadata FROM documents WHERE row = ?", (row,))
            connection.executemany(
                "DELETE FROM facts WHERE field = (SELECT field FROM fields WHERE name = ?) "
                "AND value = ? AND row = ?",
                [(name, one, row) for name, v in json.loads(data).items() for one in atoms(v)],
            )
            connection.execute("DELETE FROM documents WHERE row = ?", (row,))
            connection.execute("DELETE FROM vectors WHERE row = ?", (row,))
            connection.execute("DELETE FROM words WHERE rowid = ?", (row,))
            connection.execute("INSERT INTO removed (row) VALUES (?)", (row,))

    def _rows(self, ids: Sequence[str]) -> dict[str, int]:
        return dict(self._select("SELECT id, row FROM documents WHERE id IN", ids))

    def _fitting(self, filters: Sequence[Filter]) -> NDArray[np.int64]:
        condition, values = self._condition(filters)
        query = f"SELECT rowid FROM vectors WHERE true {condition}"
        found = self._connection.execute(query, values)
        return np.fromiter((row for (row,) in found), dtype=np.int64)

    def _condition(self, filters: Sequence[Filter]) -> tuple[str, list[Any]]:
        """The filters as SQL that continues a WHERE, and the values for its placeholders."""
        parts, values = [""], list[Any]()
        for one in filters:
            negated = one.operator == "!="
            sign = "=" if negated else one.operator  # one of six known signs, never the user's text
            parts.append(
                f"rowid {'NOT ' if negated else ''}IN (SELECT row FROM facts WHERE field = "
                f"(SELECT field FROM fields WHERE name = ?) AND value {sign} ?)"
            )
            values += [one.field, one.value]
        return " AND ".join(parts), values

    def _select(self, query: str, keys: Iterable[Any]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        pending = iter(keys)
        while block := list(itertools.islice(pending, _AT_ONCE)):
            marks = ", ".join("?" * len(block))
            with self._locked() as connection:
                found += connection.execute(f"{query} ({marks})", block).fetchall()
        return found

    def _vector(self, raw: bytes) -> Vector:
        return np.frombuffer(raw, dtype=self._dtype)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated_errors(self.path):
            yield self._connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction: all of it, or nothing."""
        with self._locked() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk may have ended it already
                    connection.execute("ROLLBACK")
                raise


def _json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False) if metadata else "{}"


def digest(text: str) -> bytes:
    """A hash by which equal texts are found."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
