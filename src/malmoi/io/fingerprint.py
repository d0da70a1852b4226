"""What a file or folder is, and what it was made of: hashes, identities and stamps.

Three kinds of record use this module, each in a format of its own on disk:

- a manifest lists the sha256 of every file of a folder (`hash_folder`), and is checked against
  them (`find_changed`): bundles and lexicons;
- an identity is a short hash of whatever decides a result (`hash_text`, `hash_data`): a model, a
  table, the settings of a stage;
- a stamp is a JSON object next to a derived file that says what it was made of (`write_stamp`).
  The file is used again only where its stamp holds all that is asked for (`has_stamp`).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MalmoiError
from .files import parse_json, writing

_CHECKSUM = "checksum"
SHORT = 16  # hex digits of an identity: 64 bits, enough to tell things of one user apart


def sha256(path: Path) -> str:
    """Hash a file, in hexadecimal, without reading it whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_text(text: str) -> str:
    """Hash a text, in hexadecimal; half a surrogate pair is hashed as it is."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_number(text: str) -> int:
    """Hash a text to 64 bits, the same in every process: to choose a share of many by it."""
    return int(hash_text(text)[:16], 16)


def hash_data(data: object) -> str:
    """Give a short identity of JSON-ready data; the order of keys does not matter.

    >>> hash_data({"a": 1, "b": "가"}) == hash_data({"b": "가", "a": 1})
    True
    """
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, default=str)
    return hash_text(text)[:SHORT]


def hash_folder(folder: Path, *, without: str = "") -> dict[str, str]:
    """Hash every file of a folder, by its path inside; `without` is the name of the manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != without)
    return {path.relative_to(folder).as_posix(): sha256(path) for path in paths}


def find_changed(folder: Path, hashes: Mapping[str, str]) -> Path | None:
    """Give the first file that is missing or not what its hash says, None if all are whole."""
    for name, expected in hashes.items():
        path = folder / name
        try:
            if sha256(path) != expected:
                return path
        except OSError:
            return path
    return None


def seal(data: Mapping[str, Any]) -> dict[str, Any]:
    """Add a checksum of all other fields, by which `is_whole` finds a manifest that was damaged."""
    rest = {name: value for name, value in data.items() if name != _CHECKSUM}
    return rest | {_CHECKSUM: _checksum(rest)}


def is_whole(data: Mapping[str, Any]) -> bool:
    """Tell whether sealed data are as they were written; data without a seal always are.

    >>> is_whole(seal({"name": "간"})), is_whole(seal({"name": "간"}) | {"name": "긴"})
    (True, False)
    """
    rest = {name: value for name, value in data.items() if name != _CHECKSUM}
    return bool(data.get(_CHECKSUM, _checksum(rest)) == _checksum(rest))


def check_whole(
    data: Mapping[str, Any], *, where: str, remedy: str, error: type[MalmoiError]
) -> None:
    """Refuse sealed data that are not as they were written."""
    if not is_whole(data):
        raise error(
            f"{where} is not as it was written (its checksum differs): it is damaged. {remedy} If "
            "you changed it yourself, delete its checksum."
        )


def _checksum(data: Mapping[str, Any]) -> str:
    return hash_text(json.dumps(data, sort_keys=True, ensure_ascii=False))


def is_inside(name: str) -> bool:
    """Tell whether a path that a manifest names stays inside the manifest's folder.

    >>> is_inside("onnx/model.onnx"), is_inside("../secret"), is_inside("/etc/passwd")
    (True, False, False)
    >>> is_inside("a\\0b"), is_inside("\\ud800")  # no file has such a name
    (False, False)
    """
    try:
        if b"\0" in os.fsencode(name):
            return False
    except UnicodeEncodeError:
        return False
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def check_format(
    data: object, known: int, *, where: str, remedy: str, error: type[MalmoiError]
) -> dict[str, Any]:
    """Give parsed JSON back if it is an object of a format that this malmoi reads."""
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise error(f'{where} has no field "format"; expected {known}. {remedy}')
    if data["format"] > known:
        raise error(
            f"{where} is of format {data['format']}; this malmoi reads up to {known}. "
            "Install a newer malmoi."
        )
    return data


def write_json(path: Path, data: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Write a JSON object with a line end, whole or not at all."""
    with writing(path) as file:
        text = json.dumps(dict(data), ensure_ascii=False, indent=indent)
        file.write(text.encode("utf-8") + b"\n")


def read_stamp(path: Path) -> dict[str, Any]:
    """Read a JSON object that says what something was made of; {} if missing or broken."""
    try:
        data = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def has_stamp(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a stamp holds all that is wanted; it may hold more."""
    return read_stamp(path).items() >= wanted.items()
