"""Reads labelled notes, by note or by patient, and splits them without leaking patients.

A split is decided by a patient's id alone, so that all notes of a patient, later ones included,
are in the same part.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError, by_number, check_choice, counted
from ..io.files import parse_json
from ..io.fingerprint import hash_number
from ..io.tables import BadRows, read_columns
from ..text.cleanup import is_whole

PARTS = ("train", "dev", "test")
DECIDE = ("note", "patient")
# transformers' names for: one label, any number of labels, a number.
SINGLE, MULTI, REGRESSION = PROBLEMS = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
SEPARATOR = ";"


@dataclass(frozen=True)
class NoteDocument:
    """What one decision is about: a patient's notes, or one note.

    `label` is its label, or its number as written; `labels` are all of several, maybe none.
    """

    patient: str
    label: str
    notes: tuple[str, ...]
    labels: tuple[str, ...] = ()


def targets_of(
    documents: Sequence[NoteDocument], labels: Sequence[str], problem: str
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Give what a model is to say: label numbers (n,), 0 and 1 (n, labels), or numbers (n,)."""
    if problem == REGRESSION:
        return np.array([float(one.label) for one in documents])
    numbers = {label: i for i, label in enumerate(labels)}
    if problem == SINGLE:
        return np.array([numbers[one.label] for one in documents], dtype=np.int64)
    found = np.zeros((len(documents), len(labels)), dtype=np.int64)
    for i, one in enumerate(documents):
        found[i, [numbers[label] for label in one.labels]] = 1
    return found


@dataclass(frozen=True)
class LabelChoice:
    """Which rows are kept and what their labels become; one option at most.

    - `positive`: these labels become "yes" and all others "no".
    - `labels`: only rows with these labels are kept.
    - `largest`: only the rows of this many most frequent labels are kept.
    """

    positive: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    largest: int = 0

    def __post_init__(self) -> None:
        if sum(map(bool, (self.positive, self.labels, self.largest))) > 1:
            raise OptionError(
                "two of positive, labels and largest are set; expected one at most. Remove one."
            )

    def names(self, found: Sequence[str]) -> tuple[str, ...]:
        """Give the model's labels, in its order, from those of the rows."""
        if self.positive or self.labels:
            return self.labels or ("no", "yes")
        counts = Counter(found)
        kept = sorted(counts, key=lambda label: (-counts[label], label))
        return tuple(sorted(kept[: self.largest or None]))


_Row = tuple[str, str, str]  # patient, cell of labels, note
_Split = tuple[str, list[str], str]  # patient, labels, note


def read_documents(
    files: Sequence[str | Path],
    columns: Mapping[str, str],
    *,
    choice: LabelChoice | None = None,
    labels: Sequence[str] = (),
    decide: str = "note",
    root: Path | None = None,
    strict: bool = False,
    problem: str = SINGLE,
    separator: str = SEPARATOR,
) -> list[NoteDocument]:
    """Read labelled notes; notes without text are passed over and counted.

    - `columns`: the columns of "text", "label" and, if there is one, "patient". Without it every
      note is a patient of its own, named by its file under `root` and its line, so that a split
      does not depend on where the data are.
    - `labels`: the labels of a model; others are an error.
    - `decide`: whether a document is a "note" or all the notes of a "patient".
    - `problem`: one of `PROBLEMS`. Where several labels may be right they stand in one cell, with
      the `separator` between, or in a list of JSON; other labels than those kept are left out.
    """
    check_choice("decide", decide, DECIDE)
    check_choice("problem", problem, PROBLEMS)
    named = ", ".join(map(str, files))
    choice, several = choice or LabelChoice(), problem == MULTI
    rows = [row for file in files for row in _read(file, columns, root, strict, problem)]
    split = [(p, _split(cell, separator) if several else [cell], note) for p, cell, note in rows]
    if choice.positive:
        split = _in_two(split, choice.positive, named, several)
    found = [label for _, own, _ in split for label in own]
    kept = choice.names(found)
    if labels and problem != REGRESSION:
        _check_labels(set(kept if choice.labels or choice.largest else found), labels)
        kept = tuple(labels)
    if problem == SINGLE:
        split = [row for row in split if row[1][0] in kept]
    if not split:
        raise DataError(
            f"{named} give no notes with text and a label; expected some. "
            "Check the files and the columns."
        )
    return _gathered(split, kept, by_patient=decide == "patient", several=several)


def _in_two(rows: list[_Split], positive: Sequence[str], named: str, several: bool) -> list[_Split]:
    """Make "yes" of the positive labels, and "no" of the others."""
    if several:
        raise OptionError(
            "positive makes two classes of labels; expected labels or largest where several may "
            "be right. Remove positive."
        )
    have = {own[0] for _, own, _ in rows}
    missing = [label for label in positive if label not in have]
    if missing:
        raise DataError(
            f"no note of {named} has the label {missing[0]!r}, which positive names; expected "
            "one or more. Correct the label in positive."
        )
    return [(p, ["yes" if own[0] in positive else "no"], note) for p, own, note in rows]


def _gathered(
    rows: Sequence[_Split], kept: Sequence[str], *, by_patient: bool, several: bool
) -> list[NoteDocument]:
    """Make a document of each note, or of the notes of a patient, whose label is one."""
    gathered: dict[str | int, tuple[str, dict[str, None], list[str]]] = {}
    for i, (patient, own, note) in enumerate(rows):
        _, has, notes = gathered.setdefault(patient if by_patient else i, (patient, {}, []))
        has |= dict.fromkeys(own)
        notes.append(note)
        if len(has) > 1 and not several:
            raise DataError(
                "a patient has notes with two different labels; expected one a patient. "
                'Correct the labels, or decide by note (decide = "note").'
            )
    return [
        NoteDocument(
            patient,
            "" if several else next(iter(has)),
            tuple(notes),
            tuple(label for label in kept if label in has) if several else (),
        )
        for patient, has, notes in gathered.values()
    ]


def part_of(patient: str, *, dev: float, test: float, seed: int = 0) -> str:
    """Give the part a patient belongs to, which is always the same.

    >>> {part_of(str(i), dev=0.1, test=0.2) for i in range(100)} == {"train", "dev", "test"}
    True
    """
    share = hash_number(f"{seed}\t{patient}") / 2**64
    return "test" if share < test else "dev" if share < test + dev else "train"


def leakage(parts: Mapping[str, Sequence[NoteDocument]]) -> dict[str, int]:
    """Count the patients and the identical notes that are in two parts, by "notes of a and b"."""
    seen: dict[str, dict[str, set[str]]] = {
        name: {
            "patients": {one.patient for one in parts[name]},
            "notes": {" ".join(note.split()) for one in parts[name] for note in one.notes},
        }
        for name in PARTS
        if parts.get(name)
    }
    shared = {
        f"{what} of {first} and {second}": len(seen[first][what] & seen[second][what])
        for first, second in combinations(seen, 2)
        for what in ("patients", "notes")
    }
    return {where: count for where, count in shared.items() if count}


def say_leaked(what: str, count: int) -> str:
    """Word one finding of `leakage`.

    >>> say_leaked("notes of train and dev", 1), say_leaked("patients of train and test", 2)
    ('1 note of train and dev is the same', '2 patients of train and test are the same')
    """
    thing, _, where = what.partition("s of ")
    return f"{counted(count, thing)} of {where} {by_number(count, 'is', 'are')} the same"


def _read(
    file: str | Path, columns: Mapping[str, str], root: Path | None, strict: bool, problem: str
) -> Iterator[_Row]:
    bad = BadRows(str(file), strict)
    inside = root is not None and Path(file).is_relative_to(root)
    name = Path(file).relative_to(root).as_posix() if inside and root else str(file)
    remedy = "Correct the columns."
    for line, row in read_columns(file, list(columns.values()), bad, remedy=remedy):
        note, label = row[columns["text"]], row[columns["label"]].strip()
        if not note.strip():
            bad.add(line, "an empty note", "text")
        elif not is_whole(label) or not (label or problem == MULTI):
            bad.add(line, "no label", "one")
        elif problem == REGRESSION and not _is_number(label):
            bad.add(line, "a label that is no number", "one")
        else:
            patient = row[columns["patient"]] if "patient" in columns else f"{name}:{line}"
            yield patient, label, note
    bad.report()


def _split(cell: str, separator: str) -> list[str]:
    """Give the labels of a cell, each once.

    >>> _split("AF; CHF;AF", ";"), _split('["AF", "CHF"]', ";"), _split("", ";")
    (['AF', 'CHF'], ['AF', 'CHF'], [])
    """
    listed: object = cell.split(separator)
    if cell.startswith("["):
        with contextlib.suppress(ValueError):
            listed = parse_json(cell)
    assert isinstance(listed, list)
    return list(dict.fromkeys(name for one in listed if (name := str(one).strip())))


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _check_labels(found: set[str], known: Sequence[str]) -> None:
    unknown = found - set(known)
    if unknown:
        raise DataError(
            f"{counted(len(unknown), 'label')} of the notes "
            f"{by_number(len(unknown), 'is', 'are')} not the model's, which are "
            f"{', '.join(known)}. Correct them, or name the rows to keep."
        )
