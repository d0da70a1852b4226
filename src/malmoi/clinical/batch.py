"""Many notes: files, folders and tables read, linked in several processes, and resumable.

Results are kept in a journal next to the output while a run lasts: one JSON line a note. A run
that was interrupted continues after the last whole line; when all notes are done, the output is
written in its form and the journal is removed.
"""

import datetime
import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, counted
from ..io.files import read_text
from ..io.fingerprint import hash_text
from ..io.many import Journal, in_processes
from ..io.progress import progressing
from ..io.tables import is_table, read_cells, read_numbered_rows
from .output import write_records, write_review
from .reader import NoteReader
from .redact import Redactor

logger = logging.getLogger(__name__)

_IDS = ("id", "note_id", "noteid", "note id", "번호", "문서번호", "기록번호")
_PATIENTS = ("patient", "patient_id", "person_id", "subject_id", "환자번호", "등록번호", "환자id")
_TEXTS = ("text", "note", "note_text", "notetext", "내용", "본문", "기록", "content", "report")
_BLOCK = 8  # notes handed to a process at once
_TEXT_SUFFIXES = (".txt", ".text", ".note", "")


@dataclass(frozen=True)
class NoteText:
    """A note with the name it is known by."""

    id: str
    text: str
    patient: str = ""


@dataclass(frozen=True)
class ReaderSpec:
    """How to open a reader, in this process or in another."""

    lexicon: str
    model: str | None = None
    spelling: bool = False
    tagger: str | None = None
    additions: tuple[str, ...] = ()
    abbreviations: str | None = None
    variants: str | None = None
    synonyms: str | None = None
    tables: str | None = None
    corrections: str | None = None
    threshold: float | None = None
    threads: int | None = None
    k: int = 5
    within: float | None = None

    def open(self) -> NoteReader:
        """Open the lexicon, the model and the tables."""
        from ..encoders import load
        from ..terms import Lexicon, Linker
        from .corrections import Corrections

        lexicon = Lexicon.open(self.lexicon, additions=[Path(one) for one in self.additions])
        linker = Linker(
            lexicon,
            None if self.spelling else load(self.model, threads=self.threads),
            abbreviations=self.abbreviations,
            variants=self.variants,
            synonyms=self.synonyms,
        )
        tagger = None
        if self.tagger is not None:
            from ..heads.tagger import load_tagger

            tagger = load_tagger(self.tagger, threads=self.threads)
        return NoteReader(
            linker,
            tagger=tagger,
            tables=self.tables,
            corrections=Corrections.of_lexicon(lexicon, self.corrections),
            threshold=self.threshold,
        )


def find_notes(
    places: Sequence[str | Path], *, id_column: str | None = None, text_column: str | None = None
) -> Iterator[NoteText]:
    """Give the notes of text files, of the text files of folders, and of tables.

    A table (.jsonl, .csv, .tsv, .xlsx) has a note a row; a text file is a note, named by its path.
    """
    for place in places:  # before a lexicon is opened, which may take a while
        if str(place) != "-" and not Path(place).exists():
            raise DataError(f"there is no file or folder {place}; expected notes. Check the name.")
    return _distinct(_notes(places, id_column, text_column))


def _distinct(notes: Iterator[NoteText]) -> Iterator[NoteText]:
    seen: set[str] = set()
    for note in notes:
        if note.id in seen:
            raise DataError(
                f"two notes have the same name (the second is note {len(seen) + 1}); expected one "
                "name a note. Name another column with --id-column, or rename a file."
            )
        seen.add(note.id)
        yield note


def _notes(
    places: Sequence[str | Path], id_column: str | None, text_column: str | None
) -> Iterator[NoteText]:
    for place in places:
        path = Path(place)
        if path.is_dir():
            files = sorted(one for one in path.rglob("*") if one.is_file())
            files = [one for one in files if one.suffix.lower() in _TEXT_SUFFIXES]
            files = [one for one in files if not one.name.startswith(".")]
            if not files:
                raise DataError(
                    f"{path} has no text file; expected notes as .txt, or a table. Name another."
                )
            for one in files:
                yield NoteText(one.relative_to(path).as_posix(), read_text(one))
        elif path.suffix.lower() in (".xlsx", ".xlsm") or (str(place) != "-" and is_table(path)):
            yield from _table_notes(path, id_column, text_column)
        else:
            yield NoteText("stdin" if str(place) == "-" else path.name, read_text(place))


def _table_notes(path: Path, id_column: str | None, text_column: str | None) -> Iterator[NoteText]:
    rows = _rows(path)
    ids, texts, patients = "", "", ""
    for number, row in rows:
        if not texts:
            texts = _column(row, text_column, _TEXTS, path, "text", "--text-column")
            ids = _column(row, id_column, _IDS, path, "", "--id-column")
            patients = _column(row, None, _PATIENTS, path, "", "")
        text = row.get(texts) or ""
        name = str((ids and row.get(ids)) or f"{path.name}:{number}")
        yield NoteText(name, text, str((patients and row.get(patients)) or ""))


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        cells = read_cells(path)
        header = next(cells, (0, []))[1]
        for number, values in cells:
            yield number, dict(zip(header, values, strict=False))
    else:
        yield from read_numbered_rows(path, null="")


def _column(
    row: Mapping[str, str],
    asked: str | None,
    usual: Sequence[str],
    path: Path,
    needed: str,
    option: str,
) -> str:
    if asked is not None:
        if asked not in row:
            raise DataError(
                f"{path} has no column {asked}; expected it by {option}. Name one that it has."
            )
        return asked
    found = next((name for one in usual for name in row if name.strip().casefold() == one), "")
    if needed and not found:
        raise DataError(
            f"{path} has no column for the {needed} of notes; expected one of "
            f"{', '.join(usual[:4])}. Name it with {option}."
        )
    return found


_reader: NoteReader | None = None
_spec: ReaderSpec | None = None


def _start(spec: ReaderSpec) -> None:
    global _reader, _spec
    logging.getLogger("malmoi").setLevel(logging.WARNING)
    _reader, _spec = spec.open(), spec


def _work(notes: Sequence[NoteText]) -> list[dict[str, Any]]:
    assert _reader is not None and _spec is not None
    return [read_note(_reader, note, k=_spec.k, within=_spec.within) for note in notes]


def read_note(
    reader: NoteReader, note: NoteText, *, k: int = 5, within: float | None = None
) -> dict[str, Any]:
    """Read a note into a record of `output`."""
    scan = reader.scan(note.text, k=k, within=within)
    mentions = [one.to_json() for one in scan.mentions]
    record = {"id": note.id, "text": note.text, "mentions": mentions, "cut": scan.cut}
    return {**record, "patient": note.patient} if note.patient else record


def read_notes(
    notes: Iterable[NoteText], spec: ReaderSpec, *, processes: int = 1
) -> Iterator[dict[str, Any]]:
    """Read notes in order, in this process or in several."""
    if processes == 1:
        reader = spec.open()
        for note in notes:
            yield read_note(reader, note, k=spec.k, within=spec.within)
        return
    spec.open()  # derive what is missing once, before all processes would
    blocks = in_processes(
        notes, _work, processes=processes, block=_BLOCK, start=_start, arguments=(spec,)
    )
    yield from itertools.chain.from_iterable(blocks)


def run_batch(
    notes: Iterable[NoteText],
    spec: ReaderSpec,
    out: Path,
    form: str,
    *,
    processes: int = 1,
    restart: bool = False,
    progress: bool = False,
    review: Path | None = None,
    redact: bool = False,
    **options: str,
) -> tuple[int, int]:
    """Read notes into a file; gives how many were read, and how many had been read before.

    restart  forget what an interrupted run had done
    review   write what a person should decide on into this table
    redact   hide names, numbers, addresses and dates in what is written
    options  those of the form
    """
    key = hash_text(json.dumps([asdict(spec), _lexicon_key(spec)], sort_keys=True, default=str))
    journal = Journal(out, key)
    done = {} if restart else journal.resume()
    if done:
        logger.info(f"continuing after {counted(len(done), 'note')} of an interrupted run")
    known = set(done)
    order: list[str] = []
    every = _remembered(notes, order)
    left = (note for note in every if done.get(note.id) != hash_text(note.text))
    count = 0
    with journal.appending() as append, progressing("notes", total=None, shown=progress) as advance:
        for record in read_notes(left, spec, processes=processes):
            append({"hash": hash_text(record["text"]), **record})
            count += 1
            advance(1)
    if not order:
        journal.remove()
        raise DataError("no note was found; expected some. Name files, a folder or a table.")
    when = datetime.datetime.now(datetime.UTC)
    hidden = redacted if redact else iter
    write_records(out, hidden(journal.in_order(order)), form, when=when, **options)
    if review is not None:
        write_review(review, hidden(journal.in_order(order)))
    journal.remove()
    return count, len(known & set(order))


def redacted(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Hide names, numbers, addresses and dates in texts, words of mentions and patients' ids."""
    redactor = Redactor()
    for record in records:
        text = redactor.redact(record["text"]).text
        mentions = [
            {**one, "mention": text[one["start"] : one["end"]]} for one in record["mentions"]
        ]
        yield {**record, "text": text, "mentions": mentions, "patient": ""}


def _remembered(notes: Iterable[NoteText], order: list[str]) -> Iterator[NoteText]:
    for note in notes:
        order.append(note.id)
        yield note


def _lexicon_key(spec: ReaderSpec) -> str:
    from ..terms import Lexicon

    return Lexicon.open(spec.lexicon).identity
