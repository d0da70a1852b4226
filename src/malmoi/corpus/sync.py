"""Keeping a corpus equal to files and folders: what is new, has changed or is gone.

A file's documents, and the note that it has been read, change in transactions of their own:
after a kill at any moment the next sync completes what the last one began.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..documents import FoundFile, RowColumns, SkippedPath, find_files, read_documents
from ..errors import DocumentError, MissingExtra
from ..io.progress import progressing
from .ingest import DocumentBatch, SplitDocument, Target, write_batches
from .store import Document, SyncedFile, checked_document

logger = logging.getLogger(__name__)

# Passages of one transaction: enough to sort by length and fill batches of the encoder.
_PASSAGES = 512
# Raised when files are read in another way, so that they are read again.
_READING = "1"
# A file may change again within one tick of the file system's clock, without a trace in its time.
_SETTLED = 2.0  # seconds


@dataclass(frozen=True)
class SyncReport:
    """What a sync did, in documents.

    Attributes:
        files: how many were found.
        written: new or changed.
        unchanged: as they were.
        removed: gone, with their files or from them.
        failed: a line for each file or folder that could not be read.
        changed: whether the corpus is another than before.
    """

    files: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was written or removed."""
        return bool(self.written or self.removed)


def sync_files(
    corpus: Target,
    paths: str | Path | Iterable[str | Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    keep_missing: bool = False,
    columns: RowColumns | None = None,
    progress: bool = False,
) -> SyncReport:
    """Make a corpus hold what files and folders hold now; see `Corpus.sync`.

    `columns` says which columns of tables hold what.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    skipped: list[SkippedPath] = []
    found = list(find_files(given, include=include, exclude=exclude, skipped=skipped))
    sync = _Sync(corpus, columns, f"{_READING} {columns} {_named(corpus.splitter)}")
    written = removed = 0
    with progressing("indexing files", total=len(found), shown=progress) as advance:
        for batch, count in write_batches(corpus, sync.batches(found, advance)):
            written += count
            removed += len(batch.delete)
            sync.unchanged += len(batch.documents) - count
    gone = sync.gone(given, found, skipped, only_deleted=bool(include))
    if not keep_missing:
        removed += corpus.store.remove_files(gone)
    corpus.store.flush()
    failed = (*(one.reason for one in skipped), *sync.failed)
    return SyncReport(len(found), written, sync.unchanged, removed, failed)


def watch_files(
    corpus: Target, paths: Sequence[str | Path], *, every: float = 2.0, **options: object
) -> Iterator[SyncReport]:
    """Sync again and again, every few seconds; yields what each change came to."""
    while True:
        report = sync_files(corpus, paths, **options)  # type: ignore[arg-type]
        if report.changed or report.failed:
            yield report
        time.sleep(every)


@dataclass
class _Sync:
    """One sync: which files are known, under which ids, and what has become of them."""

    corpus: Target
    columns: RowColumns | None
    settings: str
    unchanged: int = 0
    failed: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)  # files that could not be read just now
    broken: set[str] = field(default_factory=set)  # files that have nothing to be found any more
    moved: set[str] = field(default_factory=set)  # roots whose files are found elsewhere now

    def __post_init__(self) -> None:
        self.known = self.corpus.store.files()
        self.owners = {one.id: one for one in self.known.values()}

    def batches(
        self, found: Sequence[FoundFile], advance: Callable[[int], object]
    ) -> Iterator[DocumentBatch]:
        """Yield the documents of files that have changed, some hundred passages at a time."""
        pending, size = DocumentBatch([]), 0
        for file in found:
            for part in self.file_batches(file):
                pending = _joined(pending, part)
                size += sum(len(one.passages) for one in part.documents)
                if size >= _PASSAGES:
                    yield pending
                    pending, size = DocumentBatch([]), 0
            advance(1)
        if pending.documents or pending.delete or pending.files:
            yield pending

    def file_batches(self, file: FoundFile) -> Iterator[DocumentBatch]:
        """Yield a file's documents; with the last ones, what is gone and that it is complete."""
        path = str(file.path.resolve())
        fingerprint = f"{file.size} {file.modified!r} {self.settings}"
        known = self.known.get(path)
        if known is not None and known.fingerprint == fingerprint:
            self.unchanged += len(self.corpus.store.file_documents(path))
            return
        if time.time() - file.modified < _SETTLED:
            fingerprint = ""
        root = str(file.root.resolve())
        entry = SyncedFile(path, root, self.base_id(file, path), fingerprint)
        before = self.corpus.store.file_documents(path)
        seen: set[str] = set()
        documents: list[SplitDocument] = []
        size = 0
        try:
            for one in self.documents(file, entry):
                seen.add(one.document.id)
                documents.append(one)
                size += len(one.passages)
                if size >= _PASSAGES:  # known to the next sync, and not complete
                    yield DocumentBatch(documents, files=(replace(entry, fingerprint=""),))
                    documents, size = [], 0
        except (DocumentError, MissingExtra) as error:
            self.failed.append(str(error))
            logger.warning(str(error))
            self._not_read(path, error)
            return
        gone = tuple(id for id in before if id not in seen)
        yield DocumentBatch(documents, delete=gone, files=(entry,))

    def documents(self, file: FoundFile, entry: SyncedFile) -> Iterator[SplitDocument]:
        """Read and split a file's documents; their ids start with that of the file's entry."""
        for number, source in enumerate(read_documents(file, columns=self.columns)):
            id = entry.id + source.id.removeprefix(file.id)
            passages = tuple(self.corpus.splitter(source))
            document = Document(
                id,
                "",
                source.metadata,
                source.title,
                source.source,
                source.type,
                source.modified,
            )
            if passages:
                yield SplitDocument(checked_document(document, number), passages, entry.path)

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
        self,
        given: Sequence[Path],
        found: Sequence[FoundFile],
        skipped: Sequence[SkippedPath],
        *,
        only_deleted: bool,
    ) -> list[str]:
        """The files that were read before, and are not there any more.

        Those of a folder that cannot be looked into stay. With `only_deleted`, files that exist
        and were not asked for this time stay too.
        """
        there = {str(file.path.resolve()) for file in found}
        roots = [str(path.resolve()) for path in given]
        closed = [str(one.path.resolve()) for one in skipped]

        def missing(one: SyncedFile) -> bool:
            if one.path in there:
                return False
            if one.path in self.kept or _inside(one.path, closed):
                return False
            if one.root in self.moved and not Path(one.path).exists():
                return True
            return _inside(one.path, roots) and not (only_deleted and Path(one.path).exists())

        return [*self.broken, *(path for path, one in self.known.items() if missing(one))]

    def _not_read(self, path: str, error: Exception) -> None:
        """What was read before stays where only the permission is missing, and goes otherwise."""
        denied = isinstance(error.__cause__, OSError) or isinstance(error, MissingExtra)
        if denied and not isinstance(error.__cause__, FileNotFoundError):
            self.kept.add(path)
        else:
            self.broken.add(path)


def _joined(one: DocumentBatch, other: DocumentBatch) -> DocumentBatch:
    return replace(
        one,
        documents=[*one.documents, *other.documents],
        delete=one.delete + other.delete,
        files=one.files + other.files,
    )


def _inside(path: str, folders: Sequence[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip(os.sep) + os.sep) for one in folders)


def _named(splitter: object) -> str:
    """What tells one splitter from another, with its settings where it is a partial."""
    inner = getattr(splitter, "func", splitter)
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', '')}"
    return f"{name} {getattr(splitter, 'keywords', {})}"
