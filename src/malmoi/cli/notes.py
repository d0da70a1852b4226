"""`malmoi notes`: clinical notes into codes with their context, or without their identifiers."""

import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter

from ..clinical.batch import NoteText, ReaderSpec, find_notes, read_notes, redacted, run_batch
from ..clinical.corrections import EXPERIENCERS, STATUSES
from ..clinical.find import CodeQuery, find_mentions, read_records
from ..clinical.output import form_of, mention_rows, parts
from ..clinical.redact import Redactor, check_recall
from ..clinical.standards import KCD
from ..errors import DataError, OutputError, counted
from ..io.files import writing
from ..terms import Lexicon
from ..terms.segment import find_lexicon
from .display import shorten, style
from .display import table as layout
from .link import Abbreviations, Add, LexiconName, Spelling, Synonyms, Variants
from .options import Csv, Json, ModelOption, Table, Threads, arg, more, opt, seconds
from .output import (
    Format,
    Row,
    View,
    choose,
    print_card,
    print_json,
    print_rows,
    prints_rows,
    say,
    watched,
)

app = typer.Typer()

_PROMISE = (
    "this is no proof of anonymity: names without a label, nicknames and rare circumstances may "
    "stay. Read a sample before anything leaves the house"
)
IdColumn = Annotated[str | None, more("The column of a table that names notes.")]
TextColumn = Annotated[str | None, more("The column of a table with their text.")]
TaggerOption = Annotated[str | None, more("A tagger that finds more: entities, persons, places.")]


@app.command()
def read(
    lexicon: LexiconName,
    notes: Annotated[
        list[str], arg("Text files, folders, or tables with id and text; - is stdin.")
    ],
    out: Annotated[
        Path | None, opt("Write to this file; an interrupted run continues.", "--out", "-o")
    ] = None,
    as_form: Annotated[
        str | None,
        opt("jsonl, mentions, csv, xlsx, fhir, omop or html; by --out if not.", "--format", "-f"),
    ] = None,
    review: Annotated[
        Path | None,
        opt("Write what a person should decide on into this table, disputed mentions first."),
    ] = None,
    threshold: Annotated[
        float | None, opt("Mark mentions below this score as uncertain.", min=0, max=1)
    ] = None,
    k: Annotated[int, opt("How many codes per mention.", "--k", "-k", min=1)] = 5,
    spelling: Spelling = False,
    processes: Annotated[int, opt("Processes to read with.", min=1)] = 1,
    restart: Annotated[bool, opt("Forget an interrupted run.", "--restart")] = False,
    explain: Annotated[
        bool, opt("Say below each mention why it has its status.", "--explain")
    ] = False,
    within: Annotated[
        str | None, opt("Time limit for a note, e.g. 2s; the rest of it is skipped.")
    ] = None,
    model: ModelOption = None,
    hide: Annotated[
        bool, opt("Hide names, numbers, addresses and dates in what is written.", "--redact")
    ] = False,
    patient: Annotated[
        str, more("fhir: the patient's id, where the table has no patient_id.")
    ] = "",
    system: Annotated[
        str, more("fhir: the code system's URI; KCD's if left out, with ICD-10 next to it.")
    ] = KCD,
    vocabulary: Annotated[
        Path | None, more("omop: a folder with CONCEPT.csv, as Athena gives it.")
    ] = None,
    tables: Annotated[Path | None, more("A folder with tables of your own, as cues.tsv.")] = None,
    corrections: Annotated[
        Path | None, more("A table of decisions, beside the lexicon's own.")
    ] = None,
    tagger: TaggerOption = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    add: Add = None,
    abbreviations: Abbreviations = None,
    variants: Variants = None,
    synonyms: Synonyms = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Find what notes mention, whether it is present, whose it is, and its code."""
    # long because every option has a line of its own
    form = choose(table=table, as_csv=as_csv, as_json=as_json)
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
    found = find_notes(notes, id_column=id_column, text_column=text_column)
    forms: dict[str, dict[str, Any]] = {
        "fhir": {"system": system, "patient": patient},
        "omop": {"vocabulary": _text(vocabulary) or ""},
    }
    if out is None:
        if review is not None:
            raise BadParameter("--review needs a file for the notes: name it with --out")
        view = functools.partial(_view, explain=explain)
        _print(found, spec, as_form, form, processes, forms, hide, view)
        return
    chosen = form_of(out, as_form)
    count, before = run_batch(
        found,
        spec,
        out,
        chosen,
        processes=processes,
        restart=restart,
        progress=watched(),
        review=review,
        redact=hide,
        **forms.get(chosen, {}),
    )
    also = f", {before:,} had been read before" if before else ""
    say(f"wrote {out}: {counted(count, 'note')} read{also}")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _print(
    notes: Iterator[NoteText],
    spec: ReaderSpec,
    as_form: str | None,
    form: Format,
    processes: int,
    forms: dict[str, dict[str, Any]],
    hide: bool,
    view: View,
) -> None:
    chosen = form_of(None, as_form)
    if chosen == "xlsx":
        raise BadParameter("--format xlsx needs a file: name it with --out")
    records = _complaining(read_notes(notes, spec, processes=processes))
    records = redacted(records) if hide else records
    if as_form is None and form is not Format.JSON:
        print_rows(mention_rows(records), form, view=view)
        return
    for part in parts(records, chosen, when=datetime.now(UTC), **forms.get(chosen, {})):
        sys.stdout.write(part)


def _complaining(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Say which notes were not read to their end."""
    for record in records:
        if record["cut"] is not None:
            say(
                f"{record['id']} was read up to character {record['cut']:,} of "
                f"{len(record['text']):,}: there was no time for more. Allow more with: --within"
            )
        yield record


_SIGNS = {"present": "+", "negated": "-", "possible": "?", "historical": "<", "hypothetical": "!"}
_OTHERS = {"family": "f", "other": "o"}  # whoever has it, the patient has not
_STYLES = {"present": "bold", "negated": "dim", "possible": "yellow", "hypothetical": "dim"}


def _view(rows: list[dict[str, Any]], columns: int, *, explain: bool = False) -> Iterable[str]:
    """Lay mentions out by note: status, words, code, name, and who has it."""
    by: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by.setdefault(row["note"], []).append(row)
    for note, found in by.items():
        yield style(shorten(note, columns), "bold")
        shown: list[dict[str, object]] = []
        for row in found:
            whose = "" if row["experiencer"] == "patient" else f" ({row['experiencer']})"
            names = " / ".join(row[name] for name in ("ko", "en") if row[name])
            sure = "?" if row["uncertain"] else ""
            shown.append({
                "": _OTHERS.get(row["experiencer"]) or _SIGNS.get(row["status"], " "),
                "mention": row["mention"],
                "status": row["status"] + whose,
                "code": row["code"] + sure,
                "name": names,
                "score": row["score"],
            })  # fmt: skip
        header, *lines = layout(shown, columns - 2)
        yield f"  {header}"
        for row, line in zip(found, lines, strict=True):
            yield "  " + style(line, _STYLES.get(row["status"], "cyan"))
            if explain and row["status_why"]:
                yield style(f"      {row['status_why']}", "dim")


@app.command()
def redact(
    files: Annotated[
        list[str] | None, arg("Text files, folders or tables of notes; - is stdin.")
    ] = None,
    out: Annotated[Path | None, opt("Write the notes into this folder.", "--out", "-o")] = None,
    dates: Annotated[str, opt("What becomes of dates: mask, keep or shift.")] = "mask",
    shift: Annotated[int, opt("Days to move dates by, with --dates shift.")] = 0,
    spans: Annotated[bool, opt("Print what was found as JSON lines.", "--spans")] = False,
    check: Annotated[bool, opt("Print the recall on synthetic notes.", "--check")] = False,
    tagger: Annotated[str | None, more("A tagger that knows persons and places.")] = None,
    id_column: Annotated[str | None, more("The column of a table that names notes.")] = None,
    text_column: Annotated[str | None, more("The column of a table with their text.")] = None,
    threads: Threads = None,
) -> None:
    """Hide numbers, names, addresses and dates of notes; every offset stays the same."""
    if not files and not check:
        raise BadParameter("give files, - for stdin, or --check")
    opened = None
    if tagger is not None:
        from ..heads.tagger import load_tagger  # here, because most runs need none

        opened = load_tagger(tagger, threads=threads)
    redactor = Redactor(dates=dates, shift=shift, tagger=opened)
    if check:
        for kind, (found, there) in check_recall(redactor).items():
            print_json({"kind": kind, "found": found, "of": there, "recall": found / there})
    count = hidden = 0
    for note in find_notes(files or (), id_column=id_column, text_column=text_column):
        done = redactor.redact(note.text)
        count, hidden = count + 1, hidden + len(done.spans)
        if spans:
            print_json({"id": note.id, "spans": [asdict(one) for one in done.spans]})
        if out is not None:
            _write(out, note.id, done.text)
        elif not spans:
            sys.stdout.write(done.text if done.text.endswith("\n") else done.text + "\n")
    if count:
        say(f"{counted(hidden, 'identifier')} hidden in {counted(count, 'note')}; {_PROMISE}")


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / (name if name.endswith(".txt") else f"{name.replace(':', '-')}.txt")
    if folder.resolve() not in path.resolve().parents:
        raise OutputError(
            "a note's name leads out of the output folder; expected a plain name. "
            "Name another column with --id-column."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        file.write(text.encode("utf-8", "surrogatepass"))


@app.command()
@prints_rows
def find(
    files: Annotated[list[Path], arg("Files that notes read has written, .jsonl.")],
    code: Annotated[str, opt("Codes: E11, E11-E14, or several with commas.")],
    status: Annotated[
        str, opt("present, negated, possible, hypothetical or historical; several with commas.")
    ] = "present",
    experiencer: Annotated[str, opt("patient, family or other.")] = "patient",
    notes: Annotated[
        list[str] | None, opt("The notes themselves, to show the line of each mention.")
    ] = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
) -> Iterable[Row]:
    """Find the patients and notes that mention a code."""
    kinds = [one.strip() for one in status.split(",")]
    wrong = [one for one in kinds if one not in STATUSES]
    wrong += [experiencer] if experiencer not in EXPERIENCERS else []
    if wrong:
        raise BadParameter(
            f"{wrong[0]} is not known; expected {', '.join(STATUSES)} for --status, "
            f"{', '.join(EXPERIENCERS)} for --experiencer"
        )
    found = find_notes(notes or (), id_column=id_column, text_column=text_column)
    texts = {one.id: one.text for one in found}
    query = CodeQuery.of(code)
    for path in files:
        yield from find_mentions(
            read_records(path), query, status=kinds, experiencer=experiencer, texts=texts
        )


@app.command()
def learn(
    lexicon: Annotated[str, arg("The lexicon's folder.")],
    corrections: Annotated[
        list[Path] | None, arg("Tables of decisions; those beside the lexicon if left out.")
    ] = None,
    keep_rows: Annotated[
        bool, opt("Keep the decisions beside the lexicon, so that they take effect.", "--keep")
    ] = False,
    spelling: Spelling = False,
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_json: Json = False,
) -> None:
    """Fit the trust in evidence and the threshold to decisions, and say what that improves."""
    from ..clinical.corrections import FILE, read_corrections, save_corrections
    from ..clinical.corrections import learn as fit
    from ..clinical.reader import DEFAULT_THRESHOLD, EVIDENCE_PRECISION
    from ..encoders import load
    from ..terms import Linker

    opened = Lexicon.open(lexicon)
    own = find_lexicon(lexicon) / FILE
    rows = [row for path in corrections or [own] for row in read_corrections(path)]
    if keep_rows and corrections:
        say(f"kept {counted(len(rows), 'decision')} in {save_corrections(opened, rows)}")
    linker = Linker(opened, None if spelling else load(model, threads=threads))
    learnt, report = fit(rows, linker.link, EVIDENCE_PRECISION, threshold=DEFAULT_THRESHOLD)
    print_card(report.lines(), asdict(report), choose(table=table, as_json=as_json))
    if report.worse:
        raise DataError(
            "what was learnt does worse on the decisions that were held back; expected it to do "
            "better. Nothing was stored: collect more decisions, and learn again."
        )
    say(f"wrote {learnt.save(opened)}")
