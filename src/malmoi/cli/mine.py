"""`malmoi mine`: near-duplicates in one file, translations across two."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import BadParameter

from ..encoders import load
from ..errors import counted
from ..io.files import writing
from ..mining.pairs import LEAST, NEIGHBOURS, TOP, deduplicate, mine_pairs, mine_translations
from ..mining.texts import NumberedLine, read
from .options import ModelOption, TableColumn, Threads, arg, opt
from .output import Row, prints_rows, say, watched


@prints_rows
def mine(
    file: Annotated[str, arg("Texts, one per line, or a table; - is stdin.")],
    other: Annotated[str | None, arg("A second file: find translations across the two.")] = None,
    column: TableColumn = None,
    other_column: Annotated[str | None, opt("The second file's column.")] = None,
    least: Annotated[
        float | None, opt(f"The least score: a cosine (0.8), or across files a margin ({LEAST}).")
    ] = None,
    top: Annotated[int, opt("How many pairs, best first; 0 for all as found.", min=0)] = TOP,
    neighbours: Annotated[
        int, opt("Across files: how many neighbours make the margin.", min=1)
    ] = NEIGHBOURS,
    dedup: Annotated[
        Path | None, opt("Write the file without near-duplicates there instead.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Find pairs that mean the same, in one file or across two."""
    if other is not None and dedup is not None:
        raise BadParameter("--dedup is for one file")
    encoder = load(model, threads=threads)
    lines = read(file, column=column)
    if dedup is not None:
        kept = deduplicate(encoder, lines, least=0.9 if least is None else least)
        with writing(dedup) as out:
            out.writelines(line.text.encode("utf-8", "replace") + b"\n" for line in kept)
        total = len(lines.lines) + len(lines.again)
        say(f"wrote {len(kept):,} of {counted(total, 'line')} to {dedup}")
        return
    if other is None:
        score = 0.8 if least is None else least
        for pair in mine_pairs(encoder, lines, least=score, top=top or None, progress=watched()):
            yield {"score": round(pair.score, 4), **_lines(pair.a, pair.b)}
        return
    pairs = mine_translations(
        encoder,
        lines,
        read(other, column=other_column),
        least=LEAST if least is None else least,
        neighbours=neighbours,
        progress=watched(),
    )
    for one in pairs[: top or None]:
        scores = {"score": round(one.score, 4), "cosine": round(one.cosine, 4)}
        yield {**scores, **_lines(one.a, one.b)}


def _lines(a: NumberedLine, b: NumberedLine) -> Row:
    return {"a": a.text, "b": b.text, "line_a": a.number, "line_b": b.number}
