"""Lists of texts as vectors: each distinct text encoded once, on disk when there are many."""

import itertools
import logging
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..encoders import TextEncoder
from ..errors import DataError, OptionError, counted
from ..io.tables import read_texts
from ..runtime.pooling import normalize
from ..types import Floats

logger = logging.getLogger(__name__)

# More vectors than this are kept in a file, and memory holds only the blocks being read.
_IN_MEMORY = 200_000
_BLOCK = 4096


class NumberedLine(NamedTuple):
    """A text and the number of the line where it first occurs, from 1."""

    text: str
    number: int


@dataclass(frozen=True)
class Lines:
    """The distinct texts of a file; `again` are the lines that repeat one, as (row, line)."""

    lines: list[NumberedLine]
    again: list[tuple[int, int]]

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [line.text for line in self.lines]


def gather(texts: Iterable[str], *, where: str) -> Lines:
    """Collect the distinct texts, without empty ones, and note which lines repeat them."""
    rows: dict[str, int] = {}
    lines: list[NumberedLine] = []
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
            lines.append(NumberedLine(stripped, number))
    if empty:
        logger.info(f"{where}: {counted(empty, 'empty line was', 'empty lines were')} left out")
    if not lines:
        raise DataError(f"{where} has no text; expected one per line. Name another file.")
    return Lines(lines, again)


def read(path: str | Path, *, column: str | None = None) -> Lines:
    """Read the texts of a file (stdin for "-"): one per line, or the column of a table."""
    where = "stdin" if str(path) == "-" else str(path)
    return gather(read_texts(path, column=column), where=where)


def vectors_of(encoder: TextEncoder, texts: Sequence[str], *, progress: bool = False) -> Floats:
    """Encode texts into unit vectors (n, dim), in a temporary file if there are many."""
    shape = (len(texts), encoder.dimension)
    if len(texts) <= _IN_MEMORY:
        return normalize(encoder.encode(list(texts), progress=progress))
    with tempfile.TemporaryFile() as file:
        table: Floats = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        vectors, at = encoder.encode_iter(texts, progress=progress), 0
        while block := list(itertools.islice(vectors, _BLOCK)):
            table[at : at + len(block)] = normalize(np.stack(block))
            at += len(block)
    return table


class NearTerm(NamedTuple):
    """A query term, a term near to it, and their cosine."""

    term: str
    near: str
    score: float


@dataclass(frozen=True)
class Neighbourhood:
    """Query terms, their nearest terms, and a vector for each of them, to be drawn.

    `terms` has the `asked` query terms first; `vectors` is (terms, dim).
    """

    found: list[NearTerm]
    terms: list[str]
    asked: int
    vectors: Floats


def nearest_terms(
    encoder: TextEncoder, asked: Sequence[str], among: Sequence[str], *, k: int = 10
) -> Neighbourhood:
    """Find the `k` terms of a list that are nearest to each query term, without itself."""
    if k < 1:
        raise OptionError(f"k is {k}; expected 1 or more. Ask for at least one term.")
    known = list(dict.fromkeys(term.strip() for term in among if term.strip()))
    wanted = list(dict.fromkeys(asked))
    if not known:
        raise DataError("the list of terms is empty; expected one per line. Name another file.")
    table, queries = encoder.encode(known), encoder.encode(wanted)
    found: list[NearTerm] = []
    rows: dict[str, Floats] = dict(zip(wanted, queries, strict=True))
    for term, query in zip(wanted, queries, strict=True):
        scores = table @ query
        order = [i for i in np.argsort(-scores, kind="stable")[: k + 1] if known[i] != term][:k]
        found += [NearTerm(term, known[i], float(scores[i])) for i in order]
        rows |= {known[i]: table[i] for i in order if known[i] not in rows}
    return Neighbourhood(found, list(rows), len(wanted), np.stack(list(rows.values())))
