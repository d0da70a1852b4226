"""`malmoi similarity`: how alike texts are."""

import itertools
from collections.abc import Iterator
from typing import Annotated

import typer

from ..encoder import TextEncoder, load
from ..errors import DataError, counted
from ..io.files import read_lines
from ..runtime.pooling import normalize
from .output import Csv, ModelOption, Table, Threads, choose, print_rows

_BLOCK = 1024


def similarity(
    texts: Annotated[
        list[str], typer.Argument(help="Two texts or more; - reads pairs from stdin, tab between.")
    ],
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Print the cosine of every pair of the texts, from -1 to 1."""
    form = choose(table=table, as_csv=as_csv)
    if texts != ["-"] and len(texts) < 2:
        raise typer.BadParameter("one text was given; give two or more, or - for pairs on stdin")
    encoder = load(model, threads=threads)
    pairs = _stdin_pairs() if texts == ["-"] else itertools.combinations(texts, 2)
    print_rows(_scored(encoder, pairs), form)


def _scored(
    encoder: TextEncoder, pairs: Iterator[tuple[str, str]]
) -> Iterator[dict[str, str | float]]:
    while block := list(itertools.islice(pairs, _BLOCK)):
        left = normalize(encoder.encode([a for a, _ in block]))
        right = normalize(encoder.encode([b for _, b in block]))
        for (a, b), score in zip(block, (left * right).sum(axis=1), strict=True):
            yield {"a": a, "b": b, "score": round(float(score), 6)}


def _stdin_pairs() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines("-"), start=1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise DataError(
                f"line {number} of stdin has {counted(len(parts), 'field')}; expected two texts "
                "with a tab between them. Mend the line."
            )
        yield parts[0], parts[1]
