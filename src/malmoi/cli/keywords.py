"""`malmoi keywords`: what a document is about, in a few phrases."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from ..encoders import load
from ..errors import DataError
from ..io.tables import read_texts
from ..mining.keywords import keywords as find
from ..mining.keywords import read_stopwords
from .options import ModelOption, TableColumn, Threads, arg, opt
from .output import Row, prints_rows


@prints_rows
def keywords(
    file: Annotated[str, arg("A document; - is stdin.")],
    lines: Annotated[bool, opt("Each line, or row of a table, is a document.", "--lines")] = False,
    column: TableColumn = None,
    top: Annotated[int, opt("How many keywords a document.", min=1)] = 10,
    diversity: Annotated[
        float, opt("How much they may not resemble each other.", min=0, max=1)
    ] = 0.3,
    max_sum: Annotated[
        int,
        opt("Instead: of this many nearest phrases those that resemble each other least.", min=0),
    ] = 0,
    stopwords: Annotated[
        Path | None, opt("Words to leave out, one per line; -word takes one back.")
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
        for word in find(
            encoder, document, top=top, diversity=diversity, max_sum=max_sum, stopwords=stop
        ):
            yield {**own, "keyword": word.text, "score": round(word.score, 4), "count": word.count}
