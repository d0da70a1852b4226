"""Meaning: the vectors of a lexicon's names, eight bits a value, and the nearest of them."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..lexicon.columns import open_array
from ..pooling import normalize
from ..precision import int8_scale

Floats = NDArray[np.float32]
_ROWS = 16_384  # names multiplied at once: 24 MB of float32 at 384 dimensions
_GROUP = 32


class NameEncoder(Protocol):
    """What the linker asks of an encoder; malmoi.Encoder and StaticEncoder have it."""

    name: str
    dimension: int

    @property
    def encode(self) -> Callable[..., NDArray[Any]]:
        """Give one vector a text; options are those of `TextEncoder.encode`."""


def identity(encoder: object) -> str:
    """Say which model this is: by the hashes of its files, or what is known where it has none."""
    manifest = getattr(encoder, "manifest", None)
    files = sorted(getattr(manifest, "files", {}).items())
    known = [(name, value) for name, value in files if not name.endswith((".md", ".json"))]
    known += [item for item in files if item[0] == "tokenizer.json"]
    label = (getattr(encoder, "name", ""), getattr(encoder, "dimension", 0), type(encoder).__name__)
    told = repr(known) if known else repr(label)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def encode_names(encoder: NameEncoder, texts: Iterable[str], *, progress: bool) -> NDArray[np.int8]:
    """Encode names as int8 codes, each distinct one once. Shape (names, dim)."""
    listed = list(texts)
    if not listed:
        return np.empty((0, encoder.dimension), np.int8)
    # Longest names say enough with their beginning; windows over them would gain nothing.
    cut = [text[:400] for text in listed]
    codes: NDArray[np.int8] = encoder.encode(cut, precision="int8", progress=progress)
    return codes


class Vectors:
    """Int8 vectors, mapped from disk; nothing is held but the block being multiplied."""

    def __init__(self, codes: NDArray[np.int8]) -> None:
        """Take codes of shape (names, dim) as `to_precision` makes them."""
        self.codes = codes
        self._unit = np.float32(1 / int8_scale(codes.shape[1])) if len(codes) else np.float32(1)

    @classmethod
    def open(cls, path: Path) -> "Vectors":
        """Map a file of codes."""
        return cls(open_array(path))

    def __len__(self) -> int:
        """Count the names."""
        return len(self.codes)

    def nearest(self, queries: Floats, count: int) -> NDArray[np.int64]:
        """Give the rows of the nearest names of unit vectors (n, dim). Shape (n, ≤ count).

        The highest of every 32 scores are compared first: the best `count` names lie in the best
        `count` groups, and a group's highest score is cheap to find.
        """
        count = min(count, len(self))
        if not count:
            return np.empty((len(queries), 0), np.int64)
        groups = -(-len(self) // _GROUP)
        scores = np.full((len(queries), groups * _GROUP), -np.inf, np.float32)
        for start in range(0, len(self), _ROWS):
            block = self.codes[start : start + _ROWS].astype(np.float32)
            np.matmul(queries, block.T, out=scores[:, start : start + len(block)])
        shaped = scores.reshape(len(queries), groups, _GROUP)
        highest = shaped.max(axis=2)
        kept = min(count, groups)
        chosen = np.argpartition(-highest, kept - 1, axis=1)[:, :kept]  # (n, kept)
        within = np.take_along_axis(shaped, chosen[:, :, None], axis=1).reshape(len(queries), -1)
        rows = (chosen[:, :, None] * _GROUP + np.arange(_GROUP)).reshape(len(queries), -1)
        top = np.argpartition(-within, count - 1, axis=1)[:, :count]
        found: NDArray[np.int64] = np.take_along_axis(rows, top, axis=1)
        return found

    def cosines(self, query: Floats, rows: NDArray[Any]) -> Floats:
        """Give the cosine of a unit vector (dim,) with chosen names. Shape (rows,)."""
        chosen = normalize(self.codes[rows].astype(np.float32))
        found: Floats = chosen @ query
        return found
