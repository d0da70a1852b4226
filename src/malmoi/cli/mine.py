"""`malmoi mine`: near-duplicates in one file, translations across two."""

from pathlib import Path
from typing import Annotated

import typer

from ..encoder import load
from ..errors import counted
from ..io.files import writing
from ..mining.pairs import TOP, TextPair, deduplicate, mine_pairs
from ..mining.texts import read
from ..mining.translations import LEAST, NEIGHBOURS, Translation, mine_translations
from .output import Csv, ModelOption, Table, Threads, choose, print_rows, say, watched


def mine(
    file: Annotated[str, typer.Argument(help="Texts, one a line, or a table; - is stdin.")],
    other: Annotated[
        str | None, typer.Argument(help="A second file: find translations across the two.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="The column of a table to read.")] = None,
    other_column: Annotated[str | None, typer.Option(help="The second file's column.")] = None,
    least: Annotated[
        float | None,
        typer.Option(help=f"The least score: a cosine (0.8), or across files a margin ({LEAST})."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="How many pairs, best first; 0 for all as found.")
    ] = TOP,
    neighbours: Annotated[
        int, typer.Option(min=1, help="Across files: how many neighbours make the margin.")
    ] = NEIGHBOURS,
    dedup: Annotated[
        Path | None, typer.Option(help="Write the file without near-duplicates there instead.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Find pairs that mean the same, in one file or across two."""
    form = choose(table=table, as_csv=as_csv)
    if other is not None and dedup is not None:
        raise typer.BadParameter("--dedup is for one file")
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
        found = mine_pairs(encoder, lines, least=score, top=top or None, progress=watched())
        print_rows((_pair(pair) for pair in found), form)
        return
    others = read(other, column=other_column)
    pairs = mine_translations(
        encoder,
        lines,
        others,
        least=LEAST if least is None else least,
        neighbours=neighbours,
        progress=watched(),
    )
    print_rows((_translation(pair) for pair in pairs[: top or None]), form)


def _pair(pair: TextPair) -> dict[str, object]:
    return {
        "score": round(pair.score, 4),
        "a": pair.a.text,
        "b": pair.b.text,
        "line_a": pair.a.number,
        "line_b": pair.b.number,
    }


def _translation(pair: Translation) -> dict[str, object]:
    row = _pair(TextPair(pair.a, pair.b, pair.score))
    return {"score": row.pop("score"), "cosine": round(pair.cosine, 4), **row}
