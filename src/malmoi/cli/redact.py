"""`malmoi redact`: identifiers of notes found and hidden."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import BadParameter

from ..clinical.batch import find_notes
from ..clinical.redact import Redactor, check_recall
from ..errors import OutputError, counted
from ..io.files import writing
from .options import Threads, arg, opt
from .output import print_json, say

_PROMISE = (
    "this is no proof of anonymity: names without a label, nicknames and rare circumstances may "
    "stay. Read a sample before anything leaves the house"
)


def redact(
    files: Annotated[
        list[str] | None, arg("Text files, folders or tables of notes; - is stdin.")
    ] = None,
    out: Annotated[Path | None, opt("Write the notes into this folder.", "--out", "-o")] = None,
    dates: Annotated[str, opt("What becomes of dates: mask, keep or shift.")] = "mask",
    shift: Annotated[int, opt("Days to move dates by, with --dates shift.")] = 0,
    spans: Annotated[bool, opt("Print what was found as JSON lines.", "--spans")] = False,
    check: Annotated[bool, opt("Print the recall on synthetic notes.", "--check")] = False,
    tagger: Annotated[str | None, opt("A tagger that knows persons and places.")] = None,
    id_column: Annotated[str | None, opt("The column of a table that names notes.")] = None,
    text_column: Annotated[str | None, opt("The column of a table with their text.")] = None,
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
