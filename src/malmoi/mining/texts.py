"""A pile of texts as vectors: each distinct one encoded once, on disk when there are many."""

import logging
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..encoder import TextEncoder
from ..errors import DataError, counted
from ..io.tables import read_texts
from ..runtime.pooling import normalize
from ..types import Floats

logger = logging.getLogger(__name__)

# More vectors than this lie in a file, and memory holds only the blocks that are being read.
_IN_MEMORY = 200_000
_BLOCK = 4096


@dataclass(frozen=True)
class Line:
    """A text and the number of the line it was first seen on, from 1."""

    text: str
    number: int


@dataclass(frozen=True)
class Lines:
    """The distinct texts of a file; `again` are the lines that repeat one: (row, line)."""

    lines: list[Line]
    again: list[tuple[int, int]]

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [line.text for line in self.lines]


def gather(texts: Iterable[str], *, where: str) -> Lines:
    """Take in texts, leave empty ones out, and tell repeated ones from new ones."""
    rows: dict[str, int] = {}
    lines: list[Line] = []
    again: list[tuple[int, int]] = []
    empty = 0
    for number, text in enumerate(texts, start=1):
        stripped = text.strip()
        if not stripped:
            empty += 1
        elif stripped in rows:
            again.append((rows[stripped], number))
        else:
            rows[stripped] = len(lines)
            lines.append(Line(stripped, number))
    if empty:
        logger.info(f"{where}: {counted(empty, 'empty line was', 'empty lines were')} left out")
    if not lines:
        raise DataError(f"{where} has no text; expected one a line. Check the file.")
    return Lines(lines, again)


def read(path: str | Path, *, column: str | None = None) -> Lines:
    """Read the texts of a file (or of stdin for "-"), one a line or a table's column."""
    where = "stdin" if str(path) == "-" else str(path)
    return gather(read_texts(path, column=column), where=where)


def vectors_of(encoder: TextEncoder, texts: Sequence[str], *, progress: bool = False) -> Floats:
    """Encode texts into unit vectors (n, dim); many of them into a file that is soon gone."""
    shape = (len(texts), encoder.dimension)
    if len(texts) <= _IN_MEMORY:
        return normalize(encoder.encode(list(texts), progress=progress))
    with tempfile.TemporaryFile() as file:
        table: Floats = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        block: list[Floats] = []
        at = 0
        for vector in encoder.encode_iter(texts, progress=progress):
            block.append(vector)
            if len(block) == _BLOCK:
                table[at : at + _BLOCK] = normalize(np.stack(block))
                at, block = at + _BLOCK, []
        if block:
            table[at:] = normalize(np.stack(block))
    return table
