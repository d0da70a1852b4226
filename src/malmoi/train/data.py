"""Files → examples (texts by number, labels as numbers) and evaluations, bad rows counted.

Everything here runs before torch is imported, so bad data are reported before anything is loaded.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..evaluate import TASKS, Settings
from ..io.fingerprint import sha256
from ..io.tables import BadRows, Row, read_columns
from ..text.cleanup import is_whole
from .objective import OBJECTIVES, Objective
from .objectives.recipes import Data, Recipe, needed_columns
from .sampler import BatchClusters
from .schema import Evaluation

# A row with its file and line, for messages.
Found = tuple[str, int, Row]


@dataclass(frozen=True)
class TrainingExamples:
    """What one [[data]] entry holds.

    `columns` (n, k) int32 are numbers of texts, one column a text of the example; `labels` (n,)
    are float32 scores in 0…1, int64 classes, or None. `clusters` say which rows meet in a batch.
    """

    texts: list[str]
    columns: NDArray[np.int32]
    labels: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    clusters: BatchClusters | None = None

    def __len__(self) -> int:
        return len(self.columns)


def find_files(recipe: Recipe, root: Path) -> dict[str, Path]:
    """Find every file that a recipe names, or name the first that is missing."""
    named = learnt_files(recipe)
    for measure in recipe.evaluation:
        named += [measure.file, *([measure.dictionary] if measure.dictionary else [])]
    return {name: check_file(root / name, name, root) for name in named}


def learnt_files(recipe: Recipe) -> list[str]:
    """Name the files that a recipe learns from; those of evaluations may change in a run."""
    named = [file for entry in recipe.data for file in entry.files]
    for entry in recipe.data:
        named += [file for negatives in entry.negatives for file in negatives.files]
    return named


def check_file(path: Path, name: str, root: Path) -> Path:
    """Give the path of a file that a recipe names, or say that it is missing."""
    if path.is_file():
        return path
    raise DataError(
        f"there is no file {path}; the recipe names {name} under the data root "
        f"{root.absolute()}. Name the root with --data, or another file in the recipe."
    )


def hash_files(files: dict[str, Path]) -> dict[str, str]:
    """Hash every file: the manifest says which bytes a model was made from."""
    return {name: sha256(path) for name, path in files.items()}


def read_examples(
    entry: Data, root: Path, *, seed: int = 1, strict: bool = False
) -> TrainingExamples:
    """Read the files of one entry; raises DataError for anything that cannot be learnt from."""
    objective = OBJECTIVES[entry.objective]
    if objective.reader:
        read: TrainingExamples = objective.read()(entry, root, seed=seed, strict=strict)
        return read
    rows = list(_rows(entry, objective, root, strict))
    if not rows:
        condition = ", ".join(f"{name} is {value}" for name, value in entry.where.items())
        condition = f" where {condition}" if condition else ""
        raise DataError(
            f"{', '.join(entry.files)} give no examples; expected rows with text"
            f"{condition}. Check the files and the recipe's columns."
        )
    if entry.triplets:
        return _joined(entry, rows)
    names = [*objective.texts, *(name for name in objective.optional if name in entry.columns)]
    texts, columns = _numbered([[row[entry.columns[name]] for name in names] for *_, row in rows])
    if not objective.label:
        return TrainingExamples(texts, columns)
    labels, classes = _labels(entry, objective, rows)
    if len(np.unique(labels)) < 2:
        raise DataError(
            f"{', '.join(entry.files)} have one {objective.label} only; {objective.name} learns "
            "from differences. Add rows with another one."
        )
    return TrainingExamples(texts, columns, labels, classes)


def count_repeated(pairs: Sequence[tuple[str, str]], examples: Sequence[TrainingExamples]) -> int:
    """Count the pairs of an evaluation that are trained on too, either way round."""
    known = set()
    for part in examples:
        texts = [text.strip() for text in part.texts]
        known |= {frozenset((texts[row[0]], texts[row[1]])) for row in part.columns}
    return sum(frozenset((a.strip(), b.strip())) in known for a, b in pairs)


Check = Callable[[str], bool]
# So many labels, and most of them in one row only, are texts from another column.
_MANY_LABELS = 100


def check_classes(classes: Sequence[str], rows: int, *, where: str) -> None:
    """Raise a DataError for labels that are hardly ever the same: they are probably texts."""
    if len(classes) > _MANY_LABELS and 2 * len(classes) > rows:
        raise DataError(
            f"{where} have {len(classes):,} different labels in {rows:,} rows; expected labels "
            "that occur again. Check which column is the label."
        )


def _rows(entry: Data, objective: Objective, root: Path, strict: bool) -> Iterator[Found]:
    checks: dict[str, Check] = {}
    if "score" in needed_columns(entry, objective):
        checks["score"] = is_number
    if "label" in needed_columns(entry, objective):
        checks["label"] = is_label
    optional = [name for name in objective.optional if name in entry.columns]
    needed = {name: entry.columns[name] for name in needed_columns(entry, objective)}
    needed |= {name: entry.columns[name] for name in optional}

    return entry_rows(entry, root, needed, checks, strict)


def entry_rows(
    entry: Data, root: Path, columns: dict[str, str], checks: dict[str, Check], strict: bool
) -> Iterator[Found]:
    """Yield the rows of all files of an entry, up to its limit."""
    found = (
        row
        for file in entry.files
        for row in file_rows(
            root / file, columns, entry.where, checks, strict, without=entry.without
        )
    )
    return itertools.islice(found, entry.limit or None)


def file_rows(
    path: Path,
    columns: dict[str, str],
    where: dict[str, str],
    checks: dict[str, Check],
    strict: bool,
    *,
    without: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Found]:
    """Yield file, line and columns of the rows in which every column passes its check."""
    bad = BadRows(str(path), strict)
    without = without or {}
    names, remedy = [*columns.values(), *where, *without], "Name columns of the file in the recipe."
    for line, row in read_columns(path, names, bad, remedy=remedy):
        if any(row[name] != value for name, value in where.items()):
            continue
        if any(row[name] in values for name, values in without.items()):
            continue
        failed = (n for n, c in columns.items() if not checks.get(n, _is_text)(row[c]))
        wrong = next(failed, None)
        if wrong is None:
            yield str(path), line, {name: row[name] for name in columns.values()}
        else:
            found = "no number" if wrong in checks and checks[wrong] is is_number else "no text"
            bad.add(line, f"{found} in {columns[wrong]}", "a value in every column")
    bad.report()


def _is_text(value: str) -> bool:
    return bool(value.strip())


def is_label(value: str) -> bool:
    """Whether a cell holds a label, which must go into a bundle's manifest."""
    return _is_text(value) and is_whole(value)


def is_number(value: str) -> bool:
    """Whether a cell holds a finite number."""
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _numbered(rows: list[list[str]]) -> tuple[list[str], NDArray[np.int32]]:
    """Give each distinct text a number; (n, k) numbers come back with the texts."""
    numbers: dict[str, int] = {}
    columns = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
    return list(numbers), np.array(columns, dtype=np.int32)


def _labels(
    entry: Data, objective: Objective, rows: list[Found]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    column = entry.columns[objective.label]
    if objective.label == "score":
        least, most = entry.range or (0.0, 1.0)
        scores = np.array([float(row[column]) for *_, row in rows])
        for i in np.flatnonzero((scores < least) | (scores > most))[:1]:
            raise DataError(
                f"line {rows[i][1]} of {rows[i][0]} has the score {scores[i]:g}; expected "
                f"{least:g} to {most:g}. Change the score, or range in the recipe."
            )
        return ((scores - least) / (most - least)).astype(np.float32), ()
    classes = entry.labels or tuple(sorted({row[column] for *_, row in rows}))
    check_classes(classes, len(rows), where=", ".join(entry.files))
    numbers = {name: i for i, name in enumerate(classes)}
    for file, line, row in rows:
        if row[column] not in numbers:
            raise DataError(
                f"line {line} of {file} has a label that is none of {', '.join(classes)}. "
                "Change the label, or labels in the recipe."
            )
    return np.array([numbers[row[column]] for *_, row in rows], dtype=np.int64), classes


def _joined(entry: Data, rows: list[Found]) -> TrainingExamples:
    """Join the rows of one `a`: each positive with each negative, one triplet a pair."""
    groups: dict[str, dict[str, list[str]]] = {}
    a, b, label = (entry.columns[name] for name in ("a", "b", "label"))
    for *_, row in rows:
        groups.setdefault(row[a], {}).setdefault(row[label], []).append(row[b])
    found = [
        [anchor, positive, negative]
        for anchor, group in groups.items()
        for positive in group.get(entry.triplets["positive"], [])
        for negative in group.get(entry.triplets["negative"], [])
    ]
    if not found:
        raise DataError(
            f"{', '.join(entry.files)} have no text in {a} with both a "
            f"{entry.triplets['positive']} and a {entry.triplets['negative']} row; expected some. "
            "Name labels of the file in triplets."
        )
    return TrainingExamples(*_numbered(found))


_OPTIONS = ("columns", "limit", "dictionary_columns", "hold_out")


@dataclass(frozen=True)
class Measure:
    """One evaluation of a recipe, read and ready: call it with a model for its main score.

    `pairs` are the texts that belong together in its file, to be looked for in the training data.
    """

    title: str
    task: str
    data: Any
    pairs: list[tuple[str, str]]

    def __call__(self, model: object) -> float:
        outcome = TASKS[self.task].measure(model, self.data)
        return float(outcome.values()[outcome.main])


def read_measure(
    entry: Evaluation, root: Path, *, judges: Sequence[str] | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file; `judges` are the labels of a reranker, None for an encoder."""
    task, options = TASKS[entry.task], {name: getattr(entry, name) for name in _OPTIONS}
    dictionary = root / entry.dictionary if entry.dictionary else None
    settings = Settings(strict=strict, dictionary=dictionary, **options)
    rows = task.read(root / entry.file, settings).rows
    task.check_training(rows, judges)  # now, and not after the first epoch
    return Measure(entry.title, entry.task, rows, task.text_pairs(rows))
