"""What a run of any objective gives back.

A run's folder: what may begin or go on there, and that nothing useless stays behind.

`recipe.json` and `data.json` say what a run began with, so that it goes on as it began.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import DataError, OptionError, OutputError
from ..io.files import writing

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainedRun:
    """What a run has made: its bundles or folders, and the best model's scores by evaluation."""

    folder: Path
    bundles: tuple[Path, ...]
    scores: dict[str, float]
    steps: int


RECIPE, DATA = "recipe.json", "data.json"
# What may differ between the run that was stopped and the one that goes on.
_FREE = ("output", "evaluation", "name")
# A folder that holds no other file than these has nothing that a run could go on from.
_SMALL = (RECIPE, DATA, "log.csv")


class HasJson(Protocol):
    """A recipe of any objective."""

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data."""


def check_new(folder: Path, *, resume: bool) -> bool:
    """Keep a run from writing over another; tells whether there is one to go on with."""
    if (folder / RECIPE).is_file():
        if resume:
            return True
        raise OutputError(
            f"{folder} holds a run already; expected a new folder. Go on with it by --resume, "
            "name another one with --set output.folder=…, or remove it."
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputError(
            f"{folder} exists and holds no run; expected a new folder. "
            "Name another one as output.folder."
        )
    parent = next((place for place in folder.absolute().parents if place.exists()), Path("/"))
    if not os.access(parent, os.W_OK):  # told now, and not when all the data are read
        raise _cannot_make(folder, f"{parent} may not be written to")
    return False


def _cannot_make(folder: Path, reason: str) -> OutputError:
    return OutputError(f"cannot make {folder}: {reason}. Name another one as output.folder.")


def check_recipe(recipe: HasJson, folder: Path) -> None:
    """Raise an OptionError where a run would not go on by the recipe that it began with."""
    old, new = _read(folder / RECIPE), json.loads(json.dumps(recipe.to_json()))
    for key in new:
        if key not in _FREE and old.get(key) != new[key]:
            place = _place(old.get(key), new[key], key)
            raise OptionError(
                f"{folder / RECIPE} differs from the recipe in {place}; a run goes on as it began. "
                "Restore the recipe, or begin anew in another output.folder."
            )


def check_data(hashes: Mapping[str, str], folder: Path) -> None:
    """Raise a DataError for the first file that is not the one a run began with."""
    stored = folder / DATA
    if not stored.is_file():
        logger.info(
            f"{folder} has no {DATA}; whether the data are those it began with is not known"
        )
        return
    old = _read(stored)
    for name, digest in hashes.items():
        if name in old and old[name] != digest:
            raise DataError(
                f"{name} is not the file that the run in {folder} began with (its sha256 differs); "
                "a run goes on as it began. Restore the file, or begin anew in another "
                "output.folder."
            )


@contextlib.contextmanager
def opening_run(recipe: HasJson, hashes: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Write down what a run begins with; a run that fails before it has saved leaves nothing."""
    from .checkpoint import clear_halves  # here, because it imports torch

    there = folder.is_dir()  # an empty one, or a link to another disk, that somebody made
    new = not there or not any(folder.iterdir())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a name may hold a NUL
        raise _cannot_make(folder, getattr(error, "strerror", None) or str(error)) from error
    try:
        for place in (folder, folder / "checkpoints"):
            clear_halves(place)
        _write(folder / RECIPE, recipe.to_json())  # the first: it says that there is a run
        _write(folder / DATA, dict(hashes))
        yield
    except BaseException:
        if new and not _has_more(folder):
            for place in list(folder.iterdir()) if there else [folder]:
                shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink()
        raise


def _has_more(folder: Path) -> bool:
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(path.name not in _SMALL and path.parent.name != "tensorboard" for path in files)


def _place(old: object, new: object, key: str) -> str:
    """Name the innermost table's key in which two recipes differ first.

    >>> _place({"epochs": 1, "steps": 0}, {"epochs": 2, "steps": 0}, "schedule")
    'schedule.epochs'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in new:
            if old.get(name) != new[name]:
                return _place(old.get(name), new[name], f"{key}.{name}")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                return _place(one, other, f"{key}[{i}]")
    return key


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with writing(path) as file:
        file.write(json.dumps(data, ensure_ascii=False, indent=2).encode() + b"\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise DataError(
            f"{path} cannot be read as JSON; expected what the run began with. Begin anew in "
            "another output.folder."
        )
    return found
