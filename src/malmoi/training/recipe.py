"""A recipe is a TOML file; this module reads and checks one of any objective, without torch."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, OptionError
from .objective import find_objective
from .objectives.pairs import Data, Recipe
from .schema import BaseRecipe, Evaluation, Output, Schedule, parse_table

__all__ = [
    "BaseRecipe",
    "Data",
    "Evaluation",
    "Output",
    "Recipe",
    "Schedule",
    "load_recipe",
    "make_recipe",
]


def load_recipe(path: str | Path, *, sets: Sequence[str] = ()) -> Any:
    """Read and check a recipe; `sets` are changes such as "schedule.epochs=2"."""
    table = read_recipe(Path(path))
    for change in sets:
        _change(table, change)
    return make_recipe(table, where=str(path))


def read_recipe(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # some editors write a mark
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Name a recipe (.toml).") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8, which TOML is. Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {error}. Change that line.") from error


def make_recipe(table: dict[str, Any], *, where: str = "the recipe") -> Any:
    """Check parsed TOML, or a dictionary of the same form; gives the recipe of its objective."""
    name = table.get("objective")
    named = isinstance(name, str) and name  # one for pairs may name it in its data only
    model = find_objective(str(name), where=where).recipe if named else Recipe
    return parse_table(model, table, where=where)


def _change(table: dict[str, Any], change: str) -> None:
    """Put one "key=value" into the table; the value is TOML, or text when it is not."""
    name, sign, value = change.partition("=")
    if not sign or not name.strip():
        raise OptionError(f'--set {change}: no "="; expected key=value, as schedule.epochs=2.')
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    *parents, last = name.strip().split(".")
    inner: Any = table
    for part in parents:
        at = _index(inner, part, change)
        inner = inner[at] if isinstance(inner, list) else inner.setdefault(at, {})
    inner[_index(inner, last, change)] = parsed


def _index(table: Any, name: str, change: str) -> Any:
    """Give the key or the number that a part of "data.0.weight" names in its table or list."""
    if isinstance(table, list):
        if not name.isdecimal():
            raise OptionError(
                f"--set {change}: {name} is no number; expected one, as data.0.weight=2."
            )
        if int(name) >= len(table):
            raise OptionError(
                f"--set {change}: there is no number {name}; expected 0 to {len(table) - 1}. "
                "Count from 0, or add the table to the recipe."
            )
        return int(name)
    if not isinstance(table, dict) or not name:
        raise OptionError(
            f'--set {change}: what stands before "{name}" is no table; expected key=value, as '
            "schedule.epochs=2."
        )
    return name
