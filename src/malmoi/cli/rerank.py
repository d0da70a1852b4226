"""`malmoi rerank`: texts sorted by how well they answer a query."""

from typing import Annotated

import typer

from ..errors import DataError
from ..io.tables import read_texts
from ..reranker.reranker import load_reranker
from .output import Csv, Table, Threads, choose, print_rows


def rerank(
    query: Annotated[str, typer.Argument(help="The text to compare the others with.")],
    file: Annotated[str, typer.Argument(help="A text file, one text a line; - is stdin.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A reranker's bundle, name or hub id; the shipped one."),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many texts to print.")] = 10,
    column: Annotated[
        str | None, typer.Option(help="The column of .tsv and .csv, the field of .jsonl.")
    ] = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Print the texts that answer the query best, the best first; index counts from 0."""
    form = choose(table=table, as_csv=as_csv)
    reranker = load_reranker(model, threads=threads)
    texts = list(read_texts(file, column=column))
    if not texts:
        raise DataError(f"{file} is empty; expected one text a line. Name another file.")
    hits = reranker.rank(query, texts, k=k)
    print_rows(
        (
            {"rank": rank, "index": hit.index, "text": hit.text, "score": round(hit.score, 6)}
            for rank, hit in enumerate(hits, start=1)
        ),
        form,
    )
