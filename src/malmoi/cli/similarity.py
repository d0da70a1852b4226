"""`malmoi similarity`: how alike texts are."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

from typer import BadParameter

from ..encoder import load
from ..errors import DataError, counted
from ..io.files import read_lines
from ..runtime.pooling import normalize
from .options import ModelOption, Threads, arg
from .output import Row, prints_rows

_BLOCK = 1024


@prints_rows
def similarity(
    texts: Annotated[list[str], arg("Two texts or more; - reads pairs from stdin, tab between.")],
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the cosine of every pair of the texts, from -1 to 1."""
    if texts != ["-"] and len(texts) < 2:
        raise BadParameter("one text was given; give two or more, or - for pairs on stdin")
    encoder = load(model, threads=threads)
    pairs = stdin_pairs() if texts == ["-"] else itertools.combinations(texts, 2)
    while block := list(itertools.islice(pairs, _BLOCK)):
        left = normalize(encoder.encode([a for a, _ in block]))
        right = normalize(encoder.encode([b for _, b in block]))
        for (a, b), score in zip(block, (left * right).sum(axis=1), strict=True):
            yield {"a": a, "b": b, "score": round(float(score), 6)}


def stdin_pairs() -> Iterator[tuple[str, str]]:
    """Read pairs of texts, a line each, with a tab between."""
    for number, line in enumerate(read_lines("-"), start=1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise DataError(
                f"line {number} of stdin has {counted(len(parts), 'field')}; expected two texts "
                "with a tab between them. Add or remove a tab in that line."
            )
        yield parts[0], parts[1]
