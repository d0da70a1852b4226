"""Meaning: the vectors of a lexicon's names, eight bits a value, and the nearest of them."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..pooling import normalize
from .sketch import Sketch

Floats = NDArray[np.float32]
_ROWS = 8192  # names multiplied at once: 12 MB of float32 at 384 dimensions
_GROUP = 16


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


def reading(encoder: object) -> dict[str, object]:
    """Say how a model reads text beyond what its files decide, for the stamp of its vectors.

    Only a model that spells signs says it, so that vectors made before any did are used on.
    """
    steps = getattr(getattr(encoder, "manifest", None), "clean", ())
    return {"clean": list(steps)} if "symbols" in steps else {}


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

    def __init__(self, codes: NDArray[np.int8], sketch: Sketch | None = None) -> None:
        """Take codes of shape (names, dim) as `to_precision` makes them, and their sketch."""
        self.codes = np.asarray(codes)  # a plain view: a map's own indexing is slow
        self.sketch = sketch

    def __len__(self) -> int:
        """Count the names."""
        return len(self.codes)

    def nearest(self, queries: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Give the rows of the nearest names of unit vectors (n, dim), and products with them.

        Both of shape (n, ≤ count), in any order.

        With a sketch, names that it does not let pass are not looked at; a few of those at the
        end of the list may be missed.
        """
        if not len(self) or not count:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        if self.sketch is None:
            return self._nearest_of_all(queries, count)
        count = min(count, len(self))
        lists = self.sketch.shortlists(queries, count)
        rows = np.empty((len(queries), count), np.int64)
        scores = np.empty((len(queries), count), np.float32)
        short = [i for i, found in enumerate(lists) if len(found) < count]
        if short:  # names that are alike in hundreds leave too few above any score
            rows[short], scores[short] = self._nearest_of_all(queries[short], count)
        for i, found in enumerate(lists):
            if len(found) >= count:
                products = self.codes[found].astype(np.float32) @ queries[i]
                top = np.argpartition(products, -count)[-count:]
                rows[i], scores[i] = found[top], products[top]
        return rows, scores

    def _nearest_of_all(self, queries: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Multiply with every name, a block at a time, so that memory does not grow with them."""
        rows: list[NDArray[np.int64]] = []
        scores: list[Floats] = []
        for start in range(0, len(self), _ROWS):
            block = self.codes[start : start + _ROWS].astype(np.float32)
            found = queries @ block.T  # (n, block)
            top = _top(found, count)
            rows.append(top + start)
            scores.append(np.take_along_axis(found, top, axis=1))
        return highest(np.concatenate(rows, axis=1), np.concatenate(scores, axis=1), count)

    def cosines(self, query: Floats, rows: NDArray[Any]) -> Floats:
        """Give the cosine of a unit vector (dim,) with chosen names. Shape (rows,)."""
        chosen = self.codes[rows].astype(np.float32)
        lengths = np.sqrt(np.einsum("nd,nd->n", chosen, chosen))
        found: Floats = chosen @ query / np.maximum(lengths, np.float32(1e-12))
        return found

    def unit(self, row: int) -> Floats:
        """Give the vector of a name, of unit length. Shape (dim,)."""
        found: Floats = normalize(self.codes[row : row + 1].astype(np.float32))[0]
        return found


def highest(
    rows: NDArray[np.int64], scores: Floats, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Give of every line the rows with the highest scores, and these. Shape (n, ≤ count)."""
    top = _top(scores, count)
    return np.take_along_axis(rows, top, axis=1), np.take_along_axis(scores, top, axis=1)


def _top(scores: Floats, count: int) -> NDArray[np.int64]:
    """Give the columns of the highest scores of each row, in any order. Shape (n, ≤ count).

    The highest of every few scores are compared first: the best `count` names lie in the best
    `count` groups, and a group's highest score is cheap to find.
    """
    count = min(count, scores.shape[1])
    whole = scores.shape[1] // _GROUP
    if whole <= 2 * count:
        return np.argpartition(-scores, count - 1, axis=1)[:, :count].astype(np.int64)
    # Group g holds the columns g, g + whole, g + 2·whole …: long rows are compared, not short ones.
    shaped = scores[:, : whole * _GROUP].reshape(len(scores), _GROUP, whole)
    groups = np.argpartition(-shaped.max(axis=1), count - 1, axis=1)[:, :count]
    inside = (groups[:, :, None] + np.arange(_GROUP) * whole).reshape(len(scores), -1)
    rest = np.arange(whole * _GROUP, scores.shape[1])
    columns = np.concatenate([inside, np.tile(rest, (len(scores), 1))], axis=1)
    values = np.take_along_axis(scores, columns, axis=1)
    best = np.argpartition(-values, count - 1, axis=1)[:, :count]
    return np.take_along_axis(columns, best, axis=1).astype(np.int64)
