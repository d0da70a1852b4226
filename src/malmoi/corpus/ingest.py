"""Filling a corpus: from lines and rows, resumed where an earlier run stopped, or from another.

One batch is written while the next ones are encoded, so that neither cores nor disk wait.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import warnings
from collections import ChainMap, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..documents import Passage, Splitter
from ..encoders import TextEncoder
from ..errors import CorpusError, CutWarning, DataError, counted
from ..io.files import read_lines
from ..io.progress import progressing
from ..io.tables import is_table, read_typed_rows, show_columns
from .sqlite import open_store
from .store import (
    Document,
    EncodedPassage,
    Progress,
    Store,
    Stored,
    SyncedFile,
    Vector,
    checked_document,
    passage_digest,
    searched_text,
)

logger = logging.getLogger(__name__)

# Enough texts to sort by length and fill batches; few enough to be written quickly.
BATCH = 2048
# While one batch is written, one is being encoded and the next is waiting for the cores.
_AHEAD = 2
_COPIED = 1000  # documents in one write of a copy
_NO_VECTORS = np.empty(0)  # stand for those that are being made


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what; plain files have one text a line and no columns.

    Attributes:
        id: by default the column "id", or without one the file's name and the line's number.
        text: by default the column "text", or the only column.
        fields: the columns to keep as metadata; by default all others.
    """

    id: str | None = None
    text: str | None = None
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class IngestReport:
    """How many documents were read, written, unchanged, or left out as empty."""

    read: int = 0
    written: int = 0
    unchanged: int = 0
    empty: int = 0


class Target(Protocol):
    """What is filled: a corpus."""

    @property
    def store(self) -> Store:
        """Where documents are written."""
        ...

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of the passages."""
        ...

    @property
    def splitter(self) -> Splitter:
        """Makes passages of a file's document."""
        ...

    def split(self, document: Document) -> tuple[Passage, ...]:
        """Split a document's text into passages."""
        ...

    def encode_passages(self, passages: Sequence[tuple[str, Passage]]) -> list[Vector]:
        """Give the vectors (n, width) of passages with their titles."""
        ...


@dataclass(frozen=True)
class SplitDocument:
    """A document with its passages, and the file that it is from."""

    document: Document
    passages: tuple[Passage, ...]
    file: str = ""

    @cached_property
    def digest(self) -> str:
        """A hash of all that is stored of it."""
        one = self.document
        parts = [one.id, one.title, one.source, one.type, self.file]
        parts += [json.dumps(one.metadata, sort_keys=True), "" if self.file else one.text]
        parts += map(repr, self.passages)
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


@dataclass(frozen=True)
class DocumentBatch:
    """Documents to be written in one transaction, with what is stored together with them.

    Attributes:
        documents: those that have not changed are left out when the batch is written.
        read: how many rows or documents were read for it.
        empty: how many of them had no text.
        progress: how far a file has been read.
        delete: documents that are gone.
        files: that are complete with this batch.
    """

    documents: list[SplitDocument]
    read: int = 0
    empty: int = 0
    progress: Progress | None = None
    delete: tuple[str, ...] = ()
    files: tuple[SyncedFile, ...] = ()


def index_files(
    corpus: Target, files: Sequence[str], *, columns: Columns | None = None, progress: bool = False
) -> IngestReport:
    """Write the lines or rows of files to a corpus, a document each.

    Each batch is stored together with the line that was reached in its file: after a stop, the
    next call resumes there. A file that has changed is read from its start, and only new or
    changed documents are encoded. `Corpus.sync` reads files of other forms, as a whole.
    """
    report = IngestReport()
    source = _Source(corpus, columns or Columns())
    batches = itertools.chain.from_iterable(map(source.batches, files))
    with progressing("indexing", total=None, shown=progress) as advance:
        for batch, written in write_batches(corpus, batches):
            report = IngestReport(
                report.read + batch.read,
                report.written + written,
                report.unchanged + len(batch.documents) - written,
                report.empty + batch.empty,
            )
            advance(batch.read)
    corpus.store.flush()
    return report


def write_batches(
    corpus: Target, batches: Iterator[DocumentBatch]
) -> Iterator[tuple[DocumentBatch, int]]:
    """Encode and write batches; yields each with the number of documents that had changed.

    Texts that were longer than the model reads are reported once, at the end.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CutWarning)
        for batch, stored in _encoded(corpus, batches):
            corpus.store.write(
                stored, progress=batch.progress, delete=batch.delete, files=batch.files
            )
            yield batch, len(stored)
    others = [one for one in caught if one.category is not CutWarning]
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if len(caught) > len(others):  # one message instead of one for each batch
        logger.warning(
            f"some texts were longer than {corpus.encoder.max_tokens} tokens and were cut"
        )


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


def _encoded(
    corpus: Target, batches: Iterator[DocumentBatch]
) -> Iterator[tuple[DocumentBatch, list[Stored]]]:
    """Keep batches being encoded while one is written, so that no core waits for the disk."""
    waiting: deque[_PendingBatch] = deque()
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="malmoi-encode") as pool:
        try:
            for batch in batches:
                waiting.append(_PendingBatch(corpus, batch, pool, list(waiting)))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for pending in waiting:
                pending.encoding.cancel()


class _PendingBatch:
    """A batch whose new passages are being encoded.

    The batches before it are not in the corpus yet: what they will write counts as stored, and
    their passages are not encoded again.
    """

    new: dict[str, SplitDocument]
    vectors: dict[bytes, Vector]

    def __init__(
        self,
        corpus: Target,
        batch: DocumentBatch,
        pool: ThreadPoolExecutor,
        before: Sequence["_PendingBatch"],
    ) -> None:
        self._batch = batch
        self._before = [pending.vectors for pending in before]
        last = {one.document.id: one for one in batch.documents}
        stored = corpus.store.digests(list(last))
        for pending in before:
            stored |= {id: one.digest for id, one in pending.new.items()}
        self.new = {id: one for id, one in last.items() if stored.get(id) != one.digest}
        passages = {
            passage_digest(one.document.title, passage): (one.document.title, passage)
            for one in self.new.values()
            for passage in one.passages
        }
        encoding = set[bytes]().union(*self._before)
        wanted = [digest for digest in passages if digest not in encoding]
        self._known = corpus.store.vectors_for(wanted)
        new = [digest for digest in wanted if digest not in self._known]
        self.vectors = dict.fromkeys(new, _NO_VECTORS)
        self.encoding = pool.submit(corpus.encode_passages, [passages[one] for one in new])
        corpus.store.prefetch([searched_text(*pair) for pair in passages.values()])

    def result(self) -> tuple[DocumentBatch, list[Stored]]:
        """Wait for the vectors; those of the batches before are complete already."""
        self.vectors.update(zip(self.vectors, self.encoding.result(), strict=True))
        found = ChainMap(self.vectors, self._known, *self._before)
        return self._batch, [
            Stored(
                one.document,
                tuple(
                    EncodedPassage(passage, found[passage_digest(one.document.title, passage)])
                    for passage in one.passages
                ),
                one.file,
                one.digest,
            )
            for one in self.new.values()
        ]


class _Source:
    """The documents of files, in batches, from where an earlier run stopped."""

    def __init__(self, corpus: Target, columns: Columns) -> None:
        self._corpus, self._columns = corpus, columns

    def batches(self, file: str) -> Iterator[DocumentBatch]:
        """Yield the batches of a file."""
        start, name = self._progress(file), Path(file).name if file != "-" else "stdin"
        done = start.lines if start else 0
        rows = iter(self._rows(file))
        if done:
            logger.info(f"{file}: resuming after line {done:,}")
            rows = itertools.dropwhile(lambda row: row[0] <= done, rows)
        empty = not done
        while block := list(itertools.islice(rows, BATCH)):
            empty = False
            documents = [self._document(file, name, number, row) for number, row in block]
            kept = [
                SplitDocument(one, self._corpus.split(one)) for one in documents if one.text.strip()
            ]
            reached = replace(start, lines=block[-1][0]) if start else None
            yield DocumentBatch(kept, len(block), len(block) - len(kept), reached)
        if empty:
            raise DataError(f"{file} is empty; expected one text a line. Name another file.")

    def _progress(self, file: str) -> Progress | None:
        """How far this file has been read in; None for stdin, which cannot be resumed."""
        if file == "-" or not Path(file).is_file():
            return None
        path = Path(file).resolve()
        stat = path.stat()
        fingerprint = f"{stat.st_size} {stat.st_mtime_ns} {self._columns}"
        known = self._corpus.store.progress(str(path))
        if known is not None and known.fingerprint == fingerprint:
            return known
        return Progress(str(path), fingerprint, 0)

    def _rows(self, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
        if is_table(file):
            yield from read_typed_rows(file)
            return
        for number, line in enumerate(read_lines(file), start=1):
            yield number, {"text": line}

    def _document(self, file: str, name: str, number: int, row: dict[str, Any]) -> Document:
        columns = self._columns
        text = columns.text or ("text" if "text" in row or len(row) != 1 else next(iter(row)))
        named = columns.id or ("id" if "id" in row else None)
        for column in (text, named, *(columns.fields or ())):
            if column is not None and column not in row:
                raise DataError(
                    f"line {number} of {file} has no column {column!r}; it has "
                    f"{show_columns(list(row))}. Name columns with --text, --id and --field."
                )
        rest = [column for column in row if column not in (text, named)]
        kept = rest if columns.fields is None else columns.fields
        fields = {column: row[column] for column in kept}
        id = row[named] if named else f"{name}:{number}"
        words = row[text] if isinstance(row[text], str) else ""
        try:
            id = str(id) if isinstance(id, int | float) else id
            return checked_document(Document(id, words, fields), number)
        except ValueError as error:
            raise DataError(f"line {number} of {file}: {error}") from error
