"""`malmoi classify`: one decision for a long note, and the windows that decided it.

With --zero-shot: the category of a document, out of categories that are only named.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from ..errors import DataError, OptionError
from ..heads.classifier import (
    Classifier,
    Decision,
    Estimate,
    ScoredWindow,
    load_classifier,
)
from ..heads.decision import Rule
from ..heads.notes import MULTI, REGRESSION
from ..heads.zero_shot import TEMPLATE, ZeroShotClassifier, load_zero_shot
from ..io.files import read_text
from ..io.tables import is_table, read_rows, show_columns
from .options import Threads, arg, opt
from .output import Row, prints_rows, say


@prints_rows
def classify(
    model: Annotated[
        str, arg("A classifier's bundle; with --zero-shot an NLI cross-encoder's or an encoder's.")
    ],
    files: Annotated[
        list[str], arg("A note a text file (- is stdin), or a .jsonl, .tsv or .csv of notes.")
    ],
    text: Annotated[str, opt("The column of the note, in tables.")] = "text",
    patient: Annotated[
        str | None, opt("Decide by this column: all notes of a patient together.")
    ] = None,
    together: Annotated[bool, opt("All files are notes of one patient.", "--together")] = False,
    rule: Annotated[
        str | None, opt("joint, max, mean, first or attention; else the model's.")
    ] = None,
    c: Annotated[float | None, opt("The c of the rule joint.")] = None,
    windows: Annotated[int, opt("How many deciding windows to show; 0 for none.", min=0)] = 3,
    zero_shot: Annotated[
        list[str] | None, opt("A category by its name alone; repeat it, or put commas between.")
    ] = None,
    template: Annotated[
        str, opt("--zero-shot: the sentence that a category makes, {} its name.")
    ] = TEMPLATE,
    several: Annotated[
        bool, opt("--zero-shot: a text may have several categories.", "--several")
    ] = False,
    threads: Threads = None,
) -> Iterable[Row]:
    """Decide what long notes are, and show which windows decided."""
    if zero_shot:
        names = [name for part in zero_shot for name in part.split(",")]
        sorter = load_zero_shot(model, names, template=template, threads=threads)
        documents = _documents(files, text=text, patient=patient, together=together)
        yield from _categories(sorter, documents, several)
        return
    opened = load_classifier(model, threads=threads)
    chosen = None
    if rule is not None or c is not None:
        chosen = Rule(rule or "joint", c if c is not None else opened.pool.rule.c)
    for name, notes in _documents(files, text=text, patient=patient, together=together):
        kept = [note for note in notes if note.strip()]
        if kept:
            if opened.problem == REGRESSION:
                yield _number(name, kept, opened.estimate(kept, rule=chosen), windows)
            else:
                yield _row(name, kept, opened, opened.classify(kept, rule=chosen), windows)
        else:
            say(f"{name} has no text and is passed over")


def _categories(
    sorter: ZeroShotClassifier, documents: Iterator[tuple[str, list[str]]], several: bool
) -> Iterator[Row]:
    for name, notes in documents:
        [found] = sorter.classify_all(["\n".join(notes)], several=several)
        shares = sorted(found.probabilities.items(), key=lambda one: -one[1])
        yield {
            "note": name,
            "label": found.label,
            "probability": round(found.probability, 4),
            "probabilities": {label: round(share, 4) for label, share in shares},
        }


def _documents(
    files: list[str], *, text: str, patient: str | None, together: bool
) -> Iterator[tuple[str, list[str]]]:
    if together and patient is not None:
        raise OptionError("--together and --patient exclude each other; choose one.")
    gathered: dict[str, list[str]] = {}
    for file in files:
        for name, note in _notes(file, text, patient):
            if together or patient is not None:
                gathered.setdefault("all" if together else name, []).append(note)
            else:
                yield name, [note]
    yield from gathered.items()


def _notes(file: str, text: str, patient: str | None) -> Iterator[tuple[str, str]]:
    if not is_table(file):
        yield Path(file).name if file != "-" else "-", read_text(file)
        return
    for i, row in enumerate(read_rows(file), start=1):
        for column in (text, *([patient] if patient else [])):
            if column not in row:
                raise DataError(
                    f"{file} has no column {column}; it has {show_columns(list(row))}. "
                    "Name it with --text or --patient."
                )
        yield row[patient] if patient else row.get("id", str(i)), row[text]


def _row(
    name: str, notes: list[str], model: Classifier, decision: Decision, k: int
) -> dict[str, object]:
    several = model.problem == MULTI
    row: dict[str, object] = {"note": name}
    row |= (
        {"labels": list(decision.labels)}
        if several
        else {"label": decision.label, "probability": round(decision.probability, 4)}
    )
    row |= {
        "probabilities": {label: round(p, 4) for label, p in decision.probabilities.items()},
        "windows": len(decision.windows),
    }
    if k:
        row["deciding"] = [
            ({"label": label} if several else {})
            | _window(one, notes, "probability", one.probabilities[model.labels.index(label)])
            for label in decision.labels
            for one in decision.telling(model.labels, k=k, label=label)
        ]
    return row


def _number(name: str, notes: list[str], found: Estimate, k: int) -> dict[str, object]:
    row: dict[str, object] = {
        "note": name,
        "label": found.name,
        "number": round(found.number, 4),
        "windows": len(found.windows),
    }
    if k:
        largest = sorted(found.windows, key=lambda one: -one.probabilities[0])[:k]
        row["deciding"] = [_window(one, notes, "number", one.probabilities[0]) for one in largest]
    return row


def _window(one: ScoredWindow, notes: list[str], name: str, value: float) -> dict[str, object]:
    return {
        "note": one.note,
        "start": one.start,
        "end": one.end,
        name: round(value, 4),
        "text": notes[one.note][one.start : one.end],
    }
