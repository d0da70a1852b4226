"""A run's folder: its files, whether a run may start or resume there, its bundles and their cards.

`recipe.json` and `data.json` say what a run started with, so that it resumes with the same.
"""

import contextlib
import functools
import importlib.metadata
import json
import logging
import math
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from .. import __version__
from ..bundle.manifest import Manifest
from ..errors import DataError, OptionError, OutputError
from ..export.source import ModelSource
from ..io.files import parse_json, writing_folder
from ..io.fingerprint import write_json
from .schema import OLD_OBJECTIVES, BaseRecipe

if TYPE_CHECKING:
    from .checkpoint import State

logger = logging.getLogger(__name__)

T = TypeVar("T")

RECIPE, DATA = "recipe.json", "data.json"
# What may differ between the run that was stopped and the one that resumes it.
_FREE = ("output", "evaluation", "name")
# A folder that holds no other file than these has nothing that a run could resume from.
_SMALL = (RECIPE, DATA, "log.csv")


@dataclass(frozen=True)
class TrainedRun:
    """What a run has made: its bundles or folders, and the best model's scores by evaluation.

    `base_scores` are those before the first step.
    """

    folder: Path
    bundles: tuple[Path, ...]
    scores: dict[str, float]
    steps: int
    base_scores: dict[str, float] = field(default_factory=dict)

    @functools.cached_property
    def model(self) -> Any:
        """The first bundle, opened: an Encoder, Reranker, Tagger … as it was trained."""
        from .. import load  # here, because most runs are made by a command

        return load(self.bundles[0])

    @property
    def encoder(self) -> Any:
        """The trained encoder; a run of another kind has none."""
        from ..encoders import TextEncoder

        if not isinstance(self.model, TextEncoder):
            raise OptionError(
                f"the run in {self.folder} made a {type(self.model).__name__}; expected an "
                "encoder. Use its .model."
            )
        return self.model

    def plot(self) -> Any:
        """Draw loss and scores over the steps; gives a figure of matplotlib."""
        from .checkpoint import figure_of  # here, because it imports torch

        return figure_of(RunPaths(self.folder).log)


Hook = Callable[..., Any]


@dataclass(frozen=True)
class Hooks:
    """Functions that are called during a run; one that returns True ends it after that step.

    - `on_step(step, loss)` after each step,
    - `on_evaluation(step, scores)` after each evaluation, and before the first step with step 0,
    - `on_checkpoint(step, folder)` after a checkpoint was written.
    """

    on_step: Hook | None = None
    on_evaluation: Hook | None = None
    on_checkpoint: Hook | None = None

    def ends(self, name: str, *values: object) -> bool:
        """Call one of them, if it is there; gives whether the run ends."""
        hook: Hook | None = getattr(self, name)
        return hook is not None and hook(*values) is True


@dataclass(frozen=True)
class RunPaths:
    """The files of a run: checkpoints, the best model's torch weights, the log, the bundles."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def best(self) -> Path:
        """The best model so far, as a folder of torch weights."""
        return self.folder / "best"

    @property
    def log(self) -> Path:
        """Loss and scores, a row for each step."""
        return self.folder / "log.csv"

    def bundles(self, precisions: Sequence[str]) -> list[Path]:
        """The bundles: the first precision's is bundle/, the others are named after theirs."""
        names = [f"bundle-{name}" if i else "bundle" for i, name in enumerate(precisions)]
        return [self.folder / name for name in names]


def write_bundles(
    paths: RunPaths, precisions: Sequence[str], write: Callable[[Path, str], T]
) -> dict[Path, T]:
    """Write a bundle for each precision, whole or not at all; gives what `write` returned."""
    from .checkpoint import tensor_errors  # here, because it imports torch

    written = {}
    for out, precision in zip(paths.bundles(precisions), precisions, strict=True):
        with writing_folder(out, replace=True) as folder, tensor_errors():
            written[out] = write(folder, precision)
        logger.info(f"wrote {out}")
    return written


def check_new(folder: Path, *, resume: bool) -> bool:
    """Keep a run from writing over another; gives whether there is one to resume."""
    if (folder / RECIPE).is_file():
        if resume:
            return True
        raise OutputError(
            f"{folder} holds a run already; expected a new folder. Resume it with "
            "--resume, name another one with --set output.folder=…, or remove it."
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputError(
            f"{folder} exists and holds no run; expected a new folder. "
            "Name another one as output.folder."
        )
    parent = next((path for path in folder.absolute().parents if path.exists()), Path("/"))
    if not os.access(parent, os.W_OK):  # reported now, not when all the data are read
        raise _cannot_make(folder, f"{parent} may not be written to")
    return False


def _cannot_make(folder: Path, reason: str) -> OutputError:
    return OutputError(f"cannot make {folder}: {reason}. Name another one as output.folder.")


def check_recipe(recipe: BaseRecipe, folder: Path) -> None:
    """Raise an OptionError if a run would not resume with the recipe that it started with."""
    old, new = _with_new_names(_read(folder / RECIPE)), json.loads(json.dumps(recipe.to_json()))
    with contextlib.suppress(ValidationError):  # keys that came or were renamed since then
        old = json.loads(json.dumps(type(recipe).model_validate(old).to_json()))
    for key in new:
        if key not in _FREE and old.get(key) != new[key]:
            where = _difference(old.get(key), new[key], key)
            raise OptionError(
                f"{folder / RECIPE} differs from the recipe in {where}; expected the recipe that "
                "the run started with. Restore the recipe, or start again in another output.folder."
            )


def _with_new_names(table: dict[str, Any]) -> dict[str, Any]:
    """Give the recipe of an older run with the names that its objectives have now."""
    data = table.get("data")
    if isinstance(data, list):
        table = table | {"data": [_with_new_names(entry) for entry in data]}
    name = table.get("objective")
    return table | {"objective": OLD_OBJECTIVES[name]} if name in OLD_OBJECTIVES else table


def check_data(hashes: Mapping[str, str], folder: Path) -> None:
    """Raise a DataError for the first file that is not the one a run started with."""
    stored = folder / DATA
    if not stored.is_file():
        logger.info(
            f"{folder} has no {DATA}; whether the data are those it started with is not known"
        )
        return
    old = _read(stored)
    for name, digest in hashes.items():
        if name in old and old[name] != digest:
            raise DataError(
                f"{name} is not the file that the run in {folder} started with (its sha256 "
                "differs); expected the same. Restore the file, or start again in another "
                "output.folder."
            )


@contextlib.contextmanager
def opening_run(recipe: BaseRecipe, hashes: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Store what a run starts with; a run that fails before it has saved leaves nothing."""
    from .checkpoint import clear_partial  # here, because it imports torch

    existed = folder.is_dir()  # an empty one, or a link to another disk, that somebody made
    new = not existed or not any(folder.iterdir())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a name may hold a NUL
        raise _cannot_make(folder, getattr(error, "strerror", None) or str(error)) from error
    try:
        for path in (folder, folder / "checkpoints"):
            clear_partial(path)
        write_json(folder / RECIPE, recipe.to_json())  # the first: it says that there is a run
        write_json(folder / DATA, hashes)
        yield
    except BaseException:
        files = (path for path in folder.rglob("*") if path.is_file())
        kept = (p for p in files if p.name not in _SMALL and p.parent.name != "tensorboard")
        if new and not any(kept):
            for path in list(folder.iterdir()) if existed else [folder]:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        raise


def _difference(old: object, new: object, key: str) -> str:
    """Name the innermost table's key in which two recipes differ first.

    >>> _difference({"epochs": 1, "steps": 0}, {"epochs": 2, "steps": 0}, "schedule")
    'schedule.epochs'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in new:
            if old.get(name) != new[name]:
                return _difference(old.get(name), new[name], f"{key}.{name}")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                return _difference(one, other, f"{key}[{i}]")
    return key


def _read(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise DataError(
            f"{path} cannot be read as JSON; expected what the run started with. Start again "
            "in another output.folder."
        )
    return found


_PACKAGES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "onnxruntime")


def versions() -> dict[str, str]:
    """The versions that made a model."""
    found = {"malmoi": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def provenance(
    recipe: BaseRecipe, hashes: dict[str, str], state: "State | None" = None, **more: Any
) -> dict[str, Any]:
    """Everything needed to make the model again, for the manifest's field "training"."""
    table = recipe.to_json()
    made = {
        "recipe": table,
        "seed": table["seed"],
        "versions": versions(),
        "data": hashes,
        **more,
    }
    if state is not None:
        best = state.best_step or state.step
        made |= {"steps": state.step, "best_step": best, "seconds": round(state.seconds, 1)}
    return made


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """Round scores for a manifest, which is JSON: those that are undefined are left out."""
    return {name: round(score, 4) for name, score in scores.items() if math.isfinite(score)}


def bundle_options(
    recipe: Any, source: ModelSource, training: dict[str, Any], precision: str
) -> dict[str, Any]:
    """Give the options of an export that a recipe's [output] and its base decide."""
    return {
        "precision": precision,
        "name": recipe.name,
        "licence": recipe.output.licence or source.manifest.licence,
        "weights": recipe.output.keeps_weights(precision),
        "clean": source.manifest.clean,
        "training": training,
    }


def write_card(
    manifest: Manifest,
    about: str,
    body: Sequence[str],
    *,
    use: Sequence[str] = (),
    matryoshka: Sequence[int] = (),
) -> str:
    """Say in Markdown what a model is, how to use it, what it was made from and how well it does.

    `use` are lines of Python; `body` is everything between them and the section on training.
    """
    training = manifest.training
    several = f", {training['processes']} processes" if training.get("processes", 1) > 1 else ""
    steps = f", {training['steps']:,} steps" if "steps" in training else ""
    code = ["```python", "import malmoi", *use, "```", ""] if use else []
    lines = [
        *(f"# {manifest.name}", "", about, "", *code, *body, "", "## Training", ""),
        *(f"Seed {training['seed']}{steps}{several}.", ""),
        *(f"- {name} {version}" for name, version in training["versions"].items()),
    ]
    if matryoshka:
        sizes = ", ".join(map(str, matryoshka))
        lines += ["", f"The first {sizes} dimensions may be used alone."]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"


def file_table(hashes: dict[str, str]) -> list[str]:
    """List files with the start of their sha256."""
    rows = (f"| {name} | {digest[:16]}… |" for name, digest in hashes.items())
    return ["| file | sha256 |", "|---|---|", *rows]


def score_table(scores: dict[str, float]) -> list[str]:
    """List scores by evaluation."""
    rows = (f"| {name} | {score:.4f} |" for name, score in scores.items())
    return ["| evaluation | score |", "|---|---|", *rows]
