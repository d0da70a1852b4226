"""`malmoi keywords`: what a document is about, in a few phrases."""

from pathlib import Path
from typing import Annotated

import typer

from ..encoder import load
from ..errors import DataError
from ..io.tables import read_texts
from ..mining.keywords import keywords as find
from ..mining.keywords import read_stopwords
from .output import Csv, ModelOption, Table, Threads, choose, print_rows


def keywords(
    file: Annotated[str, typer.Argument(help="A document; - is stdin.")],
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line, or row of a table, is a document.")
    ] = False,
    column: Annotated[str | None, typer.Option(help="The column of a table to read.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many keywords a document.")] = 10,
    diversity: Annotated[
        float, typer.Option(min=0, max=1, help="How much they may not resemble each other.")
    ] = 0.3,
    stopwords: Annotated[
        Path | None, typer.Option(help="Words to leave out, one a line; -word takes one back.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Print the phrases that tell best what each document is about."""
    form = choose(table=table, as_csv=as_csv)
    stop = read_stopwords(stopwords)
    texts = list(read_texts(file, column=column))
    documents = texts if lines or column is not None else ["\n".join(texts)]
    if not any(document.strip() for document in documents):
        raise DataError(f"{file} has no text; expected a document. Check the file.")
    encoder = load(model, threads=threads)

    def rows() -> "list[dict[str, object]]":
        found: list[dict[str, object]] = []
        for number, document in enumerate(documents, start=1):
            if not document.strip():
                continue
            for word in find(encoder, document, top=top, diversity=diversity, stopwords=stop):
                own = {"document": number} if len(documents) > 1 else {}
                score = round(word.score, 4)
                found.append(own | {"keyword": word.text, "score": score, "count": word.count})
        return found

    print_rows(rows(), form)
