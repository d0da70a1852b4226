"""A column of texts on disk: bytes end to end, and where each begins. Read by memory map."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array


class Strings(Sequence[str]):
    """Texts that are decoded when asked for; opening them reads nothing."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Take UTF-8 bytes end to end, and the byte after the last one of each text."""
        self._data, self._ends = data, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Strings":
        """Lay texts end to end in memory.

        >>> list(Strings.of(["간", "", "liver"]))
        ['간', '', 'liver']
        """
        raw = [text.encode("utf-8") for text in texts]
        ends = np.cumsum([len(piece) for piece in raw], dtype=np.int64)
        return cls(np.frombuffer(b"".join(raw), np.uint8), ends)

    @classmethod
    def open(cls, folder: Path, name: str) -> "Strings":
        """Map a column that `save` has written."""
        # Plain views of the maps, whose own indexing is slow.
        data, ends = (open_array(folder / f"{file}.npy") for file in (name, f"{name}-ends"))
        return cls(np.asarray(data), np.asarray(ends))

    def save(self, folder: Path, name: str) -> None:
        """Write the column as two .npy files."""
        np.save(folder / f"{name}.npy", self._data)
        np.save(folder / f"{name}-ends.npy", self._ends)

    def __len__(self) -> int:
        """Count the texts."""
        return len(self._ends)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        """Give one text, or a list of those in a slice."""
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no text {i}; there are {len(self)}")
        i %= len(self)
        start = int(self._ends[i - 1]) if i else 0
        return self._data[start : int(self._ends[i])].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        """Give all texts in order, a stretch at a time, so that little is held at once."""
        start = 0
        for first in range(0, len(self), 8192):
            ends = self._ends[first : first + 8192].tolist()
            block = self._data[start : ends[-1]].tobytes()
            at = 0
            for end in ends:
                yield block[at : end - start].decode("utf-8")
                at = end - start
            start = ends[-1]
