"""`malmoi data`: pairs that mean the same, and hard negatives, for training."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import BadParameter

from ..encoders import load
from ..errors import counted
from ..evaluation.examples import PAIRS, QUERIES, Form, Roles, read_examples, text, truth
from ..io.files import writing
from ..io.tables import read_texts
from ..mining.negatives import NegativeChoice, Pick, mine_negatives, write_triplets
from ..mining.pairs import LEAST, NEIGHBOURS, TOP, deduplicate, mine_pairs, mine_translations
from ..mining.texts import NumberedLine, read
from .options import ModelOption, Sides, Strict, TableColumn, Threads, arg, opt, parse_columns
from .output import Row, prints_rows, say, watched

app = typer.Typer()


@app.command()
@prints_rows
def pairs(
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
    found = mine_translations(
        encoder,
        lines,
        read(other, column=other_column),
        least=LEAST if least is None else least,
        neighbours=neighbours,
        progress=watched(),
    )
    for one in found[: top or None]:
        scores = {"score": round(one.score, 4), "cosine": round(one.cosine, 4)}
        yield {**scores, **_lines(one.a, one.b)}


def _lines(a: NumberedLine, b: NumberedLine) -> Row:
    return {"a": a.text, "b": b.text, "line_a": a.number, "line_b": b.number}


_FORM = Form(
    ("anchor", "positive"),
    (("anchor", "positive"), *QUERIES, *PAIRS),
    {"same": ("same", "isduplicate", "duplicate")},
    optional=("same",),
)


@app.command()
@prints_rows
def negatives(
    file: Annotated[Path, arg("A .tsv, .csv or .jsonl file of pairs.")],
    model: ModelOption = None,
    columns: Annotated[
        str | None, opt("Columns by role, as anchor=question,positive=answer.")
    ] = None,
    sides: Sides = None,
    documents: Annotated[
        str | None, opt("More texts to choose from, one per line; - is stdin.")
    ] = None,
    count: Annotated[int, opt("Negatives a pair.", min=1)] = 1,
    first: Annotated[int, opt("The first rank that may be taken.", min=1)] = 1,
    last: Annotated[int, opt("The last rank that may be taken.", min=1)] = 50,
    margin: Annotated[float | None, opt("How far below the positive's cosine.")] = None,
    relative_margin: Annotated[float, opt("The same, as a share of it; 0 for none.")] = 0.05,
    pick: Annotated[Pick, opt("Which of those that fit.")] = "nearest",
    seed: Annotated[int, opt("Seed of random picks.", min=0)] = 0,
    strict: Strict = False,
    out: Annotated[Path | None, opt("Write .tsv or .jsonl instead.", "--out", "-o")] = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Find texts near each anchor that do not mean the same, for training."""
    chosen = NegativeChoice(
        count=count,
        first=first,
        last=last,
        margin=margin,
        relative_margin=relative_margin or None,
        pick=pick,
        seed=seed,
    )
    encoder = load(model, threads=threads)
    triplets = mine_negatives(
        encoder,
        _pairs(file, parse_columns(columns), sides, strict),
        documents=read_texts(documents) if documents else (),
        choice=chosen,
        progress=watched(),
    )
    if out is None:
        return map(asdict, triplets)
    say(f"wrote {counted(write_triplets(out, triplets), 'triplet')} to {out}")
    return ()


def _pairs(
    file: Path, columns: Roles | None, sides: str | None, strict: bool
) -> Iterator[tuple[str, str]]:
    """Read the pairs that mean the same; those that a column says do not are left out."""
    examples = read_examples(file, [(_FORM, _parse)], columns=columns, sides=sides, strict=strict)
    kept = [row for row in examples.rows if row is not None]
    if len(kept) < len(examples.rows):
        left = len(examples.rows) - len(kept)
        said = counted(left, "pair is not the same and was", "pairs are not the same and were")
        say(f"{said} left out")
    yield from kept


def _parse(values: Roles) -> tuple[str, str] | None:
    if "same" in values and not truth(values, "same"):
        return None
    return text(values, "anchor"), text(values, "positive")
