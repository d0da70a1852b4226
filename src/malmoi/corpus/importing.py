"""Files into a corpus: read, encoded and stored at once, and resumed where it stopped."""

import itertools
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import CutWarning, DataError
from ..files import Tell, read_lines
from ..progress import progressing
from ..tables import is_table, read_typed_rows
from .checks import checked_document
from .corpus import Corpus
from .store import Document, Progress, Stored, Vector

# Enough texts to sort by length and fill batches; few enough to be written in a blink.
BATCH = 2048
_AHEAD = 2


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
class Taken:
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
    cut: bool


def index_files(
    corpus: Corpus,
    files: Sequence[str],
    *,
    columns: Columns | None = None,
    tell: Tell | None = None,
    progress: bool = False,
) -> Taken:
    """Put the documents of files into a corpus; what is there already is not encoded again.

    Every batch is safe once it is written, with the place that was reached in its file: called
    again after a stop, it goes on from there. A file that has changed is read from its start,
    and only what is new or different in it is encoded.
    """
    tell = tell or (lambda message: None)
    taken, cut = Taken(), False
    source = _Source(corpus, columns or Columns(), tell)
    with progressing("indexing", total=None, shown=progress) as advance:
        for ready in _encoded(corpus, source.batches(files)):
            corpus.store.write(ready.stored, progress=ready.batch.progress)
            cut |= ready.cut
            taken = _counted(taken, ready)
            advance(ready.batch.read)
    if cut:
        tell(f"some texts were longer than {corpus.encoder.max_tokens} tokens and were cut")
    corpus.store.settle()
    return taken


def _counted(taken: Taken, ready: _Ready) -> Taken:
    batch = ready.batch
    return replace(
        taken,
        read=taken.read + batch.read,
        written=taken.written + len(ready.stored),
        unchanged=taken.unchanged + len(batch.documents) - len(ready.stored),
        empty=taken.empty + batch.empty,
    )


def _encoded(corpus: Corpus, batches: Iterator[_Batch]) -> Iterator[_Ready]:
    """Encode the next batches in a thread of its own while one is being written."""
    waiting: deque[Future[_Ready]] = deque()
    flying = _Flying(corpus)
    with ThreadPoolExecutor(1, thread_name_prefix="malmoi-encode") as pool:
        try:
            for batch in batches:
                waiting.append(pool.submit(flying.encode, batch))
                if len(waiting) >= _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _Flying:
    """Encodes batches; remembers the last ones, which may not have been written yet."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._recent: deque[dict[str, Vector]] = deque(maxlen=_AHEAD + 1)

    def encode(self, batch: _Batch) -> _Ready:
        known = self._corpus.store.get([document.id for document in batch.documents])
        new = [one for one in batch.documents if known.get(one.id) != one]
        made = {text: vector for recent in self._recent for text, vector in recent.items()}
        texts = list(dict.fromkeys(one.text for one in new if one.text not in made))
        # Warnings of a batch would come by the thousand; one line at the end says as much.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CutWarning)
            encoded = dict(zip(texts, self._corpus.stored_vectors(texts), strict=True))
        self._recent.append(encoded)
        made |= encoded
        stored = [Stored(one, made[one.text]) for one in new]
        return _Ready(batch, stored, any(one.category is CutWarning for one in caught))


class _Source:
    """The documents of files, in batches, from where an earlier run stopped."""

    def __init__(self, corpus: Corpus, columns: Columns, tell: Tell) -> None:
        self._corpus, self._columns, self._tell = corpus, columns, tell

    def batches(self, files: Sequence[str]) -> Iterator[_Batch]:
        """Yield the batches of one file after the other."""
        for file in files:
            yield from self._of(file)

    def _of(self, file: str) -> Iterator[_Batch]:
        here = self._begun(file)
        done = here.lines if here else 0
        rows = iter(self._rows(file))
        skipped = False
        if done:
            self._tell(f"{file}: going on after line {done:,}")
            rows = itertools.dropwhile(lambda row: row[0] <= done, rows)
            skipped = True
        count = 0
        while block := list(itertools.islice(rows, BATCH)):
            count += len(block)
            documents = [self._document(file, number, row) for number, row in block]
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
            yield from read_typed_rows(file, tell=self._tell)
            return
        for number, line in enumerate(read_lines(file, tell=self._tell), start=1):
            yield number, {"text": line}

    def _document(self, file: str, number: int, row: dict[str, Any]) -> Document:
        columns = self._columns
        text = columns.text or ("text" if "text" in row or len(row) != 1 else next(iter(row)))
        named = columns.id or ("id" if "id" in row else None)
        for name in (text, named, *(columns.fields or ())):
            if name is not None and name not in row:
                raise DataError(
                    f"line {number} of {file} has no column {name!r}; it has {', '.join(row)}. "
                    "Name columns with --text, --id and --field."
                )
        rest = [name for name in row if name not in (text, named)]
        fields = {name: row[name] for name in (rest if columns.fields is None else columns.fields)}
        id = row[named] if named else f"{Path(file).name if file != '-' else 'stdin'}:{number}"
        words = row[text] if isinstance(row[text], str) else ""
        try:
            return checked_document(Document(_as_id(id), words, fields), number)
        except ValueError as error:
            raise DataError(f"line {number} of {file}: {error}") from error


def _as_id(id: Any) -> Any:
    return str(id) if isinstance(id, int | float) else id
