"""A table of a TOML file → a frozen dataclass, with one clear line for whatever does not fit."""

import dataclasses
import difflib
import math
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import OptionError, counted

T = TypeVar("T")

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_table(cls: type[T], table: object, *, where: str, prefix: str = "") -> T:
    """Make a dataclass from a table; `where` names the file and `prefix` the table in messages."""
    if not isinstance(table, dict):
        name = prefix.rstrip(".") or "it"
        raise OptionError(f"{where}: {name} is not a table; expected keys. Mend it.")
    hints = get_type_hints(cls)
    specs = {spec.name: spec for spec in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in specs:
            raise unknown_key(f"{prefix}{key}", [f"{prefix}{name}" for name in specs], where)
    for name, spec in specs.items():
        if name not in table and _required(spec):
            raise OptionError(f"{where}: {prefix}{name} is missing; expected it. Add the key.")
    values = {
        key: _typed(value, hints[key], where=where, key=f"{prefix}{key}")
        for key, value in table.items()
    }
    return cls(**values)


def unknown_key(key: str, known: list[str], where: str) -> OptionError:
    """Say that a key is not known, and which one was perhaps meant."""
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"Did you mean {near[0]}?" if near else "Remove it."
    return OptionError(f"{where}: {key} is not a key; known are {', '.join(known)}. {meant}")


def _required(spec: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return spec.default is missing and spec.default_factory is missing


def _typed(value: object, hint: Any, *, where: str, key: str) -> Any:
    """Check one value against the type of its field; lists become tuples, whole numbers floats."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        hint = next(kind for kind in inner if kind is not type(None))
        return _typed(value, hint, where=where, key=key)
    if dataclasses.is_dataclass(hint):
        return read_table(hint, value, where=where, prefix=f"{key}.")  # type: ignore[arg-type]
    if origin is tuple:
        return _tuple(value, inner, where=where, key=key)
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(value, "a table", where=where, key=key)
        kind = inner[1]
        return {k: _typed(v, kind, where=where, key=f"{key}.{k}") for k, v in value.items()}
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(value, _NAMES.get(hint, hint.__name__), where=where, key=key)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(value, "a finite number", where=where, key=key)
    return value


def _tuple(value: object, inner: tuple[Any, ...], *, where: str, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(value, "a list", where=where, key=key)
    kinds = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
    if len(value) != len(kinds):
        raise _wrong(value, counted(len(kinds), "value"), where=where, key=key)
    return tuple(
        _typed(item, kind, where=where, key=f"{key}[{i}]")
        for i, (item, kind) in enumerate(zip(value, kinds, strict=True))
    )


def _wrong(value: object, expected: str, *, where: str, key: str) -> OptionError:
    shown = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    return OptionError(f"{where}: {key} is {shown}; expected {expected}. Correct it.")
