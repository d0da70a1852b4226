"""`malmoi negatives`: pairs in, triplets with hard negatives out."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from ..encoders import load
from ..errors import counted
from ..evaluate.examples import PAIRS, QUERIES, Form, Roles, read_examples, text, truth
from ..io.tables import read_texts
from ..mining.negatives import NegativeChoice, Pick, mine_negatives, write_triplets
from .options import ModelOption, Sides, Strict, Threads, arg, opt, parse_columns
from .output import Row, prints_rows, say, watched

_FORM = Form(
    ("anchor", "positive"),
    (("anchor", "positive"), *QUERIES, *PAIRS),
    {"same": ("same", "isduplicate", "duplicate")},
    optional=("same",),
)


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
