"""Filling a corpus: from files, resumed where an earlier run stopped, or from another corpus.

One batch is written while the next ones are encoded, so that neither cores nor disk wait.
"""

import contextlib
import itertools
import logging
import warnings
from collections import ChainMap, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CorpusError, CutWarning, DataError, counted
from ..io.files import read_lines
from ..io.progress import progressing
from ..io.tables import is_table, read_typed_rows, show_columns
from .corpus import Corpus, checked_document, open_store
from .store import Document, Progress, Stored, Vector

logger = logging.getLogger(__name__)

# Enough texts to sort by length and fill batches; few enough to be written quickly.
BATCH = 2048
# While one batch is written, one is being encoded and the next is waiting for the cores.
_AHEAD = 2
_COPIED = 1000  # documents in one write of a copy
_NO_VECTOR = np.empty(0)  # stands for a vector that is being made


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


@dataclass(frozen=True)
class _FileBatch:
    """Documents of a file, and the progress to store with them."""

    documents: list[Document]
    read: int
    empty: int
    progress: Progress | None


def index_files(
    corpus: Corpus, files: Sequence[str], *, columns: Columns | None = None, progress: bool = False
) -> IngestReport:
    """Write the documents of files to a corpus; unchanged documents are not encoded again.

    Each batch is stored together with the line that was reached in its file: after a stop, the
    next call resumes there. A file that has changed is read from its start, and only new or
    changed documents are encoded.
    """
    report = IngestReport()
    source = _Source(corpus, columns or Columns())
    batches = itertools.chain.from_iterable(map(source.batches, files))
    shown = progressing("indexing", total=None, shown=progress)
    with shown as advance, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CutWarning)
        for batch, stored in _encoded(corpus, batches):
            corpus.store.write(stored, progress=batch.progress)
            report = IngestReport(
                report.read + batch.read,
                report.written + len(stored),
                report.unchanged + len(batch.documents) - len(stored),
                report.empty + batch.empty,
            )
            advance(batch.read)
    others = [one for one in caught if one.category is not CutWarning]
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if len(caught) > len(others):  # one message instead of one for each batch
        logger.warning(
            f"some texts were longer than {corpus.encoder.max_tokens} tokens and were cut"
        )
    corpus.store.flush()
    return report


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
    corpus: Corpus, batches: Iterator[_FileBatch]
) -> Iterator[tuple[_FileBatch, list[Stored]]]:
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
    """A batch whose new texts are being encoded.

    The batches before it are not in the corpus yet: what they will write counts as stored, and
    their texts are not encoded again.
    """

    new: dict[str, Document]
    vectors: dict[str, Vector]

    def __init__(
        self,
        corpus: Corpus,
        batch: _FileBatch,
        pool: ThreadPoolExecutor,
        before: Sequence["_PendingBatch"],
    ) -> None:
        self._batch = batch
        self._before = [pending.vectors for pending in before]
        last = {one.id: one for one in batch.documents}
        stored = corpus.store.get(list(last))
        for pending in before:
            stored |= pending.new
        self.new = {id: one for id, one in last.items() if stored.get(id) != one}
        encoding = set[str]().union(*self._before)
        wanted = {one.text for one in self.new.values() if one.text not in encoding}
        self._known = corpus.store.vectors_for(list(wanted))
        self.vectors = {
            one.text: _NO_VECTOR
            for one in self.new.values()
            if one.text in wanted and one.text not in self._known
        }
        self.encoding = pool.submit(corpus.new_vectors, list(self.vectors))
        corpus.store.prefetch([one.text for one in self.new.values()])

    def result(self) -> tuple[_FileBatch, list[Stored]]:
        """Wait for the vectors; those of the batches before are complete already."""
        self.vectors.update(zip(self.vectors, self.encoding.result(), strict=True))
        found = ChainMap(self.vectors, self._known, *self._before)
        return self._batch, [Stored(one, found[one.text]) for one in self.new.values()]


class _Source:
    """The documents of files, in batches, from where an earlier run stopped."""

    def __init__(self, corpus: Corpus, columns: Columns) -> None:
        self._corpus, self._columns = corpus, columns

    def batches(self, file: str) -> Iterator[_FileBatch]:
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
            kept = [one for one in documents if one.text.strip()]
            reached = replace(start, lines=block[-1][0]) if start else None
            yield _FileBatch(kept, len(block), len(block) - len(kept), reached)
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
