"""`malmoi terms`: the nearest terms of a term, and a map of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..encoder import load
from ..io.tables import read_texts
from ..lexicon import Lexicon
from ..mining.terms import nearest_terms
from ..plots import check_figure, plot_terms
from .output import Csv, ModelOption, Table, Threads, choose, print_rows, say


def terms(
    asked: Annotated[list[str], typer.Argument(help="One term or several.")],
    among: Annotated[
        str, typer.Option(help="A lexicon, or a file of terms, one a line; - is stdin.")
    ] = "sample",
    column: Annotated[
        str | None, typer.Option(help="The column of .tsv and .csv, the field of .jsonl.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many nearest terms.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Draw a map (.png, .svg, .pdf).")] = None,
    project: Annotated[Literal["pca", "umap"], typer.Option(help="How the map is made.")] = "pca",
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Print the terms that an encoder holds for nearest, the nearest first."""
    form = choose(table=table, as_csv=as_csv)
    if plot is not None:
        check_figure(plot)
    listed = list(_known(among, column))
    found = nearest_terms(load(model, threads=threads), asked, listed, k=k)
    print_rows(
        ({"term": one.term, "near": one.near, "score": round(one.score, 4)} for one in found.found),
        form,
    )
    if plot is not None:
        plot_terms(found, plot, method=project)
        say(f"wrote {plot}")


def _known(among: str, column: str | None) -> Iterator[str]:
    if among == "sample" or Path(among).is_dir():
        yield from Lexicon.open(among).texts()
    else:
        yield from read_texts(among, column=column)
