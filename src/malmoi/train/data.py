"""The files that recipes name: found, hashed, read row by row; bad rows are counted.

Everything here runs before torch is imported, so bad data are reported before anything is loaded.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..evaluate import TASKS, Settings
from ..io.fingerprint import sha256
from ..io.tables import BadRows, Row, read_columns
from ..text.cleanup import is_whole
from .schema import Evaluation

logger = logging.getLogger(__name__)

# A row with its file and line, for messages.
Found = tuple[str, int, Row]


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


def hash_named(names: Iterable[str], root: Path) -> dict[str, str]:
    """Find and hash files by the names that a recipe has for them; all are found first."""
    return hash_files({name: check_file(root / name, name, root) for name in names})


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
        score = float(outcome.values()[outcome.main])
        if math.isnan(score):
            logger.warning(f"{self.title} is undefined: the model gives every example the same")
        return score


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
