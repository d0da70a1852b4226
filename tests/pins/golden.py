"""Golden files, the command line as a function, and recipes written as TOML."""

import contextlib
import difflib
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from malmoi.cli import main

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
UPDATE = os.environ.get("MALMOI_UPDATE_PINS") == "1"


def check_text(name: str, text: str) -> None:
    """Compare a text with a golden file, or write that file when asked to."""
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text, "utf-8", newline="\n")
    expected = path.read_text("utf-8") if path.exists() else ""
    if text != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="", n=1
        )
        shown = "\n".join(list(lines)[:80])
        pytest.fail(f"{shown}\n\nIf this change is meant: MALMOI_UPDATE_PINS=1 pytest tests/pins")


def check_json(name: str, data: object, *, within: float = 0.0) -> None:
    """Compare JSON data with a golden file; numbers may differ by `within`, or that share."""
    text = _pretty(data)
    path = GOLDEN / name
    if within and not UPDATE and path.exists():
        expected = json.loads(path.read_text("utf-8"))
        text = _pretty(_settle(json.loads(text), expected, within))
    check_text(name, text)


def check_entry(name: str, key: str, data: object, *, within: float = 0.0) -> None:
    """Compare JSON data with one key of a golden file that several tests share."""
    path = GOLDEN / name
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    check_json(name, dict(sorted((kept | {key: data}).items())), within=within)


def _settle(found: Any, expected: Any, within: float) -> Any:
    """Give `found` with the expected numbers where they are near enough."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: _settle(value, expected.get(key), within) for key, value in found.items()}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [_settle(a, b, within) for a, b in zip(found, expected, strict=True)]
    if not isinstance(found, float) or not isinstance(expected, int | float):
        return found
    return expected if abs(found - expected) <= within * max(1.0, abs(expected)) else found


def _pretty(data: object) -> str:
    return _lines(json.loads(json.dumps(data, default=list)), "") + "\n"


def _lines(data: Any, indent: str) -> str:
    """Write JSON with what is short, and every list of numbers, on one line."""
    line = json.dumps(data, ensure_ascii=False)
    numbers = isinstance(data, list) and all(isinstance(one, int | float) for one in data)
    if not data or not isinstance(data, dict | list) or numbers or len(line) + len(indent) <= 90:
        return line
    inner = indent + " "
    if isinstance(data, dict):
        parts = [f"{json.dumps(k, ensure_ascii=False)}: {_lines(data[k], inner)}" for k in data]
    else:
        parts = [_lines(one, inner) for one in data]
    first, last = "{}" if isinstance(data, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{last}"


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


def malmoi(*args: object, stdin: str = "") -> Done:
    """Run `malmoi …` in this process."""
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"),
        "stdout": io.TextIOWrapper(io.BytesIO(), "utf-8"),
        "stderr": io.TextIOWrapper(io.BytesIO(), "utf-8"),
    }
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        patch.setattr(sys, "argv", ["malmoi", *map(str, args)])
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as leaving:
            main()
    texts = []
    for name in ("stdout", "stderr"):
        streams[name].flush()
        texts.append(streams[name].buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Done(int(leaving.value.code or 0), *texts)


def to_toml(table: Mapping[str, Any]) -> str:
    """Write a table as TOML, nested tables inline."""
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key, ensure_ascii=False)} = {_value(v)}" for key, v in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def files_of(folder: Path) -> list[str]:
    """List every file under a folder."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch's threads from waiting for each other over matrices this small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
