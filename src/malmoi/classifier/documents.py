"""Labelled notes out of files, by note or by patient, and splits that keep patients whole.

A split is decided by a patient's id alone, so a patient met again tomorrow goes where the first
note went, and no note of one stands on both sides.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError, OptionError, by_number, counted
from ..io.fingerprint import hash_number
from ..io.tables import BadRows, read_columns
from ..text.cleanup import is_whole

PARTS = ("train", "dev", "test")
DECIDE = ("note", "patient")


@dataclass(frozen=True)
class NoteDocument:
    """What one decision is made of: a patient's notes, or one note."""

    patient: str
    label: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LabelChoice:
    """Which rows count and what their labels become.

    `positive` joins these labels into "yes" and all others into "no"; `labels` keeps these rows
    only; `largest` keeps the rows of so many commonest labels.
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
        """Give the labels that a model has, in its order, from those of the rows."""
        if self.positive:
            return ("no", "yes")
        if self.labels:
            return self.labels
        counts = Counter(found)
        if self.largest:
            kept = sorted(counts, key=lambda label: (-counts[label], label))[: self.largest]
            return tuple(sorted(kept))
        return tuple(sorted(counts))


@dataclass
class _Rows:
    patient: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    note: list[str] = field(default_factory=list)


def read_documents(
    files: Sequence[str | Path],
    columns: Mapping[str, str],
    *,
    choice: LabelChoice | None = None,
    labels: Sequence[str] = (),
    decide: str = "note",
    root: Path | None = None,
    strict: bool = False,
) -> list[NoteDocument]:
    """Read labelled notes; `labels` are those of a model, and others are then an error.

    `columns` names "text", "label" and, where there is one, "patient"; without it every note is a
    patient of its own, named by its file under `root` and its line, so that a split is the same
    wherever the data lie. Notes without text are passed over and counted.
    """
    if decide not in DECIDE:
        raise OptionError(f"decide is {decide!r}; known are {' and '.join(DECIDE)}. Choose one.")
    rows = _Rows()
    for file in files:
        _read(file, columns, rows, root, strict)
    choice = choice or LabelChoice()
    if choice.positive:
        _check_known(choice.positive, rows.label, files)
        rows.label = ["yes" if label in choice.positive else "no" for label in rows.label]
    kept = set(choice.names(rows.label))
    if labels:
        _check_labels(rows.label if not (choice.labels or choice.largest) else kept, labels)
        kept = set(labels)
    listed = [
        (patient, label, note)
        for patient, label, note in zip(rows.patient, rows.label, rows.note, strict=True)
        if label in kept
    ]
    if not listed:
        raise DataError(
            f"{_named(files)} give no notes with text and a label; expected some. "
            "Check the files and the columns."
        )
    return (
        _by_patient(listed)
        if decide == "patient"
        else [NoteDocument(p, x, (n,)) for p, x, n in listed]
    )


def part_of(patient: str, *, dev: float, test: float, seed: int = 0) -> str:
    """Say which part a patient belongs to; the same one always goes to the same.

    >>> {part_of(str(i), dev=0.1, test=0.2) for i in range(100)} == {"train", "dev", "test"}
    True
    """
    place = hash_number(f"{seed}\t{patient}") / 2**64
    return "test" if place < test else "dev" if place < test + dev else "train"


def leakage(parts: Mapping[str, Sequence[NoteDocument]]) -> dict[str, int]:
    """Count the patients and the very same notes that stand in two parts, by "a and b"."""
    found: dict[str, int] = {}
    names = [name for name in PARTS if parts.get(name)]
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            for what, keys in (("patients", _patients), ("notes", _notes)):
                shared = keys(parts[first]) & keys(parts[second])
                if shared:
                    found[f"{what} of {first} and {second}"] = len(shared)
    return found


def say_leaked(what: str, count: int) -> str:
    """Say one finding of `leakage`.

    >>> say_leaked("notes of train and dev", 1), say_leaked("patients of train and test", 2)
    ('1 note of train and dev is the same', '2 patients of train and test are the same')
    """
    thing, _, where = what.partition("s of ")
    return f"{counted(count, thing)} of {where} {by_number(count, 'is', 'are')} the same"


def _patients(documents: Sequence[NoteDocument]) -> set[str]:
    return {one.patient for one in documents}


def _notes(documents: Sequence[NoteDocument]) -> set[str]:
    return {" ".join(note.split()) for one in documents for note in one.notes}


def _read(
    file: str | Path, columns: Mapping[str, str], rows: _Rows, root: Path | None, strict: bool
) -> None:
    bad = BadRows(str(file), strict)
    inside = root is not None and Path(file).is_relative_to(root)
    name = Path(file).relative_to(root).as_posix() if inside and root else str(file)
    remedy = "Correct the columns."
    for line, row in read_columns(file, list(columns.values()), bad, remedy=remedy):
        if not row[columns["text"]].strip():
            bad.add(line, "an empty note", "text")
        elif not row[columns["label"]].strip() or not is_whole(row[columns["label"]]):
            bad.add(line, "no label", "one")
        else:
            rows.note.append(row[columns["text"]])
            rows.label.append(row[columns["label"]].strip())
            alone = f"{name}:{line}"
            rows.patient.append(row[columns["patient"]] if "patient" in columns else alone)
    bad.report()


def _by_patient(rows: list[tuple[str, str, str]]) -> list[NoteDocument]:
    notes: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    for patient, label, note in rows:
        if labels.setdefault(patient, label) != label:
            raise DataError(
                "a patient has notes with two different labels; expected one label a patient. "
                'Correct the labels, or decide by note (decide = "note").'
            )
        notes.setdefault(patient, []).append(note)
    return [
        NoteDocument(patient, labels[patient], tuple(found)) for patient, found in notes.items()
    ]


def _check_known(wanted: Sequence[str], found: Sequence[str], files: Sequence[str | Path]) -> None:
    missing = [label for label in wanted if label not in set(found)]
    if missing:
        raise DataError(
            f"no note of {_named(files)} has the label {missing[0]!r}, which positive names; "
            "expected some. Correct the label."
        )


def _check_labels(found: "Sequence[str] | set[str]", known: Sequence[str]) -> None:
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise DataError(
            f"{counted(len(unknown), 'label')} of the notes "
            f"{by_number(len(unknown), 'is', 'are')} not the model's, which are "
            f"{', '.join(known)}. Correct them, or name the rows to keep."
        )


def _named(files: Sequence[str | Path]) -> str:
    return ", ".join(str(file) for file in files)
