"""A corpus in one SQLite file: documents, passages, fields, vectors and words change together."""

import contextlib
import itertools
import logging
import re
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..documents import Passage
from ..errors import CorpusError
from ..io.files import writing
from ..runtime.pooling import to_precision
from ..text.cleanup import mend_surrogates
from ..types import Floats
from . import checksums, keywords
from .filters import Filter, GroupFilter, atoms
from .schema import (
    ABOUT,
    DOCUMENT,
    PASSAGE,
    add_tokens,
    checked_passage,
    checked_vectors,
    connect,
    damaged_row,
    document_row,
    is_frozen,
    is_whole,
    passage_row,
    read_about,
    read_document,
    read_passage,
    row_checksum,
    translated_errors,
    vector_checksum,
    whole_text,
)
from .store import (
    Batch,
    Create,
    Document,
    DocumentInfo,
    PassageKey,
    PassageVectors,
    PassageWithDocument,
    Progress,
    ScoredPassage,
    Store,
    StoredDocument,
    StoreInfo,
    SyncedFile,
    Vector,
    WriteMode,
    passage_score,
    rows_for,
    searched_text,
)
from .vector_index import ROW_BITS, SyncedIndex, index_rows

logger = logging.getLogger(__name__)

_AT_ONCE = 500  # ids in one query
_HELD = 50  # documents that are read at once, of which each may have long fields
_CODE, _FEW = re.compile(r"(?=.*\d).{3}"), 5
_REMEMBERED = 100_000  # words whose frequencies are kept, about 10 MB
_OCCURRENCES = 10_000  # of words in passages that one search goes through, about 8 ms
_MOST = 2**31  # rows of an answer; SQLite knows no larger numbers than 2**63


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
        # A file in a read-only place is read as if it never changed, so it must not.
        self._frozen = _state_of(self.path) if is_frozen(self.path) else None
        self._file = _file_of(self.path)
        self._vector_index = SyncedIndex(self.path, self.about, mark, engine=engine)
        zeros = np.zeros((1, self.about.dimension), np.float32)
        stored = to_precision(zeros, self.about.precision)
        self._dtype, self._width = stored.dtype, stored.shape[1]
        self._intact: set[str] = set()  # parts that were compared with their checksums
        self._written_words: set[str] = set()
        self._counted: tuple[object, tuple[int, int]] | None = None
        self._frequencies: dict[str, int] = {}

    def __len__(self) -> int:
        return self._counts()[0]

    def passage_count(self) -> int:
        return self._counts()[1]

    def _counts(self) -> tuple[int, int]:
        """How many documents and passages there are; counted again only after a change."""
        with self._locked() as connection:
            [[version]] = connection.execute("PRAGMA data_version")  # others' changes
            state = (version, connection.total_changes)
            if self._counted is None or self._counted[0] != state:
                [[documents]] = connection.execute("SELECT count(*) FROM documents")
                [[passages]] = connection.execute("SELECT count(*) FROM passages")
                self._counted = (state, (int(documents), int(passages)))
                self._frequencies = {}
            elif len(self._frequencies) > _REMEMBERED:
                self._frequencies = {}
            return self._counted[1]

    def _write(
        self,
        batch: Batch,
        mode: WriteMode,
        progress: Progress | None,
        delete: Sequence[str],
        files: Sequence[SyncedFile],
    ) -> None:
        with self._transaction() as connection:
            known = self._rows([stored.document.id for stored, _ in batch])
            self._check_mode(len(batch), len(known), mode)
            self._remove([*known.values(), *self._rows(delete).values()])
            self._insert(batch)
            if progress is not None:
                values = (progress.source, progress.fingerprint, progress.lines)
                connection.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?)", values)
            connection.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)",
                [(one.path, one.root, one.id, one.fingerprint) for one in files],
            )

    def delete(self, ids: Sequence[str]) -> int:
        with self._transaction():
            known = self._rows(ids)
            self._remove(list(known.values()))
            return len(known)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        query = f"SELECT {DOCUMENT}, d.text, d.text_checksum FROM documents d WHERE d.id IN"
        found = self._select(query, ids)
        self._check_missing(ids, found)
        texts: dict[int, list[str]] = {row[0]: [] for row in found if row[-2] is None}
        for row in self._select(
            f"SELECT {PASSAGE} FROM passages p WHERE p.document IN", texts, order="number"
        ):
            texts[row[1]].append(read_passage(row).text)
        documents = (
            read_document(row, text=whole_text(*row[-2:], passages=texts.get(row[0], ())))
            for row in found
        )
        return {document.id: document for document in documents}

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        found = self._select("SELECT id, digest FROM documents WHERE id IN", ids)
        self._check_missing(ids, found)
        return dict(found)

    def passages(self, keys: Sequence[PassageKey]) -> dict[PassageKey, PassageWithDocument]:
        found = {}
        for block in _blocks(keys, _HELD):
            marks = ", ".join("(?, ?)" for _ in block)
            values = [value for key in block for value in key]
            with self._locked() as connection:
                rows = connection.execute(
                    f"WITH wanted (id, number) AS (VALUES {marks}) "
                    f"SELECT {DOCUMENT}, {PASSAGE} FROM wanted w JOIN documents d USING (id) "
                    "JOIN passages p ON p.document = d.row AND p.number = w.number",
                    values,
                ).fetchall()
            for row in rows:
                document, passage = read_document(row[:ABOUT]), row[ABOUT:]
                key = PassageKey(document.id, passage[2])
                found[key] = PassageWithDocument(read_passage(passage), document)
        self._check_missing(keys, found)
        return found

    def vectors_for(self, digests: Sequence[bytes]) -> dict[bytes, PassageVectors]:
        found = self._select(
            f"SELECT p.digest, v.row, v.vector, v.checksum, {self._tokens_columns} FROM passages p "
            f"JOIN vectors v USING (row) {self._tokens_join} WHERE p.digest IN",
            digests,
        )
        # Damaged ones, and those without token vectors, are left out, and so made again.
        return {
            key: PassageVectors(self._vectors(row[1]), row[3])
            for key, *row in found
            if is_whole(*row[:3]) and (not self.about.tokens or is_whole(row[0], *row[3:]))
        }

    def tokens_of(self, keys: Sequence[PassageKey]) -> dict[PassageKey, bytes]:
        if not self.about.tokens:
            return {}
        found = self._select(
            "SELECT d.id, p.number, t.row, t.tokens, t.checksum FROM tokens t JOIN passages p "
            "USING (row) JOIN documents d ON d.row = p.document WHERE t.row IN",
            self._passage_rows(keys),
        )
        return {PassageKey(*row[:2]): checked_vectors(*row[2:]) for row in found}

    @property
    def _tokens_columns(self) -> str:
        return "t.tokens, t.checksum" if self.about.tokens else "NULL, NULL"

    @property
    def _tokens_join(self) -> str:
        return "LEFT JOIN tokens t USING (row)" if self.about.tokens else ""

    def without_tokens(self, count: int) -> list[tuple[int, str, Passage]]:
        """Rows of passages without token vectors, with titles and the passages, some of them."""
        with self._locked() as connection:
            found = connection.execute(
                f"SELECT {PASSAGE}, d.title FROM passages p JOIN documents d ON d.row = p.document "
                "WHERE p.row NOT IN (SELECT row FROM tokens) LIMIT ?",
                (count,),
            ).fetchall()
        return [(row[0], row[-1], read_passage(row[:-1])) for row in found]

    def start_tokens(self, about: StoreInfo) -> None:
        """Let the file have token vectors, made as `about` says."""
        with self._transaction() as connection:
            add_tokens(connection, about)
        self.about, _ = read_about(self._connection)

    def write_tokens(self, tokens: Mapping[int, bytes]) -> None:
        """Store token vectors of passages, by their rows, that are still there."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tokens SELECT ?1, ?2, ?3 "
                "WHERE EXISTS (SELECT 1 FROM passages WHERE row = ?1)",
                [(row, raw, vector_checksum(row, raw)) for row, raw in tokens.items()],
            )

    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredPassage]:
        with self._locked() as connection:
            index = self._vector_index.follow(connection)
            only = self._fitting(filters) if filters else None
            found = index.search(vector, rows_for(k), exact=exact, only=only)
            passages = np.unique(found.rows[0][found.rows[0] >= 0] >> ROW_BITS)
            scored = self._scored(vector, passages.tolist())
        return sorted(scored, key=lambda one: -one.score)[:k]

    def _check_missing(self, wanted: Collection[Any], found: Collection[Any]) -> None:
        """Before anything is said to be missing, check once that it could have been found."""
        if len(found) < len(wanted):
            self.check_lookups("documents", "passages")

    def check_lookups(self, *parts: str) -> None:
        """Compare what rows are found by with its checksums, once for each part.

        Words, fields and analyses that are not as written are rebuilt from the rows.
        """
        with self._locked() as connection:
            for part in ("schema", *parts):
                if part not in self._intact and not checksums.is_intact(connection, part):
                    self._rebuild(part)
                self._intact.add(part)

    def _rebuild(self, part: str) -> None:
        """Rebuild words, fields or analyses from the rows; raise for what cannot be rebuilt."""
        if part not in checksums.DERIVED or self._frozen is not None:
            raise checksums.damaged_part(part)
        logger.warning(
            f"{self.path}: {checksums.describe(part)}; it is being rebuilt from the documents"
        )
        self._intact.add(part)
        try:
            with self._transaction():
                self._rebuilders[part](self)
        except BaseException:
            self._intact.discard(part)
            raise

    def _rebuild_words(self) -> None:
        query = (
            "SELECT cut, words_checksum FROM passages p LEFT JOIN words ON words.rowid = p.row "
            "WHERE words_checksum IS NOT NULL OR cut IS NULL"
        )
        if any(row_checksum([cut]) != known for cut, known in self._connection.execute(query)):
            raise damaged_row()
        self._connection.execute("INSERT INTO words (words) VALUES ('rebuild')")

    def _rebuild_fields(self) -> None:
        for table in ("facts", "fields"):
            self._connection.execute(f"DELETE FROM {table}")
        found = self._connection.execute(f"SELECT {DOCUMENT} FROM documents d ORDER BY d.row")
        for row in found:
            self._insert_facts([row[0]], [read_document(row)])

    def _rebuild_terms(self) -> None:
        self._connection.execute("DELETE FROM terms")
        self._written_words.clear()
        found = self._connection.execute(
            f"SELECT {PASSAGE}, d.title FROM passages p JOIN documents d ON d.row = p.document"
        )
        for block in _blocks(found):
            self._insert_terms([searched_text(row[-1], read_passage(row[:-1])) for row in block])

    _rebuilders: ClassVar = {
        "words": _rebuild_words,
        "fields": _rebuild_fields,
        "terms": _rebuild_terms,
    }

    def vector_scores(self, vector: Vector, keys: Sequence[PassageKey]) -> list[ScoredPassage]:
        return self._scored(vector, self._passage_rows(keys))

    def _passage_rows(self, keys: Collection[PassageKey]) -> list[int]:
        """The rows of those passages that are there."""
        documents = self._rows(list({key.document for key in keys}))
        pairs = [(documents[key.document], key.number) for key in keys if key.document in documents]
        rows: list[tuple[int]] = []
        for block in _blocks(pairs):
            marks = ", ".join("(?, ?)" for _ in block)
            with self._locked() as connection:
                # A join, because SQLite goes through all passages for pairs in a list.
                query = (
                    f"WITH wanted (document, number) AS (VALUES {marks}) SELECT p.row "
                    "FROM wanted w JOIN passages p USING (document, number)"
                )
                rows += connection.execute(query, [value for pair in block for value in pair])
        self._check_missing(keys, rows)
        return [row for (row,) in rows]

    def _scored(self, vector: Vector, rows: Sequence[int]) -> list[ScoredPassage]:
        """Score passages by all of their vectors."""
        found = self._select(
            f"SELECT {PASSAGE}, d.id, v.row, v.vector, v.checksum FROM vectors v "
            "JOIN passages p USING (row) JOIN documents d ON d.row = p.document WHERE v.row IN",
            rows,
            order="v.row",
        )
        self._check_missing(rows, found)
        if not found:
            return []
        vectors = self._vectors(b"".join(checked_vectors(*row[-3:]) for row in found))
        cosines: Floats = self.about.floats(vectors) @ np.asarray(vector, dtype=np.float32)
        size = self._width * self._dtype.itemsize
        ends = np.cumsum([len(raw) // size for *_, raw, _ in found]).tolist()
        scored = []
        for (*passage, id, _, _, _), start, end in zip(found, [0, *ends], ends, strict=False):
            _, _, number, *_, hangul, _, _ = checked_passage(passage)
            score, best = passage_score(cosines[start:end])
            scored.append(ScoredPassage(id, score, number, hangul, best))
        return scored

    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredPassage]:
        return self._named(self._matching(words, k, filters))

    def keyword_candidates(
        self,
        words: Sequence[str],
        k: int,
        keys: Collection[PassageKey],
        *,
        depth: int,
        filters: Sequence[Filter] = (),
    ) -> list[ScoredPassage]:
        found = self._matching(words, max(k, depth), filters)
        # To look up what all of them are takes as long as to find them.
        wanted = set(self._passage_rows(keys)) if len(found) > k else set()
        return self._named([*found[:k], *(one for one in found[k:] if one[0] in wanted)])

    def _matching(
        self, words: Sequence[str], k: int, filters: Sequence[Filter]
    ) -> list[tuple[int, float]]:
        """The rows of passages that have some of the words, with their BM25 scores, best first."""
        if not words:
            return []
        self.check_lookups("words")
        words = self._affordable(words)
        with self._locked() as connection:
            condition, values = self._condition(filters)
            # By the function, because sorting by the column "rank" takes a quarter longer.
            found = connection.execute(
                f"SELECT rowid, bm25(words) AS score FROM words WHERE words MATCH ? {condition} "
                "ORDER BY score, rowid LIMIT ?",
                (" OR ".join(map(_quoted, words)), *values, min(k, _MOST)),
            ).fetchall()
        return [(row, -score) for row, score in found]  # SQLite gives the best the lowest

    def _named(self, scored: Sequence[tuple[int, float]]) -> list[ScoredPassage]:
        """Passages by their documents' ids instead of rows; those just deleted are left out."""
        found = self._select(
            f"SELECT {PASSAGE}, d.id FROM passages p "
            "JOIN documents d ON d.row = p.document WHERE p.row IN",
            [row for row, _ in scored],
        )
        self._check_missing(scored, found)
        about = {}
        for *passage, id in found:
            row, _, number, *_, hangul, _, _ = checked_passage(passage)
            about[row] = (id, number, hangul)
        return [
            ScoredPassage(about[row][0], score, *about[row][1:])
            for row, score in scored
            if row in about
        ]

    def _affordable(self, words: Sequence[str]) -> Sequence[str]:
        """The rarest words, as long as they do not occur too often together.

        In a large corpus a word that a tenth of the passages has tells little, and takes longer to
        search for than all the others.
        """
        if self.passage_count() <= _OCCURRENCES:
            return words
        known = self.known_terms(words)
        rarest = sorted(words, key=lambda word: known.get(word, 0))
        total = itertools.accumulate(known.get(word, 0) for word in rarest)
        kept = [word for word, sum in zip(rarest, total, strict=True) if sum <= _OCCURRENCES]
        # Words that no passage has find nothing by themselves.
        found = any(word in known for word in kept)
        return kept if found else [*kept, *rarest[len(kept) : len(kept) + 1]]

    def best_keyword_score(self, words: Sequence[str]) -> float:
        total, known = self.passage_count(), self.known_terms(words)
        # A code that few passages have decides, whatever else is in the query.
        codes = [word for word in words if 0 < known.get(word, 0) <= _FEW and _CODE.search(word)]
        counts = np.array([known.get(word, 0) for word in codes or words])
        # As in SQLite's BM25, where a word adds at most 2.2 times its inverse frequency.
        rarity = np.log((total - counts + 0.5) / (counts + 0.5))
        return float(2.2 * np.maximum(rarity, 1e-6).sum())

    def query_terms(self, query: str) -> keywords.QueryTerms:
        return keywords.query_terms(query, self.about.words, self)

    def remembered(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The terms of those words whose analyses were stored with the passages."""
        self.check_lookups("terms")
        found = self._select("SELECT word, terms FROM terms WHERE word IN", words)
        return {word: tuple(terms.split()) for word, terms in found}

    def known_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """Those terms, phrases and beginnings that passages have, with the number of passages.

        Counting a frequent one takes a millisecond in a large corpus, so counts are remembered.
        """
        self.check_lookups("words")
        self._counts()  # forgets the counts of before a change
        known = self._frequencies
        new = [term for term in terms if term not in known]
        stems = {term: keywords.stem(term) for term in new if term.isalnum()}
        rows = self._select("SELECT term, doc FROM vocabulary WHERE term IN", set(stems.values()))
        counts: dict[str, int] = dict(rows)
        known.update((term, counts.get(stem, 0)) for term, stem in stems.items())
        for term in new:
            if not term.isalnum():
                query = "SELECT count(*) FROM words WHERE words MATCH ?"
                with self._locked() as connection:
                    [[known[term]]] = connection.execute(query, (_quoted(term),))
        return {term: known[term] for term in terms if known[term]}

    def count(self, filters: Sequence[Filter]) -> tuple[int, int]:
        with self._locked() as connection:
            condition, values = self._condition(filters)
            [found] = connection.execute(
                f"SELECT count(DISTINCT document), count(*) FROM passages WHERE true {condition}",
                values,
            )
            return int(found[0]), int(found[1])

    def fields(self) -> list[str]:
        self.check_lookups("fields")
        with self._locked() as connection:
            return [name for (name,) in connection.execute("SELECT name FROM fields ORDER BY name")]

    def scan(self) -> Iterator[StoredDocument]:
        self.check_lookups("documents", "passages")
        after = 0
        while True:
            with self._locked() as connection:
                block = connection.execute(
                    f"SELECT {DOCUMENT}, d.text, d.text_checksum FROM documents d "
                    "WHERE d.row > ? ORDER BY d.row LIMIT ?",
                    (after, _HELD),
                ).fetchall()
            if not block:
                return
            parts: dict[int, list[tuple[Passage, PassageVectors]]] = {row[0]: [] for row in block}
            for *row, number, raw, checksum, tokens, sum in self._select(
                f"SELECT {PASSAGE}, v.row, v.vector, v.checksum, {self._tokens_columns} "
                f"FROM passages p JOIN vectors v USING (row) {self._tokens_join} "
                "WHERE p.document IN",
                parts,
                order="p.document, p.number",
            ):
                own = self._vectors(checked_vectors(number, raw, checksum))
                kept = None if tokens is None else checked_vectors(number, tokens, sum)
                parts[row[1]].append((read_passage(row), PassageVectors(own, kept)))
            for row in block:
                passages = tuple(passage for passage, _ in parts[row[0]])
                text = whole_text(*row[-2:], passages=[one.text for one in passages])
                document, (file, digest, last) = read_document(row, text=text), row[7:10]
                if len(passages) != (0 if last is None else 1 + last):  # one is missing
                    raise damaged_row()
                stored = StoredDocument(document, passages, (), file or "", digest or "")
                yield stored.with_vectors([own for _, own in parts[row[0]]])
            after = block[-1][0]

    def documents(self, *, after: str = "", limit: int | None = None) -> Iterator[DocumentInfo]:
        self.check_lookups("documents", "passages")
        while limit is None or limit > 0:
            with self._locked() as connection:
                block = connection.execute(
                    f"SELECT {DOCUMENT}, (SELECT count(*) FROM passages WHERE document = d.row) "
                    "FROM documents d WHERE d.id > ? ORDER BY d.id LIMIT ?",
                    (after, min(_HELD, limit or _HELD)),
                ).fetchall()
            for row in block:
                yield DocumentInfo(read_document(row), row[-1])
            if not block:
                return
            after, limit = block[-1][1], None if limit is None else limit - len(block)

    def sample(self, count: int) -> list[str]:
        with self._locked() as connection:
            [[last]] = connection.execute("SELECT coalesce(max(row), 0) FROM passages")
            rows = {1 + last * i // count for i in range(count)}
            query = "SELECT text FROM passages WHERE row >= ? ORDER BY row LIMIT 1"
            found = [connection.execute(query, (row,)).fetchone() for row in sorted(rows)]
        return list(dict.fromkeys(text for (text,) in filter(None, found)))

    def files(self) -> dict[str, SyncedFile]:
        with self._locked() as connection:
            found = connection.execute("SELECT path, root, id, fingerprint FROM files").fetchall()
        return {row[0]: SyncedFile(*row) for row in found}

    def file_documents(self, path: str) -> dict[str, str]:
        with self._locked() as connection:
            query = "SELECT id, digest FROM documents WHERE file = ?"
            return dict(connection.execute(query, (path,)).fetchall())

    def remove_files(self, paths: Sequence[str]) -> int:
        removed = 0
        for block in _blocks(paths):
            with self._transaction() as connection:
                rows = self._select("SELECT row FROM documents WHERE file IN", block)
                self._remove([row for (row,) in rows])
                connection.executemany("DELETE FROM files WHERE path = ?", [(p,) for p in block])
                removed += len(rows)
        return removed

    def progress(self, source: str) -> Progress | None:
        with self._locked() as connection:
            query = "SELECT source, fingerprint, lines FROM sources WHERE source = ?"
            found = connection.execute(query, (source,)).fetchone()
        return Progress(*found) if found else None

    def check(self) -> list[str]:
        """Compare every row, word and vector; a line for each kind of damage."""
        with self._locked() as connection:
            return checksums.find_damage(
                connection,
                self._vectors,
                writable=self._frozen is None,
                tokens=bool(self.about.tokens),
            )

    def repair(self, encode: checksums.Encode) -> checksums.Repaired:
        """Make a whole file of what can be read, and close the store; nobody else may have it open.

        `encode` gives new vectors to passages whose own are damaged. The damaged file is kept.
        """
        kept = next(
            path
            for i in itertools.count(1)
            if not (path := self.path.with_name(f"{self.path.name}.damaged-{i}")).exists()
        )
        self._vector_index.discard()
        with self._alone() as connection, writing(self.path) as file:
            reader = checksums.Reader(
                connection, encode, self._vectors, tokens=bool(self.about.tokens)
            )
            reader.reindex()  # in a transaction that is rolled back
            with contextlib.closing(SqliteStore(file.name, create=lambda: self.about)) as new:
                documents = reader.documents()
                while batch := list(itertools.islice(documents, _AT_ONCE)):
                    new.write(batch)
                with new._transaction() as target:
                    marks = "INSERT OR REPLACE INTO {} VALUES ({})"
                    target.executemany(marks.format("files", "?, ?, ?, ?"), reader.files())
                    target.executemany(marks.format("sources", "?, ?, ?"), reader.sources())
                count = len(new)
            kept.hardlink_to(self.path)
        self.close()
        return checksums.Repaired(count, reader.encoded, tuple(reader.lost), kept)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """Keep others out of the file until the store is closed."""
        with self._locked() as connection:
            # Without its log only one can have the file, so SQLite asks whether others have it.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def backup(self, path: str | Path) -> None:
        """Write a whole copy of the file as it is now; others may write meanwhile."""
        path = Path(path)
        if path.exists() and path.samefile(self.path):
            raise CorpusError(
                f"{path} is the corpus itself; expected another file. Name one for the copy."
            )
        if path.with_name(f"{path.name}-wal").exists():  # SQLite would apply it to the copy
            raise CorpusError(
                f"{path} is in use: {path.name}-wal is next to it; expected a file that nobody has "
                "open. Name another file for the copy."
            )
        with (
            writing(path) as file,
            self._locked() as connection,
            contextlib.closing(sqlite3.connect(file.name)) as copy,
        ):
            connection.backup(copy)

    def flush(self) -> None:
        """Write the index file, and build the graph where one is due."""
        with self._locked() as connection:
            self._vector_index.flush(connection)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._frozen is None:
                with contextlib.suppress(sqlite3.DatabaseError):  # damage is reported when used
                    checksums.record(self._connection)
            self._connection.close()

    def _insert(self, batch: Batch) -> None:
        """Insert documents whose ids do not exist, one table after the other."""
        connection = self._connection
        rows = self._next_rows("documents", len(batch))
        connection.executemany(
            f"INSERT INTO documents VALUES ({', '.join('?' * 12)})",
            (document_row(row, stored) for row, (stored, _) in zip(rows, batch, strict=True)),
        )
        parts = [
            (row, number, one.document.title, passage, compared, words)
            for row, (one, cut) in zip(rows, batch, strict=True)
            for number, (passage, compared, words) in enumerate(
                zip(one.passages, one.compared, cut, strict=True)
            )
        ]
        places = self._next_rows("passages", len(parts))
        connection.executemany(
            f"INSERT INTO passages VALUES ({', '.join('?' * 11)})",
            (
                passage_row(place, row, number, title, passage, words)
                for place, (row, number, title, passage, _, words) in zip(
                    places, parts, strict=True
                )
            ),
        )
        raw = (
            np.ascontiguousarray(own.vectors, dtype=self._dtype).tobytes() for *_, own, _ in parts
        )
        connection.executemany(
            "INSERT INTO vectors VALUES (?, ?, ?)",
            (
                (place, one, vector_checksum(place, one))
                for place, one in zip(places, raw, strict=True)
            ),
        )
        if self.about.tokens:
            connection.executemany(
                "INSERT INTO tokens VALUES (?, ?, ?)",
                (
                    (place, own.tokens, vector_checksum(place, own.tokens))
                    for place, (*_, own, _) in zip(places, parts, strict=True)
                    if own.tokens is not None
                ),
            )
        connection.executemany(
            "INSERT INTO words (rowid, cut) VALUES (?, ?)",
            zip(places, (" ".join(words) for *_, words in parts), strict=True),
        )
        self._insert_facts(rows, [stored.document for stored, _ in batch])
        self._insert_terms([searched_text(title, passage) for _, _, title, passage, *_ in parts])

    def _next_rows(self, table: str, count: int) -> range:
        """The next row numbers, none of which was ever used."""
        [[last]] = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,)
        )
        return range(last + 1, last + 1 + count)

    def _insert_facts(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Store the values of fields, by which documents are filtered."""
        connection = self._connection
        fields = [document.fields for document in documents]
        names = self._field_numbers(name for own in fields for name in own)
        facts = [
            fact for row, own in zip(rows, fields, strict=True) for fact in _facts(row, own, names)
        ]
        connection.executemany(
            "INSERT OR IGNORE INTO facts (row, field, value) VALUES (?, ?, ?)", facts
        )

    def _field_numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of fields; new ones get one."""
        wanted = list(dict.fromkeys(names))
        query = "SELECT name, field FROM fields WHERE name IN"
        known = dict(self._select(query, wanted))
        new = [name for name in wanted if name not in known]
        if new:
            self._connection.executemany("INSERT INTO fields (name) VALUES (?)", zip(new))
            known |= dict(self._select(query, new))
        return known

    def _insert_terms(self, texts: Sequence[str]) -> None:
        """Remember how Korean words were analysed, so that a query needs no analyser."""
        found = keywords.analysed(texts, self.about.words, without=self._written_words)
        known = {word for (word,) in self._select("SELECT word FROM terms WHERE word IN", found)}
        new = [(word, " ".join(terms)) for word, terms in found.items() if word not in known]
        self._connection.executemany("INSERT INTO terms VALUES (?, ?)", new)

    def _remove(self, rows: list[int]) -> None:
        connection = self._connection
        for row in rows:
            self._remove_facts(row)
            size = self._width * self._dtype.itemsize
            connection.execute(
                "INSERT INTO removed (row, vectors) SELECT row, length(vector) / ? FROM passages "
                "JOIN vectors USING (row) WHERE document = ?",
                (size, row),
            )
            own = "(SELECT row FROM passages WHERE document = ?)"
            self._check_words(row)
            connection.execute(f"DELETE FROM vectors WHERE row IN {own}", (row,))
            if self.about.tokens:
                connection.execute(f"DELETE FROM tokens WHERE row IN {own}", (row,))
            connection.execute(f"DELETE FROM words WHERE rowid IN {own}", (row,))
            connection.execute("DELETE FROM passages WHERE document = ?", (row,))
            connection.execute("DELETE FROM documents WHERE row = ?", (row,))

    def _check_words(self, document: int) -> None:
        """FTS5 removes from its index the words that it finds, so they must be the right ones."""
        query = (
            "SELECT cut, words_checksum FROM passages p JOIN words ON words.rowid = p.row "
            "WHERE document = ? AND words_checksum IS NOT NULL"
        )
        for cut, known in self._connection.execute(query, (document,)):
            if row_checksum([cut]) != known:
                raise damaged_row()

    def _remove_facts(self, row: int) -> None:
        connection = self._connection
        [found] = connection.execute(f"SELECT {DOCUMENT} FROM documents d WHERE d.row = ?", (row,))
        try:
            fields = read_document(found).fields
        except CorpusError:  # damaged, and so all of them have to be gone through
            connection.execute("DELETE FROM facts WHERE row = ?", (row,))
            return
        connection.executemany(
            "DELETE FROM facts WHERE row = ? AND field = ? AND value = ?",
            _facts(row, fields, self._field_numbers(fields)),
        )

    def _rows(self, ids: Sequence[str]) -> dict[str, int]:
        found = self._select("SELECT id, row FROM documents WHERE id IN", ids)
        self._check_missing(ids, found)
        return dict(found)

    def _fitting(self, filters: Sequence[Filter]) -> NDArray[np.int64]:
        """The rows of the vector index whose documents fit."""
        condition, values = self._condition(filters)
        size = self._width * self._dtype.itemsize
        found = self._connection.execute(
            f"SELECT row, length(vector) / {size} FROM vectors WHERE true {condition}", values
        ).fetchall()
        rows = np.array(found, dtype=np.int64).reshape(-1, 2)
        return index_rows(rows[:, 0], rows[:, 1])

    def _condition(self, filters: Sequence[Filter]) -> tuple[str, list[Any]]:
        """The filters as SQL that continues a WHERE, and the values for its placeholders."""
        if not filters:
            return "", []
        self.check_lookups("fields")
        parts, values = [], list[Any]()
        for one in filters:
            if isinstance(one, GroupFilter):
                rows = "(SELECT row FROM facts WHERE field = "
                rows += "(SELECT field FROM fields WHERE name = ?)"
                marks = ", ".join("?" * len(one.groups))
                parts.append(
                    f"(document NOT IN {rows}) OR document IN {rows} AND value IN ({marks})))"
                )
                values += [one.field, one.field, *one.groups]
                continue
            negated = one.operator == "!="
            sign = "=" if negated else one.operator  # one of six known signs, never the user's text
            parts.append(
                f"document {'NOT ' if negated else ''}IN (SELECT row FROM facts WHERE field = "
                f"(SELECT field FROM fields WHERE name = ?) AND value {sign} ?)"
            )
            values += [one.field, one.value]
        return f"AND rowid IN (SELECT row FROM passages WHERE {' AND '.join(parts)})", values

    def _select(
        self, query: str, keys: Iterable[Any], *, order: str | None = None
    ) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for block in _blocks(keys):
            marks = ", ".join("?" * len(block))
            ordered = f" ORDER BY {order}" if order else ""
            values = [mend_surrogates(one) if isinstance(one, str) else one for one in block]
            with self._locked() as connection:
                found += connection.execute(f"{query} ({marks}){ordered}", values).fetchall()
        return found

    def _vectors(self, raw: bytes) -> Vector:
        return np.frombuffer(raw, dtype=self._dtype).reshape(-1, self._width)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated_errors(self.path):
            if _file_of(self.path) != self._file:  # what is written now would be lost with it
                raise CorpusError(
                    f"{self.path} was replaced or removed while it is open; expected the file that "
                    "was opened. Open it again: restart the server, or the command."
                )
            if self._frozen is not None and _state_of(self.path) != self._frozen:
                raise CorpusError(
                    f"{self.path} was changed while it is open from a read-only place; expected it "
                    "to stay as it is. Open it again: restart the server, or the command."
                )
            yield self._connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction: all of it, or nothing."""
        with self._locked() as connection:
            self.check_lookups(*checksums.DERIVED)
            connection.execute("BEGIN IMMEDIATE")
            try:
                checksums.discard(connection)
                yield connection
                # By this number an index file knows whether it belongs to the state of this file;
                # see `SyncedIndex`. No row has a number below 0, so it removes nothing.
                mark = -1 - secrets.randbits(62)
                connection.execute("INSERT INTO removed (row, vectors) VALUES (?, 0)", (mark,))
                connection.execute("COMMIT")
            except BaseException:
                self._written_words.clear()
                if connection.in_transaction:  # a full disk may have ended it already
                    connection.execute("ROLLBACK")
                raise


def open_store(path: str | Path, *, create: Create | None = None, engine: str = "auto") -> Store:
    """Open the store of a corpus: a SQLite file, or a collection in Milvus.

    A store that does not exist is created when `create` is given.
    """
    if str(path).startswith(("milvus:", "milvus+https:")):
        from .milvus import MilvusStore  # here, so that a corpus file opens without it

        return MilvusStore(str(path), create=create)
    return SqliteStore(path, create=create, engine=engine)


def _blocks(items: Iterable[Any], size: int = _AT_ONCE) -> Iterator[list[Any]]:
    pending = iter(items)
    while block := list(itertools.islice(pending, size)):
        yield block


def _facts(
    row: int, fields: Mapping[str, Any], names: Mapping[str, int]
) -> list[tuple[int, int, Any]]:
    """The values of a document's fields, each once."""
    found = ((row, names[name], one) for name, value in fields.items() for one in atoms(value))
    return list(dict.fromkeys(found))


def _quoted(word: str) -> str:
    """A word, a phrase or (with a "*" at its end) a beginning as FTS5 reads it."""
    start = word.endswith("*") and len(word) > 1
    text = (word[:-1] if start else word).replace('"', '""')
    return f'"{text}"*' if start else f'"{text}"'


def _file_of(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of its name; None where there is none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def _state_of(path: Path) -> tuple[int, int, int]:
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns
