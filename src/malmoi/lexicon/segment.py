"""A part of a lexicon that is written once: names in columns, with an index by folded text.

Names stand sorted by concept, so a concept's names are a range of rows. A lexicon begins with one
segment; what is added later makes another, and nothing that was written before changes.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from .strings import Strings
from .terms import KINDS, LANGUAGES, Name, fold

Small = NDArray[np.uint8]
Rows = NDArray[np.int32]
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Segment:
    """Names in columns. `concepts` counts through the whole lexicon, rows through this segment.

    `codes` are the concepts that this segment brings; they follow those of the segments before.
    `folder` is where it stands, None while it is only in memory.
    """

    folder: Path | None
    identity: str
    texts: Strings
    originals: Strings
    original_rows: Rows  # the rows whose original text differs, ascending
    concepts: Rows
    languages: Small
    kinds: Small
    sources: NDArray[np.uint16]
    source_names: tuple[str, ...]
    codes: Strings
    keys: Keys  # hashes of folded texts, ascending
    key_rows: Rows  # the row of each

    def __len__(self) -> int:
        """Count the names."""
        return len(self.concepts)

    @classmethod
    def open(cls, folder: Path, *, identity: str, source_names: Sequence[str]) -> "Segment":
        """Map a segment's files; nothing is read until it is asked for."""
        return cls(
            folder,
            identity,
            Strings.open(folder, "texts"),
            Strings.open(folder, "originals"),
            open_array(folder / "original-rows.npy"),
            open_array(folder / "concepts.npy"),
            open_array(folder / "languages.npy"),
            open_array(folder / "kinds.npy"),
            open_array(folder / "sources.npy"),
            tuple(source_names),
            Strings.open(folder, "codes"),
            open_array(folder / "keys.npy"),
            open_array(folder / "key-rows.npy"),
        )

    @classmethod
    def of(cls, names: Sequence[Name], concepts: Rows, codes: Sequence[str]) -> "Segment":
        """Lay names out in memory; `concepts` holds the number of each one's concept, ascending."""
        changed = [i for i, name in enumerate(names) if name.original != name.text]
        sources = list(dict.fromkeys(name.source for name in names))
        numbers = {source: i for i, source in enumerate(sources)}
        keys = np.array([key_of(name.text) for name in names], np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.int32)
        texts = Strings.of(name.text for name in names)
        return cls(
            None,
            _identity(names, concepts, codes),
            texts,
            Strings.of(names[i].original for i in changed),
            np.array(changed, np.int32),
            concepts,
            np.array([LANGUAGES.index(name.language) for name in names], np.uint8),
            np.array([KINDS.index(name.kind) for name in names], np.uint8),
            np.array([numbers[name.source] for name in names], np.uint16),
            tuple(sources),
            Strings.of(codes),
            keys[order],
            order,
        )

    def save(self, folder: Path) -> None:
        """Write the columns into an empty folder."""
        self.texts.save(folder, "texts")
        self.originals.save(folder, "originals")
        self.codes.save(folder, "codes")
        np.save(folder / "original-rows.npy", self.original_rows)
        for name in ("concepts", "languages", "kinds", "sources", "keys"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        np.save(folder / "key-rows.npy", self.key_rows)

    def original(self, row: int) -> str:
        """Give a name as its table has it."""
        at = int(np.searchsorted(self.original_rows, row))
        if at < len(self.original_rows) and int(self.original_rows[at]) == row:
            return self.originals[at]
        return self.texts[row]

    def rows_of(self, concept: int) -> range:
        """Give the rows of a concept, by its number in the lexicon."""
        number = np.int32(concept)  # of the array's own type, or the array is copied into another
        first = int(np.searchsorted(self.concepts, number, "left"))
        return range(first, int(np.searchsorted(self.concepts, number, "right")))

    def find(self, text: str) -> list[int]:
        """Give the rows whose names equal a text but for case, width and spaces, ascending."""
        folded, key = fold(text), key_of(text)
        first = int(np.searchsorted(self.keys, key, "left"))
        last = int(np.searchsorted(self.keys, key, "right"))
        rows = sorted(int(row) for row in self.key_rows[first:last])
        return [row for row in rows if fold(self.texts[row]) == folded]


def key_of(text: str) -> np.uint64:
    """Hash a text's folded form to 64 bits, the same in every process."""
    digest = hashlib.blake2b(fold(text).encode("utf-8"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _identity(names: Sequence[Name], concepts: Rows, codes: Sequence[str]) -> str:
    """Hash all that a derived file (vectors, n-grams) depends on: texts, concepts and codes."""
    hashed = hashlib.sha256(np.ascontiguousarray(concepts).tobytes())
    for name in names:
        hashed.update(f"{name.text}\0{name.kind}\0".encode())
    for code in codes:
        hashed.update(f"\1{code}".encode())
    return hashed.hexdigest()
