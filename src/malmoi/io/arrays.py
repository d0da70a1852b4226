"""Arrays in files: .npy, .safetensors and .parquet, written block by block.

The writers do not know how many rows there will be, so .npy and .safetensors reserve bytes for
their header and fill it in at the end; only the current rows are held in memory.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleCorrupt, LexiconError, OptionError, require
from .files import parse_json, writing

Write = Callable[[list[str], NDArray[Any]], None]

_HEADER = 128  # bytes reserved for a header whose length is not known yet
_DTYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8}
_DTYPES |= {"I64": np.int64, "U64": np.uint64}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .safetensors file, memory-mapped."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        size = int.from_bytes(data[:8].tobytes(), "little")
        header = parse_json(data[8 : 8 + size].tobytes())
        header.pop("__metadata__", None)
        return {name: _view(data[8 + size :], spec) for name, spec in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _corrupt(path) from error


def tensor_names(path: Path) -> list[str]:
    """Name the arrays of a .safetensors file, of whatever kind, without reading any of them."""
    return list(_read_header(path))


def count_values(path: Path) -> int:
    """Count the numbers in all arrays of a .safetensors file, without reading any of them."""
    return sum(math.prod(spec["shape"]) for spec in _read_header(path).values())


def _read_header(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = parse_json(
                file.read(size) if size <= path.stat().st_size else b""
            )
        header.pop("__metadata__", None)
        ends = [spec["data_offsets"][1] for spec in header.values()]
        if 8 + size + max(ends, default=0) != path.stat().st_size:
            raise ValueError
        return header
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _corrupt(path) from error


def _corrupt(path: Path) -> BundleCorrupt:
    return BundleCorrupt(
        f"{path} cannot be read as safetensors; expected a whole file. Copy the folder again."
    )


def _view(data: NDArray[np.uint8], spec: dict[str, Any]) -> NDArray[Any]:
    start, end = spec["data_offsets"]
    return data[start:end].view(_DTYPES[spec["dtype"]]).reshape(spec["shape"])


@dataclass(frozen=True)
class Streamed:
    """An array that is written block by block: its shape and kind, and the blocks in order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Iterable[NDArray[Any]]


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any] | Streamed]) -> None:
    """Write arrays to a .safetensors file, those with the widest values first.

    A `Streamed` array is never held whole.
    """
    streams = {
        name: one if isinstance(one, Streamed) else Streamed(one.shape, one.dtype, [one])
        for name, one in arrays.items()
    }
    # The format wants every array to start at a multiple of its values' width.
    ordered = sorted(streams.items(), key=lambda item: -item[1].dtype.itemsize)
    header: dict[str, Any] = {}
    end = 0
    for name, array in ordered:
        start, end = end, end + int(np.prod(array.shape)) * array.dtype.itemsize
        dtype = _NAMES[array.dtype]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    with writing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            for block in array.blocks:
                file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)


@contextmanager
def writing_vectors(path: Path) -> Iterator[Write]:
    """Open a vector file by its ending; the block calls `write(texts, vectors)` for each chunk.

    Only .parquet keeps the texts next to their vectors. The file appears when the block ends
    without error, and not at all otherwise.
    """
    headers = {".npy": _npy_header, ".safetensors": _safetensors_header}
    known = (*headers, ".parquet")
    if path.suffix not in known:
        raise OptionError(
            f"{path.name} ends in {path.suffix or 'nothing'}; known are {', '.join(known)}. "
            "Choose one of these endings."
        )
    if path.suffix == ".parquet":  # say so before a long run, not after it
        require("pyarrow", extra="parquet", purpose="writing .parquet")
    with writing(path) as file:
        own = path.suffix
        with _parquet(file) if own == ".parquet" else _rows(file, headers[own]) as write:
            yield write


@contextmanager
def _rows(
    file: BinaryIO, header: Callable[[tuple[int, ...], np.dtype[Any]], bytes]
) -> Iterator[Write]:
    """Write rows after an empty header, then fill the header in."""
    file.write(b" " * _HEADER)
    count, last = 0, np.zeros((0, 0), dtype=np.float32)

    def write(texts: list[str], vectors: NDArray[Any]) -> None:
        nonlocal count, last
        file.write(np.ascontiguousarray(vectors).tobytes())
        count, last = count + len(vectors), vectors[:0]

    yield write
    filled = header((count, *last.shape[1:]), last.dtype)
    file.seek(0)
    file.write(filled)


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False})[:-1]
    text += f", 'shape': {shape!r}, }}"
    start = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
    return start + text.encode().ljust(_HEADER - 11) + b"\n"


def _safetensors_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    size = int(np.prod(shape)) * dtype.itemsize
    spec = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": [0, size]}
    text = json.dumps({"vectors": spec}, separators=(",", ":"))
    return (_HEADER - 8).to_bytes(8, "little") + text.encode().ljust(_HEADER - 8)


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Write]:
    arrow = require("pyarrow", extra="parquet", purpose="writing .parquet")
    parquet = require("pyarrow.parquet", extra="parquet", purpose="writing .parquet")
    writer: Any = None

    def write(texts: list[str], vectors: NDArray[Any]) -> None:
        nonlocal writer
        flat = arrow.array(np.ascontiguousarray(vectors).reshape(-1))
        column = arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        table = arrow.table({"text": arrow.array(texts, arrow.string()), "vector": column})
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:  # an open writer would write its footer later, into a file that is gone
        if writer is not None:
            writer.close()


REBUILD = "Build it again with: malmoi lexicon build"


def open_array(path: Path) -> NDArray[Any]:
    """Map an array file, read-only; an empty one is read, because it cannot be mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except FileNotFoundError as error:
        raise LexiconError(
            f"{path.parent} lacks {path.name}; expected a whole lexicon. Copy the folder again, "
            f"or {REBUILD[0].lower()}{REBUILD[1:]}"
        ) from error
    except ValueError as error:
        if "empty" in str(error):
            return np.load(path, allow_pickle=False)  # type: ignore[no-any-return]
        raise LexiconError(
            f"{path} is no array, or cut short; expected what malmoi wrote. {REBUILD}"
        ) from error
    except OSError as error:
        raise LexiconError(f"cannot read {path}: {error.strerror or error}. {REBUILD}") from error
