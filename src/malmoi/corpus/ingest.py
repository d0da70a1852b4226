"""Files into a corpus: read, encoded and stored at once, and resumed where it stopped."""

import contextlib
import itertools
import logging
import warnings
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..errors import CutWarning, DataError
from ..io.files import read_lines
from ..io.progress import progressing
from ..io.tables import is_table, read_typed_rows, show_columns
from .corpus import Corpus, checked_document
from .store import Document, Progress, Stored, Vector

logger = logging.getLogger(__name__)

# Enough texts to sort by length and fill batches; few enough to be written in a blink.
BATCH = 2048
# While one batch is written, one is being encoded and the next is already waiting for the cores.
_AHEAD = 2
_PENDING = np.empty(0)  # in the place of a vector that is being made


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what; plain files have one text a line and no columns.

    Without a name, `id` is the column "id" if there is one and otherwise the file's name and the
    line's number; `text` is the column "text", or the only one; `fields` are all others.
    """

    id: str | None = None
    text: str | None = None
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class IngestReport:
    """What became of the documents of some files."""

    read: int = 0
    written: int = 0
    unchanged: int = 0
    empty: int = 0


@dataclass(frozen=True)
class _Batch:
    """Documents to write, and how far the file has been read when they are."""

    documents: list[Document]
    read: int
    empty: int
    progress: Progress | None


@dataclass(frozen=True)
class _Ready:
    batch: _Batch
    stored: list[Stored]


def index_files(
    corpus: Corpus, files: Sequence[str], *, columns: Columns | None = None, progress: bool = False
) -> IngestReport:
    """Put the documents of files into a corpus; what is there already is not encoded again.

    Every batch is safe once it is written, with the place that was reached in its file: called
    again after a stop, it goes on from there. A file that has changed is read from its start,
    and only what is new or different in it is encoded.
    """
    taken = IngestReport()
    source = _Source(corpus, columns or Columns())
    shown = progressing("indexing", total=None, shown=progress)
    with shown as advance, _hearing_of_cuts() as were_cut:
        for ready in _encoded(corpus, source.batches(files)):
            corpus.store.write(ready.stored, progress=ready.batch.progress)
            taken = _counted(taken, ready)
            advance(ready.batch.read)
    if were_cut():
        logger.warning(
            f"some texts were longer than {corpus.encoder.max_tokens} tokens and were cut"
        )
    corpus.store.settle()
    return taken


def _counted(taken: IngestReport, ready: _Ready) -> IngestReport:
    batch = ready.batch
    return replace(
        taken,
        read=taken.read + batch.read,
        written=taken.written + len(ready.stored),
        unchanged=taken.unchanged + len(batch.documents) - len(ready.stored),
        empty=taken.empty + batch.empty,
    )


def _encoded(corpus: Corpus, batches: Iterator[_Batch]) -> Iterator[_Ready]:
    """Keep batches being encoded while one is written, so that no core waits for the disk."""
    waiting: deque[_Flight] = deque()
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="malmoi-encode") as pool:
        try:
            for batch in batches:
                waiting.append(_Flight(corpus, batch, pool, waiting))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().ready()
            while waiting:
                yield waiting.popleft().ready()
        finally:
            for flight in waiting:
                flight.made.cancel()


class _Flight:
    """A batch on its way: what is new in it is being encoded."""

    new: dict[str, Document]
    vectors: dict[str, Vector]

    def __init__(
        self,
        corpus: Corpus,
        batch: _Batch,
        pool: ThreadPoolExecutor,
        before: Iterable["_Flight"],
    ) -> None:
        # Batches before this one are not in the corpus yet: what they will write counts as there,
        # and their texts are not encoded again.
        before = list(before)
        self._before = [flight.vectors for flight in before]
        last = {one.id: one for one in batch.documents}
        there = corpus.store.get(list(last))
        for flight in before:
            there |= flight.new
        self._batch = batch
        self.new = {id: one for id, one in last.items() if there.get(id) != one}
        flying = set[str]().union(*self._before)
        wanted = {one.text: _PENDING for one in self.new.values() if one.text not in flying}
        self._known = corpus.store.vectors_for(list(wanted))
        self.vectors = {text: wanted[text] for text in wanted if text not in self._known}
        self.made = pool.submit(corpus.new_vectors, list(self.vectors))
        corpus.store.foresee([one.text for one in self.new.values()])

    def ready(self) -> _Ready:
        """Wait for the vectors; those of the batches before are there already."""
        self.vectors.update(zip(self.vectors, self.made.result(), strict=True))
        found = ChainMap(self.vectors, self._known, *self._before)
        return _Ready(self._batch, [Stored(one, found[one.text]) for one in self.new.values()])


@contextlib.contextmanager
def _hearing_of_cuts() -> Iterator[Callable[[], bool]]:
    """Tell whether texts were cut; warnings of each batch would come by the thousand."""
    heard = False
    with warnings.catch_warnings():
        warnings.simplefilter("always", CutWarning)
        show = warnings.showwarning

        def hear(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            nonlocal heard
            if category is CutWarning:
                heard = True
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = hear
        yield lambda: heard


class _Source:
    """The documents of files, in batches, from where an earlier run stopped."""

    def __init__(self, corpus: Corpus, columns: Columns) -> None:
        self._corpus, self._columns = corpus, columns

    def batches(self, files: Sequence[str]) -> Iterator[_Batch]:
        """Yield the batches of one file after the other."""
        for file in files:
            yield from self._of(file)

    def _of(self, file: str) -> Iterator[_Batch]:
        here, name = self._begun(file), Path(file).name if file != "-" else "stdin"
        done = here.lines if here else 0
        rows = iter(self._rows(file))
        skipped = False
        if done:
            logger.info(f"{file}: going on after line {done:,}")
            rows = itertools.dropwhile(lambda row: row[0] <= done, rows)
            skipped = True
        count = 0
        while block := list(itertools.islice(rows, BATCH)):
            count += len(block)
            documents = [self._document(file, name, number, row) for number, row in block]
            kept = [one for one in documents if one.text.strip()]
            reached = replace(here, lines=block[-1][0]) if here else None
            yield _Batch(kept, len(block), len(block) - len(kept), reached)
        if not count and not skipped:
            raise DataError(f"{file} is empty; expected one text a line. Name another file.")

    def _begun(self, file: str) -> Progress | None:
        """How far this very file has been taken in; None for stdin, which cannot be resumed."""
        if file == "-" or not Path(file).is_file():
            return None
        path = Path(file).resolve()
        about = path.stat()
        fingerprint = f"{about.st_size} {about.st_mtime_ns} {self._columns}"
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
            return checked_document(Document(_as_id(id), words, fields), number)
        except ValueError as error:
            raise DataError(f"line {number} of {file}: {error}") from error


def _as_id(id: Any) -> Any:
    return str(id) if isinstance(id, int | float) else id
