"""`malmoi keywords`: what a document is about, in a few phrases."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..encoder import load
from ..errors import DataError
from ..io.tables import read_texts
from ..mining.keywords import keywords as find
from ..mining.keywords import read_stopwords
from .output import ModelOption, Row, TableColumn, Threads, prints_rows


@prints_rows
def keywords(
    file: Annotated[str, Argument(help="A document; - is stdin.")],
    lines: Annotated[
        bool, Option("--lines", help="Each line, or row of a table, is a document.")
    ] = False,
    column: TableColumn = None,
    top: Annotated[int, Option(min=1, help="How many keywords a document.")] = 10,
    diversity: Annotated[
        float, Option(min=0, max=1, help="How much they may not resemble each other.")
    ] = 0.3,
    stopwords: Annotated[
        Path | None, Option(help="Words to leave out, one a line; -word takes one back.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the phrases that tell best what each document is about."""
    stop = read_stopwords(stopwords)
    texts = list(read_texts(file, column=column))
    documents = texts if lines or column is not None else ["\n".join(texts)]
    if not any(document.strip() for document in documents):
        raise DataError(f"{file} has no text; expected a document. Check the file.")
    encoder = load(model, threads=threads)
    for number, document in enumerate(documents, start=1):
        if not document.strip():
            continue
        own = {"document": number} if len(documents) > 1 else {}
        for word in find(encoder, document, top=top, diversity=diversity, stopwords=stop):
            yield {**own, "keyword": word.text, "score": round(word.score, 4), "count": word.count}
