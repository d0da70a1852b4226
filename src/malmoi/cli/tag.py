"""`malmoi tag`: the entities of texts."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from ..io.tables import read_texts
from ..tagger import load_tagger
from .output import Csv, Table, Threads, choose, print_rows


def tag(
    model: Annotated[str, typer.Argument(help="A tagger's bundle, shipped name or hub id.")],
    texts: Annotated[list[str], typer.Argument(help="Texts; - reads stdin, one text a line.")],
    whole: Annotated[
        bool, typer.Option("--whole", help="Read stdin as one text, lines and all.")
    ] = False,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Print the entities of texts of any length; start and end are letters, from 0."""
    form = choose(table=table, as_csv=as_csv)
    tagger = load_tagger(model, threads=threads)
    rows = (
        {
            "index": index,
            "text": found.text,
            "type": found.type,
            "start": found.start,
            "end": found.end,
            "score": round(found.score, 4),
        }
        for index, text in enumerate(_read(texts, whole))
        for found in tagger.tag(text)
    )
    print_rows(rows, form)


def _read(texts: list[str], whole: bool) -> Iterator[str]:
    for text in texts:
        if text != "-":
            yield text
        elif whole:
            yield sys.stdin.buffer.read().decode("utf-8", "replace")
        else:
            yield from read_texts("-")
