"""`malmoi similarity`: how alike texts are."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

from typer import BadParameter

from ..encoders import load
from ..encoders.scale import score_scale
from ..errors import DataError, counted
from ..io.files import read_lines
from ..runtime.pooling import normalize
from .options import ModelOption, Threads, arg, opt
from .output import Row, prints_rows

_BLOCK = 1024


@prints_rows
def similarity(
    texts: Annotated[list[str], arg("Two texts or more; - reads pairs from stdin, tab between.")],
    calibrated: Annotated[
        bool,
        opt(
            "Add where the cosine lies from 0 (unrelated pairs) to 1 (paraphrases).",
            "--calibrated",
        ),
    ] = False,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the cosine of every pair of the texts, from -1 to 1."""
    if texts != ["-"] and len(texts) < 2:
        raise BadParameter("one text was given; give two or more, or - for pairs on stdin")
    encoder = load(model, threads=threads)
    scale = score_scale(encoder) if calibrated else None
    pairs = stdin_pairs() if texts == ["-"] else itertools.combinations(texts, 2)
    while block := list(itertools.islice(pairs, _BLOCK)):
        left = normalize(encoder.encode([a for a, _ in block]))
        right = normalize(encoder.encode([b for _, b in block]))
        scores = (left * right).sum(axis=1)
        likely = scale.calibrated(scores) if scale else [None] * len(scores)
        for (a, b), score, same in zip(block, scores, likely, strict=True):
            row: dict[str, object] = {"a": a, "b": b, "score": round(float(score), 6)}
            yield row if same is None else row | {"same": round(float(same), 4)}


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
