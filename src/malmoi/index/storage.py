"""An index in one file, memory-mapped when opened; a graph is in a second file.

Checksums of all arrays stand in the file and are compared when it is opened, at 1.5 GB a second.
"""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleCorrupt, counted
from ..io.arrays import Streamed, read_safetensors, write_safetensors
from ..io.fingerprint import sha256
from .base import ExactIndex, Index, TablePart, VectorTable
from .flat import BinaryCodes, FlatIndex
from .hnsw import HnswIndex

FORMAT = 1
_BLOCK = 16_384
_CHECKSUMS = "checksums"
_REMEDY = "Delete it and build the index again."


@dataclass(frozen=True)
class IndexInfo:
    """The header of an index file; `stamp` is a text of whoever saved it."""

    engine: str
    dimension: int
    precision: str
    stamp: str = ""
    format: int = FORMAT


def save_index(index: Index, path: str | Path, *, stamp: str = "") -> None:
    """Write an index without its removed rows; memory does not grow with its size."""
    path = Path(path)
    about = IndexInfo(index.engine, index.dimension, index.precision, stamp)
    table = index.table
    rows = np.concatenate([part.rows for part in table.parts])[table.live]
    template = table.base.vectors
    arrays: dict[str, NDArray[Any] | Streamed] = {
        "about": np.frombuffer(json.dumps(asdict(about)).encode(), dtype=np.uint8),
        "rows": rows,
        "vectors": Streamed((len(rows), template.shape[1]), template.dtype, _live_vectors(table)),
    }
    if isinstance(index, FlatIndex) and index.codes is not None:
        planes = index.planes()
        words = planes[0].shape[0]
        live = (
            np.concatenate([part[word] for part in planes])[table.live] for word in range(words)
        )
        arrays["planes"] = Streamed((words, len(rows)), planes[0].dtype, live)
        arrays |= {"mean": index.codes.mean, "frame": index.codes.frame}
    graph = b""
    if isinstance(index, HnswIndex):
        index.save_graph(graph_of(path))
        graph = sha256(graph_of(path)).encode()
    write_safetensors(path, _with_checksums(arrays, graph))


def _with_checksums(
    arrays: dict[str, NDArray[Any] | Streamed], graph: bytes
) -> dict[str, NDArray[Any] | Streamed]:
    """Add an array of checksums, which are computed while the others are written before it."""
    found: dict[str, int] = {"graph": zlib.crc32(graph)}

    def counted_blocks(name: str, blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        value = zlib.crc32(name.encode())
        for block in blocks:
            whole = np.ascontiguousarray(block)
            value = zlib.crc32(whole.reshape(-1).view(np.uint8).data, value)
            yield whole
        found[name] = value

    def checksums() -> Iterator[NDArray[Any]]:
        yield np.array([found[name] for name in sorted(found)], "<u4").view(np.uint8)

    streams = {
        name: one if isinstance(one, Streamed) else Streamed(one.shape, one.dtype, [one])
        for name, one in arrays.items()
    }
    written: dict[str, NDArray[Any] | Streamed] = {
        name: Streamed(one.shape, one.dtype, counted_blocks(name, one.blocks))
        for name, one in streams.items()
    }
    # Bytes come last in the file, and this after all others of one byte.
    size = 4 * (len(arrays) + 1)
    return written | {_CHECKSUMS: Streamed((size,), np.dtype(np.uint8), checksums())}


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Compare every array with its checksum; a file of an earlier version has none."""
    stated = arrays.pop(_CHECKSUMS, None)
    if stated is None:
        return
    graph, found = graph_of(path), dict[str, int]()
    if graph.exists():
        found["graph"] = zlib.crc32(sha256(graph).encode())
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        found[name] = zlib.crc32(data, zlib.crc32(name.encode()))
    names = sorted({*arrays, "graph"})
    known = dict(zip(names, np.frombuffer(stated.tobytes(), "<u4").tolist(), strict=False))
    # A graph that is missing is built again.
    if len(stated) != 4 * len(names) or any(known[name] != found[name] for name in found):
        raise BundleCorrupt(
            f"{path} is damaged: its checksums differ; expected a file as save_index wrote it. "
            f"{_REMEDY}"
        )


def graph_of(path: Path) -> Path:
    """The path of an index file's graph."""
    return path.with_name(path.name + ".graph")


def _live_vectors(table: VectorTable) -> Iterator[NDArray[Any]]:
    start = 0
    for part in table.parts:
        for at in range(0, len(part.rows), _BLOCK):
            live = table.live[start + at : start + min(at + _BLOCK, len(part.rows))]
            yield part.vectors[at : at + _BLOCK][live]
        start += len(part.rows)


def read_about(path: str | Path) -> IndexInfo:
    """Read only the header of an index file."""
    return _about(read_safetensors(Path(path)), Path(path))


def open_index(path: str | Path) -> Index:
    """Open an index that `save_index` wrote, its vectors memory-mapped."""
    path = Path(path)
    arrays = read_safetensors(path)
    _check(arrays, path)
    about = _about(arrays, path)
    part = TablePart(arrays["rows"], arrays["vectors"])
    table = VectorTable(about.dimension, precision=about.precision, base=part)
    if about.engine == "exact":
        return ExactIndex(table)
    codes = planes = None
    if "planes" in arrays:
        codes = BinaryCodes(np.array(arrays["mean"]), np.array(arrays["frame"]))
        planes = arrays["planes"]
    if about.engine == "hnsw":
        graph = graph_of(path) if graph_of(path).exists() else None
        return HnswIndex(table, codes=codes, planes=planes, graph=graph)
    return FlatIndex(table, codes=codes, planes=planes)


def _about(arrays: dict[str, NDArray[Any]], path: Path) -> IndexInfo:
    try:
        about = IndexInfo(**json.loads(arrays["about"].tobytes()))
        shapes = arrays["rows"].shape[0], arrays["vectors"].shape[0]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise BundleCorrupt(
            f"{path} is not an index; expected a file that save_index wrote. {_REMEDY}"
        ) from error
    if about.format > FORMAT or shapes[0] != shapes[1]:
        raise BundleCorrupt(
            f"{path} is an index of format {about.format} with {counted(shapes[0], 'row')} and "
            f"{counted(shapes[1], 'vector')}; expected format {FORMAT} and equal numbers. "
            f"{_REMEDY}"
        )
    return about
