"""What runs on the nodes: an actor that keeps the model and turns parts into files of vectors."""

import hashlib
import platform
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bundle import MANIFEST, open_bundle
from ..catalog import find_model
from ..encoder import TextEncoder, load
from ..errors import BundleError, CutWarning, DataError, MalmoiError, counted, require
from ..files import writing
from .parts import VECTOR, Part, Settings, read_part


@dataclass(frozen=True)
class Report:
    """What became of a part; `kind` and `problem` are empty when it is done.

    A problem with no kind of malmoi's own is worth another try.
    """

    name: str
    rows: int = 0
    cut: int = 0
    empty: int = 0
    kind: str = ""
    problem: str = ""


class PartEncoder:
    """Encodes part after part with one model, opened when the first part comes.

    Problems are told in the report instead of raised: what Ray makes of an exception goes into
    its logs, and a text might be in it.
    """

    def __init__(self, settings: Settings, out: str, threads: int) -> None:
        self._settings = settings
        self._out = Path(out)
        self._threads = threads
        self._encoder: TextEncoder | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Take a part as a row of Ray Data's, and give its report as another."""
        part = Part(row["name"], row["file"], int(row["start"]), int(row["rows"]))
        return vars(self.encode(part))

    def encode(self, part: Part) -> Report:
        """Write a part's file; one that is there already is left as it is."""
        if (self._out / part.name).exists():
            return Report(part.name, part.rows)
        try:
            self._encoder = self._encoder or self._open()
            return self._write(part, self._encoder)
        except MalmoiError as error:
            return Report(part.name, kind=type(error).__name__, problem=str(error))
        except Exception as error:  # the text of a foreign error may quote a user's
            return Report(part.name, problem=f"{type(error).__name__} on {platform.node()}")

    def _open(self) -> TextEncoder:
        settings = self._settings
        try:
            found = model_digest(settings.model)
        except BundleError as error:
            raise BundleError(
                f"the node {platform.node()} cannot use the model {settings.model} ({error}) "
                "Put the same model in the same place on every node."
            ) from error
        if found != settings.digest:
            raise BundleError(
                f"the node {platform.node()} has another model {settings.model}; expected the same "
                "everywhere. Copy it there again."
            )
        return load(settings.model, threads=self._threads)

    def _write(self, part: Part, encoder: TextEncoder) -> Report:
        parquet = require("pyarrow.parquet", extra="scale", purpose="writing .parquet")
        rows = cut = empty = 0
        with writing(self._out / part.name) as file:
            writer: Any = None
            try:
                for table, cut_here, empty_here in self._tables(part, encoder):
                    writer = writer or parquet.ParquetWriter(file, table.schema)
                    writer.write_table(table)
                    rows += table.num_rows
                    cut, empty = cut + cut_here, empty + empty_here
            finally:  # an open writer would write its footer into a file that is gone
                if writer is not None:
                    writer.close()
            if rows != part.rows:
                raise DataError(
                    f"{part.file} has changed while it was read; expected "
                    f"{counted(part.rows, 'row')} from "
                    f"row {part.start:,} on, found {rows:,}. Begin again in another folder."
                )
        return Report(part.name, rows, cut, empty)

    def _tables(self, part: Part, encoder: TextEncoder) -> Iterator[tuple[Any, int, int]]:
        """Each batch with its vectors beside, how many texts were cut and how many are empty."""
        arrow = require("pyarrow", extra="scale", purpose="writing .parquet")
        settings = self._settings
        for batch in read_part(part):
            texts = [text or "" for text in batch.column(settings.column).to_pylist()]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                vectors = encoder.encode(
                    texts,
                    dim=settings.dim,
                    precision=settings.precision,  # type: ignore[arg-type]
                    prompt=settings.prompt,
                    on_long=settings.on_long,  # type: ignore[arg-type]
                )
            flat = arrow.array(np.ascontiguousarray(vectors).reshape(-1))
            column = arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            table = arrow.Table.from_batches([batch]).append_column(VECTOR, column)
            yield table, _cut(caught), sum(not text.strip() for text in texts)


def _cut(caught: list[warnings.WarningMessage]) -> int:
    """How many texts the encoder's warnings speak of."""
    told = [str(one.message) for one in caught if issubclass(one.category, CutWarning)]
    return sum(int(message.split(" ", 1)[0].replace(",", "")) for message in told)


def model_digest(model: str) -> str:
    """A digest of a model: of its manifest, which has one of every file, or of its graph."""
    bundle = open_bundle(find_model(model))
    manifest = bundle.folder / MANIFEST
    with (manifest if manifest.is_file() else bundle.graph).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
