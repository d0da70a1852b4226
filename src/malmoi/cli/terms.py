"""`malmoi terms`: the nearest terms of a term, and a map of them."""

from pathlib import Path
from typing import Annotated

from ..encoders import load
from ..io.tables import read_texts
from ..mining.figures import check_figure, plot_terms
from ..mining.maps import Project
from ..mining.texts import nearest_terms
from ..terms import Lexicon
from .options import Column, ModelOption, Threads, arg, opt
from .output import Format, print_rows, prints_rows


@prints_rows
def terms(
    asked: Annotated[list[str], arg("One term or several.")],
    among: Annotated[
        str, opt("A lexicon, or a file of terms, one per line; - is stdin.")
    ] = "sample",
    column: Column = None,
    k: Annotated[int, opt("How many nearest terms.", "--k", "-k", min=1)] = 10,
    plot: Annotated[Path | None, opt("Draw a map (.png, .svg, .pdf).")] = None,
    project: Annotated[Project, opt("How the map is made.")] = "pca",
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Print the terms that an encoder holds for nearest, the nearest first."""
    if plot is not None:
        check_figure(plot)
    known = (
        Lexicon.open(among).texts()
        if among == "sample" or Path(among).is_dir()
        else read_texts(among, column=column)
    )
    found = nearest_terms(load(model, threads=threads), asked, list(known), k=k)
    print_rows(
        ({"term": one.term, "near": one.near, "score": round(one.score, 4)} for one in found.found),
        form,
    )
    if plot is not None:
        plot_terms(found, plot, method=project)
