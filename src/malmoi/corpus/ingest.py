"""Files, folders, rows and lines into a corpus, resumed where an earlier run stopped.

A table with a column of texts, and a file that is read line by line, give documents with ids of
their own; how far such a file was read is stored with each batch. Of other files and of folders
the corpus holds what they hold now: a file's documents, and the note that it has been read, change
in transactions of their own, and after a kill at any moment the next run completes the last.
"""

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..documents import FoundFile, RowColumns, SkippedPath, find_files, read_documents
from ..encoders import TextEncoder
from ..errors import CorpusError, DataError, DocumentError, MissingExtra, counted
from ..io.files import read_lines
from ..io.progress import progressing
from ..io.tables import is_table, read_typed_rows, show_columns
from .sqlite import SqliteStore, open_store
from .store import Document, Progress, StoredDocument, SyncedFile, checked_document
from .writer import CorpusWriter, DocumentBatch, token_map

logger = logging.getLogger(__name__)

# Rows of one transaction: enough texts to sort by length and fill batches of the encoder; few
# enough to be written quickly. Passages of one transaction likewise.
BATCH = 2048
_PASSAGES = 512
_COPIED = 1000  # documents in one write of a copy
# Raised when files are read in another way, so that they are read again.
_READING = "2"
# A file may change again within one tick of the file system's clock, without a trace in its time.
_SETTLED = 2.0  # seconds


@dataclass(frozen=True)
class IngestReport:
    """What was done with files, in documents.

    Attributes:
        files: how many were found.
        written: new or changed.
        unchanged: as they were.
        removed: gone, with their files or from them.
        empty: rows and lines without text.
        failed: a line for each file or folder that could not be read.
    """

    files: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    empty: int = 0
    failed: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was written or removed."""
        return bool(self.written or self.removed)


def index_files(
    corpus: CorpusWriter,
    paths: Sequence[str | Path],
    *,
    lines: bool = False,
    columns: RowColumns | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    keep_missing: bool = False,
    progress: bool = False,
) -> IngestReport:
    """Write files to a corpus: rows and lines as documents of their own, other files as a sync.

    Rows and lines have the ids of their column, or the file's name and their number. After a stop
    the next call resumes at the line that was reached; a file that has changed is read from its
    start, and only new or changed documents are encoded.

    Args:
        paths: files and folders; "-" is stdin, one text per line.
        lines: every line or row of the files is a document.
        columns: which columns of tables hold what.
        include: as of `Corpus.sync`, as are the other options.
    """
    rows = [path for path in paths if has_rows(path, lines=lines, columns=columns)]
    rest = [path for path in paths if path not in rows]
    for path in paths:
        if is_table(str(path)) and not lines:
            named = _text_column(columns)
            own = "are documents with their own ids" if path in rows else "belong to the file"
            reason = "one column, or a" if path in rows else "no"
            logger.info(f"{path}: its rows {own}, since it has {reason} column {named!r}")
    ingest = _Ingest(corpus, columns, include, exclude, keep_missing)
    return ingest.run([str(path) for path in rows], rest, progress=progress)


def sync_files(
    corpus: CorpusWriter,
    paths: str | Path | Iterable[str | Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    keep_missing: bool = False,
    columns: RowColumns | None = None,
    progress: bool = False,
) -> IngestReport:
    """Add, update and remove documents so that a corpus matches files and folders.

    The rows of a table are documents of their file; see `Corpus.sync`.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    ingest = _Ingest(corpus, columns, include, exclude, keep_missing)
    return ingest.run([], given, progress=progress)


def watch_files(
    corpus: CorpusWriter,
    paths: Sequence[str | Path],
    *,
    every: float = 2.0,
    lines: bool = False,
    columns: RowColumns | None = None,
    **options: Any,
) -> Iterator[IngestReport]:
    """Index files, then sync again and again, every few seconds; yields each change's report.

    Files whose rows or lines are documents are read once.
    """
    report = index_files(corpus, paths, lines=lines, columns=columns, **options)
    rest = [path for path in paths if not has_rows(path, lines=lines, columns=columns)]
    while True:
        if report.changed or report.failed:
            yield report
        time.sleep(every)
        report = sync_files(corpus, rest, columns=columns, **options)


def has_rows(path: str | Path, *, lines: bool = False, columns: RowColumns | None = None) -> bool:
    """Tell whether the rows or lines of a file are documents with ids of their own.

    Those of a table are if it has a column of texts ("text", or as named), or one column.
    """
    if path == "-":
        return True
    if not Path(path).exists():
        raise DataError(f"there is no file or folder {path}. Check the name.")
    if lines or not is_table(str(path)) or not Path(path).is_file():
        return lines
    _, first = next(iter(read_typed_rows(str(path))), (0, {}))
    return len(first) < 2 or _text_column(columns) in first


def _text_column(columns: RowColumns | None) -> str:
    return columns.text[0] if columns is not None and columns.text else "text"


def copy_corpus(source: str | Path, target: str | Path, *, progress: bool = False) -> int:
    """Copy every document with its vector into a new corpus; returns how many.

    Either may be a file or an address in Milvus. A target that another copy was cut off from is
    continued, since ids that exist are written again.
    """
    with contextlib.closing(open_store(source)) as old:
        about = old.about
        with contextlib.closing(open_store(target, create=lambda: about)) as new:
            if new.about != about:
                raise CorpusError(
                    f"{target} was made for {new.about.model}, {new.about.dimension} dimensions, "
                    f"{new.about.precision}; the documents are of {about.model}, "
                    f"{about.dimension}, {about.precision}. Name a new target."
                )
            if len(new) > len(old):
                raise CorpusError(
                    f"{target} has {counted(len(new), 'document')}, more than {source}; expected a "
                    "new corpus or one that this copy started. Name another target."
                )
            count = 0
            with progressing("copying", total=len(old), shown=progress) as advance:
                documents = old.scan()
                while batch := list(itertools.islice(documents, _COPIED)):
                    new.write(batch)
                    count += len(batch)
                    advance(len(batch))
            new.flush()
            return count


def upgrade_corpus(
    path: str | Path, encoder: TextEncoder | None = None, *, progress: bool = False
) -> int:
    """Give a corpus file token vectors; returns how many passages were encoded.

    A run that was stopped is resumed by the next; until then those passages are searched by their
    vectors alone.
    """
    with contextlib.closing(open_store(path)) as store:
        if not isinstance(store, SqliteStore):
            raise CorpusError(
                f"{path} is in Milvus, whose collections keep their fields; expected a file. Index "
                "the documents again under another name with: malmoi index"
            )
        writer = CorpusWriter(store, encoder)
        if not store.about.tokens:
            tokens = token_map(writer.encoder)
            if not tokens:
                raise CorpusError(
                    f"{writer.encoder.name} gives no states of tokens; expected a model with "
                    "layers. Export it again with: malmoi model export --layers all"
                )
            store.start_tokens(replace(store.about, tokens=tokens))
        if writer.token_encoder is None:
            raise CorpusError(
                f"{writer.encoder.name} has no output for the token vectors of {path}; expected "
                f"that of {store.about.model}. Name the model with: malmoi corpus upgrade --model"
            )
        count = 0
        with progressing("upgrading", total=store.passage_count(), shown=progress) as advance:
            while block := store.without_tokens(_PASSAGES):
                made = writer.encode_passages([(title, passage) for _, title, passage in block])
                rows = (row for row, _, _ in block)
                found = zip(rows, (one.tokens or b"" for one in made), strict=True)
                store.write_tokens(dict(found))
                count += len(block)
                advance(len(block))
        return count


@dataclass
class _Ingest:
    """One run: which files are known, under which ids, and what has become of them."""

    corpus: CorpusWriter
    columns: RowColumns | None
    include: Sequence[str]
    exclude: Sequence[str]
    keep_missing: bool
    unchanged: int = 0
    failed: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)  # files that could not be read just now
    broken: set[str] = field(default_factory=set)  # files that have nothing to be found any more
    moved: set[str] = field(default_factory=set)  # roots whose files are found elsewhere now

    def run(
        self, rows: Sequence[str], paths: Sequence[str | Path], *, progress: bool
    ) -> IngestReport:
        """Read files of rows, then sync the other paths; all that changes goes one way."""
        store, given = self.corpus.store, [Path(path) for path in paths]
        skipped: list[SkippedPath] = []
        search = find_files(given, include=self.include, exclude=self.exclude, skipped=skipped)
        found = list(search) if given else []
        self.known = store.files() if given else {}
        self.owners = {one.id: one for one in self.known.values()}
        written = removed = empty = 0
        total = None if rows else len(found)
        with progressing("indexing", total=total, shown=progress) as advance:
            parts = (self.row_batches(file, advance) for file in rows)
            batches = itertools.chain(*parts, self.file_batches(found, advance))
            for batch, count in self.corpus.write_batches(batches):
                written += count
                removed += len(batch.delete)
                empty += batch.empty
                self.unchanged += len(batch.documents) - count
        if not self.keep_missing and given:
            removed += store.remove_files(self.gone(given, found, skipped))
        store.flush()
        failed = (*(one.reason for one in skipped), *self.failed)
        files = len(rows) + len(found)
        return IngestReport(files, written, self.unchanged, removed, empty, failed)

    def row_batches(self, file: str, advance: Callable[[int], object]) -> Iterator[DocumentBatch]:
        """Yield the documents of a file's rows or lines, from where an earlier run stopped."""
        start, name = self.progress(file), Path(file).name if file != "-" else "stdin"
        done = start.lines if start else 0
        rows = _rows(file)
        if done:
            logger.info(f"{file}: resuming after line {done:,}")
            rows = itertools.dropwhile(lambda row: row[0] <= done, rows)
        empty = not done
        while block := list(itertools.islice(rows, BATCH)):
            empty = False
            documents = [self.row_document(file, name, number, row) for number, row in block]
            kept = tuple(
                StoredDocument(one, self.corpus.split(one)).with_digest()
                for one in documents
                if one.text.strip()
            )
            reached = replace(start, lines=block[-1][0]) if start else None
            yield DocumentBatch(kept, len(block) - len(kept), reached)
            advance(len(block))
        if empty:
            raise DataError(f"{file} is empty; expected one text per line. Name another file.")

    def progress(self, file: str) -> Progress | None:
        """How far a file of rows has been read; None for stdin, which cannot be resumed."""
        if file == "-" or not Path(file).is_file():
            return None
        path, columns = Path(file).resolve(), self.columns or RowColumns()
        stat, text = path.stat(), columns.text[0] if columns.text else None
        # As corpora of 0.2 have it.
        named = f"Columns(id={columns.id!r}, text={text!r}, fields={columns.fields!r})"
        fingerprint = f"{stat.st_size} {stat.st_mtime_ns} {named}"
        known = self.corpus.store.progress(str(path))
        if known is not None and known.fingerprint == fingerprint:
            return known
        return Progress(str(path), fingerprint, 0)

    def row_document(self, file: str, name: str, number: int, row: dict[str, Any]) -> Document:
        """Make a document of a row: a column of text, an id, and the other columns as metadata."""
        columns = self.columns or RowColumns()
        first = "text" if "text" in row or len(row) != 1 else next(iter(row))
        text = columns.text[0] if columns.text else first
        named = columns.id or ("id" if "id" in row else None)
        for column in (text, named, *(columns.fields or ())):
            if column is not None and column not in row:
                raise DataError(
                    f"line {number} of {file} has no column {column!r}; it has "
                    f"{show_columns(list(row))}. Name columns with --text, --id and --field."
                )
        rest = [column for column in row if column not in (text, named)]
        kept = rest if columns.fields is None else columns.fields
        id = row[named] if named else f"{name}:{number}"
        words = row[text] if isinstance(row[text], str) else ""
        try:
            id = str(id) if isinstance(id, int | float) else id
            document = Document(id, words, {column: row[column] for column in kept})
            return checked_document(document, number)
        except ValueError as error:
            raise DataError(f"line {number} of {file}: {error}") from error

    def file_batches(
        self, found: Sequence[FoundFile], advance: Callable[[int], object]
    ) -> Iterator[DocumentBatch]:
        """Yield the documents of files that have changed, some hundred passages at a time."""
        pending, size = DocumentBatch(), 0
        for file in found:
            for part in self.changed_batches(file):
                pending = replace(
                    pending,
                    documents=pending.documents + part.documents,
                    delete=pending.delete + part.delete,
                    files=pending.files + part.files,
                )
                size += sum(len(one.passages) for one in part.documents)
                if size >= _PASSAGES:
                    yield pending
                    pending, size = DocumentBatch(), 0
            advance(1)
        if pending != DocumentBatch():
            yield pending

    def changed_batches(self, file: FoundFile) -> Iterator[DocumentBatch]:
        """Yield a file's documents; with the last ones, what is gone and that it is complete."""
        path, store = str(file.path.resolve()), self.corpus.store
        settings = f"{_READING} {self.columns} {_named(self.corpus.splitter)}"
        fingerprint = f"{file.size} {file.modified!r} {settings}"
        known = self.known.get(path)
        before = store.file_documents(path)
        if known is not None and known.fingerprint == fingerprint:
            self.unchanged += len(before)
            return
        if time.time() - file.modified < _SETTLED:
            fingerprint = ""
        entry = SyncedFile(path, str(file.root.resolve()), self.base_id(file, path), fingerprint)
        seen: set[str] = set()
        documents: list[StoredDocument] = []
        size = 0
        try:
            for number, source in enumerate(read_documents(file, columns=self.columns)):
                id = entry.id + source.id.removeprefix(file.id)
                one = self.corpus.split_source(replace(source, id=id), number, path)
                if one is None:
                    continue
                seen.add(one.document.id)
                documents.append(one)
                size += len(one.passages)
                if size >= _PASSAGES:  # known to the next sync, and not complete
                    part = replace(entry, fingerprint="")
                    yield DocumentBatch(tuple(documents), files=(part,))
                    documents, size = [], 0
        except (DocumentError, MissingExtra) as error:
            self.failed.append(str(error))
            logger.warning(str(error))
            # What was read before stays if only the permission is missing, and goes otherwise.
            denied = isinstance(error.__cause__, OSError) or isinstance(error, MissingExtra)
            gone = isinstance(error.__cause__, FileNotFoundError) or not denied
            (self.broken if gone else self.kept).add(path)
            return
        delete = tuple(id for id in before if id not in seen)
        yield DocumentBatch(tuple(documents), delete=delete, files=(entry,))

    def base_id(self, file: FoundFile, path: str) -> str:
        """The id of a file: its path in its root, unless another file has that."""
        if path in self.known:
            return self.known[path].id
        id, number = file.id, 1
        while True:
            owner = self.owners.get(id)
            if owner is not None and not Path(owner.path).exists():
                self.moved.add(owner.root)  # the same file, whose folder has another path now
                break
            if owner is None and not self.corpus.store.digests([id]):
                break
            folder = file.root.resolve().name + (f"-{number}" if number > 1 else "")
            id, number = f"{folder}/{file.id}", number + 1
        self.owners[id] = SyncedFile(path, "", id, "")
        return id

    def gone(
        self, given: Sequence[Path], found: Sequence[FoundFile], skipped: Sequence[SkippedPath]
    ) -> list[str]:
        """The files that were read before, and are not there any more.

        Those of a folder that cannot be looked into stay. With `include`, files that exist and
        were not asked for this time stay too.
        """
        there = {str(file.path.resolve()) for file in found}
        roots = [str(path.resolve()) for path in given]
        closed = [str(one.path.resolve()) for one in skipped]

        def missing(one: SyncedFile) -> bool:
            if one.path in there or one.path in self.kept or _inside(one.path, closed):
                return False
            if one.root in self.moved and not Path(one.path).exists():
                return True
            return _inside(one.path, roots) and not (self.include and Path(one.path).exists())

        return [*self.broken, *(path for path, one in self.known.items() if missing(one))]


def _rows(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if is_table(file):
        yield from read_typed_rows(file)
        return
    for number, line in enumerate(read_lines(file), start=1):
        yield number, {"text": line}


def _inside(path: str, folders: Sequence[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip(os.sep) + os.sep) for one in folders)


def _named(splitter: object) -> str:
    """What tells one splitter from another, with its settings where it is a partial."""
    inner = getattr(splitter, "func", splitter)
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', '')}"
    return f"{name} {getattr(splitter, 'keywords', {})}"
