"""`malmoi rerank`: texts sorted by how well they answer a query."""

from collections.abc import Iterable
from typing import Annotated

from ..errors import DataError
from ..heads.reranker import load_reranker
from ..io.tables import read_texts
from .options import Column, Threads, arg, opt
from .output import Row, prints_rows


@prints_rows
def rerank(
    query: Annotated[str, arg("The text to compare the others with.")],
    file: Annotated[str, arg("A text file, one text a line; - is stdin.")],
    model: Annotated[
        str | None,
        opt("A cross-encoder's bundle or hub id; late interaction without.", "--model", "-m"),
    ] = None,
    k: Annotated[int, opt("How many texts to print.", "--k", "-k", min=1)] = 10,
    label: Annotated[
        str | None, opt("Of a model with labels: sort by this one's probability.")
    ] = None,
    column: Column = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the texts that answer the query best, the best first; index counts from 0."""
    reranker = load_reranker(model, threads=threads)
    texts = list(read_texts(file, column=column))
    if not texts:
        raise DataError(f"{file} is empty; expected one text a line. Name another file.")
    for rank, hit in enumerate(reranker.rank(query, texts, k=k, label=label), start=1):
        yield {"rank": rank, "index": hit.index, "text": hit.text, "score": round(hit.score, 6)}
