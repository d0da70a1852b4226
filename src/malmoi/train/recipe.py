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

_DEEPEST = 8


def load_recipe(path: str | Path, *, sets: Sequence[str] = ()) -> Any:
    """Read and check a recipe; `sets` are changes such as "schedule.epochs=2".

    The parts that it includes are read with it: what comes back is the whole recipe.
    """
    table = _read(Path(path), ())
    for change in sets:
        _change(table, change)
    return make_recipe(table, where=str(path))


def _read(path: Path, including: tuple[Path, ...]) -> dict[str, Any]:
    """Read a recipe with its parts; `including` are the files that led here, outermost first."""
    by = f", which {including[-1]} includes" if including else ""
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))  # some editors write a mark
    except OSError as error:
        raise DataError(
            f"cannot read {path}{by}: {error.strerror}. Name a recipe (.toml)."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}{by} is not UTF-8, which TOML is. Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}{by} is not TOML: {error}. Change that line.") from error
    names = table.pop("include", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f'{path}: include is not a list of files; expected one. Write include = ["part.toml"].'
        )
    chain = (*including, path)
    if names and len(chain) > _DEEPEST:
        raise OptionError(
            f"{path} is the part of a part {_DEEPEST} times over and includes more; expected at "
            f"most {_DEEPEST} levels. Move its parts into the file that includes it."
        )
    whole: dict[str, Any] = {}
    for part in (path.parent / name for name in names):
        if part.resolve() in {one.resolve() for one in chain}:
            raise OptionError(
                f"{path} includes {part}, which leads back to itself; expected parts that do not "
                "include their including files. Remove one of the two."
            )
        whole = _merge(whole, _read(part, chain))
    return _merge(whole, table)


def _merge(part: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Put a file's own keys over those of a part: tables are merged, lists of tables appended.

    >>> _merge({"a": {"x": 1, "y": 2}, "b": [{"n": 1}]}, {"a": {"y": 3}, "b": [{"n": 2}]})
    {'a': {'x': 1, 'y': 3}, 'b': [{'n': 1}, {'n': 2}]}
    """
    merged = dict(part)
    for key, value in own.items():
        old = part.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge(old, value)
        elif isinstance(old, list) and _are_tables(old) and _are_tables(value):
            value = [*old, *value]
        merged[key] = value
    return merged


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


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
