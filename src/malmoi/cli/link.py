"""`malmoi link`: mentions, or the mentions of a note, to the codes of a lexicon."""

import contextlib
import queue
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter

from ..clinical.batch import NoteText, ReaderSpec, find_notes, read_notes, run_batch
from ..clinical.corrections import Corrections
from ..clinical.output import ICD10, form_of, mention_rows, parts
from ..clinical.reader import NoteMention, NoteReader, to_html
from ..encoders import load
from ..errors import DataError, counted
from ..io.files import check_text, opening, read_lines, sniff
from ..terms import Lexicon, Linker, calibrate
from ..terms.linker import UNCALIBRATED, load_threshold, save_threshold
from ..terms.name_index import identity
from .options import ModelOption, Threads, arg, opt, seconds
from .output import Format, Row, print_rows, prints_rows, say, watched

_BLOCK = 1024


@prints_rows
def link(
    lexicon: Annotated[str, arg("A lexicon's folder, or sample.")],
    mentions: Annotated[list[str] | None, arg("Mentions; - reads one per line from stdin.")] = None,
    note: Annotated[
        str | None, opt("Find and link the mentions of this text file (- is stdin).")
    ] = None,
    notes: Annotated[
        list[str] | None,
        opt("Read many notes: text files, folders, or tables with id and text; files may follow."),
    ] = None,
    out: Annotated[
        Path | None, opt("notes: write to this file; an interrupted run continues.")
    ] = None,
    as_form: Annotated[
        str | None,
        opt("notes: jsonl, mentions, csv, xlsx, fhir, omop or html; by --out if not.", "--format"),
    ] = None,
    processes: Annotated[int, opt("notes: processes to read with.", min=1)] = 1,
    restart: Annotated[bool, opt("notes: forget an interrupted run.", "--restart")] = False,
    id_column: Annotated[str | None, opt("notes: the column of a table that names notes.")] = None,
    text_column: Annotated[str | None, opt("notes: the column of a table with their text.")] = None,
    patient: Annotated[str, opt("fhir: the patient's id.")] = "",
    system: Annotated[str, opt("fhir: the code system's URI.")] = ICD10,
    tables: Annotated[
        Path | None, opt("note: a folder with tables of your own, as cues.tsv.")
    ] = None,
    corrections: Annotated[
        Path | None, opt("note: a table of decisions, beside the lexicon's own.")
    ] = None,
    threshold: Annotated[
        float | None, opt("note: mark mentions below this score as uncertain.", min=0, max=1)
    ] = None,
    k: Annotated[int, opt("Candidates a mention.", "--k", "-k", min=1)] = 5,
    nil: Annotated[
        bool, opt("Say which mentions have no concept in the lexicon.", "--nil")
    ] = False,
    calibrate_on: Annotated[
        Path | None, opt("Choose the score below which it is NIL on this file.", "--calibrate")
    ] = None,
    spelling: Annotated[
        bool, opt("Match by spelling alone, without a model.", "--spelling")
    ] = False,
    tagger: Annotated[
        str | None, opt("note: a tagger that finds mentions beside the lexicon.")
    ] = None,
    within: Annotated[
        str | None, opt("note: Time limit, e.g. 2s; the rest of the note is skipped.")
    ] = None,
    html: Annotated[bool, opt("note: print a page, mentions marked.", "--html")] = False,
    add: Annotated[list[Path] | None, opt("A table of names of your own; may be repeated.")] = None,
    abbreviations: Annotated[
        Path | None, opt("A table of abbreviations beside the shipped one.")
    ] = None,
    variants: Annotated[Path | None, opt("A table of wordings instead of the shipped one.")] = None,
    synonyms: Annotated[
        Path | None, opt("A table of lay names instead of the shipped one.")
    ] = None,
    rebuild: Annotated[
        bool, opt("Index the lexicon again, for another model.", "--rebuild")
    ] = False,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Print the likeliest codes for each mention, with the names that speak for them and why."""
    # long because every option has a line of its own
    if mentions and note is not None:
        raise BadParameter("give mentions or --note FILE, not both")
    if not mentions and note is None and not notes and calibrate_on is None and not rebuild:
        raise BadParameter("give mentions, - for stdin, or --note FILE")
    if notes:
        if note is not None:
            raise BadParameter("give --note FILE or --notes FILES, not both")
        spec = ReaderSpec(
            lexicon,
            model=model,
            spelling=spelling,
            tagger=tagger,
            additions=tuple(map(str, add or ())),
            abbreviations=_text(abbreviations),
            variants=_text(variants),
            synonyms=_text(synonyms),
            tables=_text(tables),
            corrections=_text(corrections),
            threshold=threshold,
            threads=threads,
            k=k,
            within=seconds(within),
        )
        places = [*notes, *(mentions or ())]
        _notes(
            find_notes(places, id_column=id_column, text_column=text_column),
            spec, out, as_form or ("html" if html else None), processes, restart,
            {"system": system, "patient": patient}, form,
        )  # fmt: skip
        return
    linker = Linker(
        Lexicon.open(lexicon, additions=add or ()),
        None if spelling else load(model, threads=threads),
        abbreviations=abbreviations,
        variants=variants,
        synonyms=synonyms,
        rebuild=rebuild,
        progress=watched(),
    )
    if calibrate_on is not None:
        _calibrate(linker, calibrate_on)
    if note is not None:
        opened = None
        if tagger is not None:
            from ..heads.tagger import load_tagger  # here, because most links need none

            opened = load_tagger(tagger, threads=threads)
        reader = NoteReader(
            linker,
            tagger=opened,
            tables=tables,
            corrections=Corrections.of_lexicon(linker.lexicon, corrections),
            threshold=threshold,
        )
        _note(reader, note, k, seconds(within), html, form)
    elif mentions:
        threshold = _threshold(linker) if nil else None
        print_rows(_rows(linker, _texts(mentions), k, threshold, form), form)


def _texts(mentions: list[str]) -> Iterator[str]:
    for mention in mentions:
        if mention == "-":
            yield from read_lines("-")
        else:
            yield mention


def _rows(
    linker: Linker, texts: Iterator[str], k: int, threshold: float | None, form: Format
) -> Iterator[Row]:
    for block in _blocks(texts):
        for linked in linker.link(block, k=k):
            nil = {} if threshold is None else {"nil": linked.is_nil(threshold)}
            if form is Format.JSON:
                yield linked.to_json() | nil
                continue
            for rank, candidate in enumerate(linked.candidates, start=1):
                row: dict[str, Any] = {"mention": linked.mention, "rank": rank}
                names = " / ".join(candidate.names)
                yield {**row, **candidate.to_json(), "names": names, **nil}
        sys.stdout.flush()


def _blocks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Yield the lines that are there, up to a block: a single line is answered at once."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(4 * _BLOCK)
    threading.Thread(target=_fill, args=(waiting, texts), daemon=True).start()
    while True:
        found = [waiting.get()]
        with contextlib.suppress(queue.Empty):
            while len(found) < _BLOCK and isinstance(found[-1], str):
                found.append(waiting.get_nowait())
        if block := [text for text in found if isinstance(text, str)]:
            yield block
        if isinstance(found[-1], BaseException):
            raise found[-1]
        if found[-1] is None:
            return


def _fill(waiting: "queue.Queue[str | BaseException | None]", texts: Iterator[str]) -> None:
    try:
        for text in texts:
            waiting.put(text)
    except BaseException as error:  # raised again in the main thread
        waiting.put(error)
    else:
        waiting.put(None)


def _threshold(linker: Linker) -> float:
    found = load_threshold(linker.lexicon.folder, model=_model(linker))
    if found is None:
        say(
            f"the lexicon is not calibrated for this model; NIL is a score below {UNCALIBRATED}. "
            "Calibrate with: --calibrate DEV"
        )
        return UNCALIBRATED
    return found.score


def _model(linker: Linker) -> str:
    return identity(linker.encoder) if linker.encoder is not None else "spelling"


def _calibrate(linker: Linker, path: Path) -> None:
    from ..evaluate.tasks.linking import judge, read_cases

    cases = read_cases(path).rows
    judged = judge(linker, cases)
    found = calibrate(
        [one.linked for one in judged], [one.rank == 1 for one in judged], model=_model(linker)
    )
    if linker.lexicon.folder is None:
        raise DataError("this lexicon is in memory only; expected a folder. Build one first.")
    save_threshold(found, linker.lexicon.folder)
    say(
        f"NIL is a score below {found.score}: it decides {found.accuracy:.1%} of "
        f"{counted(found.mentions, 'mention')} rightly and answers {found.answered:.1%}"
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _notes(
    notes: Iterator[NoteText],
    spec: ReaderSpec,
    out: Path | None,
    as_form: str | None,
    processes: int,
    restart: bool,
    options: dict[str, str],
    form: Format,
) -> None:
    """Read many notes to a file, or to stdout as they come."""
    chosen = form_of(out, as_form)
    fhir = options if chosen == "fhir" else {}
    if out is None:
        if chosen == "xlsx":
            raise BadParameter("--format xlsx needs a file: name it with --out")
        records = read_notes(notes, spec, processes=processes)
        if form is not Format.JSON:
            print_rows(mention_rows(records), form)
            return
        for part in parts(records, chosen, when=datetime.now(UTC), **fhir):
            sys.stdout.write(part)
        return
    read, before = run_batch(
        notes,
        spec,
        out,
        chosen,
        processes=processes,
        restart=restart,
        progress=watched(),
        **fhir,
    )
    also = f", {before:,} had been read before" if before else ""
    say(f"wrote {out}: {counted(read, 'note')} read{also}")


def _note(
    reader: NoteReader, path: str, k: int, within: float | None, html: bool, form: Format
) -> None:
    with opening(path) as file:  # line ends as they are, so that offsets fit the file's text
        raw = file.read()
    check_text(raw, path)
    encoding, mark = sniff(raw)
    text = raw[mark:].decode(encoding, "replace")
    scan = reader.scan(text, k=k, within=within)
    found = scan.mentions
    if scan.cut is not None:
        say(
            f"the note was read up to character {scan.cut:,} of {len(text):,}: there was no time "
            "for more. Allow more with: --within"
        )
    if html:
        sys.stdout.write(to_html(text, found, title=Path(path).name))
        return
    to_row = NoteMention.to_json if form is Format.JSON else _flat
    print_rows(map(to_row, found), form)


def _flat(mention: NoteMention) -> dict[str, Any]:
    best = mention.linked.candidates[0]  # a mention of a note always has one
    return {
        "start": mention.start,
        "end": mention.end,
        "mention": mention.text,
        "said": " ".join(mention.attributes),
        "status": mention.status,
        "experiencer": mention.experiencer,
        "code": best.code,
        "score": best.score,
        "ko": best.ko or "",
        "en": best.en or "",
        "why": best.why,
    }
