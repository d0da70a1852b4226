"""The parts of a data set, planned from the files alone, so that a run can be resumed.

A part is a range of rows of one .parquet file and becomes one file of the output. That file gets
its name when it is complete: a name that exists is a part that is done.
"""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, OutputError, require
from ..io.files import writing

VECTOR = "vector"
_PLAN = "_malmoi.json"  # readers of .parquet folders ignore names with an underscore


@dataclass(frozen=True)
class DatasetPart:
    """Rows `start` to `start + rows` of a file, and the name of the output file."""

    name: str
    file: str
    start: int
    rows: int


@dataclass(frozen=True)
class Input:
    """A file as it was when the plan was made."""

    file: str
    rows: int
    size: int
    modified: int  # in nanoseconds


@dataclass(frozen=True)
class EncodingSettings:
    """What the vectors depend on; the model is identified by a digest, whatever its name."""

    model: str
    digest: str
    column: str
    dim: int | None
    precision: str
    prompt: str | None
    on_long: str

    def options(self) -> dict[str, Any]:
        """The options of `encode`."""
        names = ("dim", "precision", "prompt", "on_long")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Plan:
    """What an output folder is made from, and how."""

    inputs: tuple[Input, ...]
    settings: EncodingSettings
    part_rows: int

    def parts(self) -> list[DatasetPart]:
        """The parts in the order of the rows, which is also the order of their names."""
        return [
            DatasetPart(
                f"part-{number:06}-{start:012}.parquet",
                one.file,
                start,
                min(self.part_rows, one.rows - start),
            )
            for number, one in enumerate(self.inputs)
            for start in range(0, one.rows, self.part_rows)
        ]

    def save_or_check(self, out: Path) -> None:
        """Write the plan into the output folder, or check that the one there is the same."""
        path, text = out / _PLAN, json.dumps(asdict(self), indent=1, ensure_ascii=False)
        out.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(out.glob("*.parquet")):
                raise OutputError(
                    f"{out} has .parquet files of another origin; expected an empty folder or one "
                    "begun by the same command. Name another folder."
                )
            with writing(path) as file:
                file.write(text.encode())
        elif path.read_text("utf-8") != text:
            raise OutputError(
                f"{out} was begun with other files, another model or other options; expected the "
                "same, to resume it. Name another folder, or remove this one."
            )


def find_inputs(paths: Sequence[str | Path], column: str) -> tuple[Input, ...]:
    """Inspect .parquet files, and those in folders, and check that each has the column."""
    found = []
    for path in map(Path, paths):
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path} has no .parquet files; expected some. Name another folder.")
        found += [_inspect(file.resolve(), column) for file in files]
    if not sum(one.rows for one in found):
        raise DataError("the files have no rows; expected texts. Name other files.")
    return tuple(found)


def _inspect(file: Path, column: str) -> Input:
    arrow = require("pyarrow", extra="scale", purpose="reading .parquet")
    try:
        with _open(file) as source:
            names, rows = source.schema_arrow, source.metadata.num_rows
    except FileNotFoundError as error:
        raise DataError(f"there is no file {file}; expected .parquet. Check the name.") from error
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{file} cannot be read as .parquet; expected one. Convert it.") from error
    if column not in names.names:
        raise DataError(
            f"{file} has no column {column}; it has {', '.join(names.names)}. Name one of these."
        )
    if VECTOR in names.names:
        raise DataError(
            f"{file} has a column {VECTOR} already; expected none. Rename or drop it first."
        )
    types = arrow.types
    kind = names.field(column).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise DataError(f"{column} of {file} is {kind}; expected text. Name another column.")
    stat = file.stat()
    return Input(str(file), rows, stat.st_size, stat.st_mtime_ns)


def read_part(part: DatasetPart) -> Any:
    """Read a part's rows as one Arrow table."""
    try:
        with _open(part.file) as source:
            groups, first = _groups(source.metadata, part)
            return source.read_row_groups(groups).slice(part.start - first, part.rows)
    except FileNotFoundError as error:
        raise DataError(
            f"the node {platform.node()} does not see {part.file}; expected a folder that all "
            "nodes share. Mount it there."
        ) from error


def _groups(metadata: Any, part: DatasetPart) -> tuple[list[int], int]:
    """The row groups that a part overlaps, and the first row of the first of them."""
    groups: list[int] = []
    first = at = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if at < part.start + part.rows and at + rows > part.start:
            first = first if groups else at
            groups.append(group)
        at += rows
    return groups, first


def count_rows(file: Path) -> int:
    """How many rows a .parquet file has, by its footer."""
    with _open(file) as source:
        return int(source.metadata.num_rows)


def _open(file: str | Path) -> Any:
    parquet = require("pyarrow.parquet", extra="scale", purpose="reading .parquet")
    return parquet.ParquetFile(file)
