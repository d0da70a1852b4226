"""`malmoi search`: the documents of a corpus that fit a query."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from ..bundle.catalog import RERANKER
from ..corpus import Corpus
from ..corpus.corpus import RERANKED, WEIGHTS
from ..encoder import load
from ..reranker.reranker import load_reranker
from .output import ModelOption, Row, Threads, prints_rows, seconds


@prints_rows
def search(
    corpus: Annotated[Path, Argument(help="A corpus that malmoi index made.")],
    query: Annotated[str, Argument(help="What to look for.")],
    k: Annotated[int, Option("--k", "-k", help="How many documents to print.")] = 10,
    mode: Annotated[
        Literal["dense", "keyword", "hybrid"], Option(help="By meaning, words, or both.")
    ] = "hybrid",
    filter: Annotated[
        list[str] | None, Option(help="A condition on a field, as year=2024 or year>=2020.")
    ] = None,
    weights: Annotated[
        str | None, Option(help="Of a hybrid search's sides, as dense=1,keyword=0.25.")
    ] = None,
    exact: Annotated[bool, Option("--exact", help="Compare with every vector.")] = False,
    rerank: Annotated[bool, Option("--rerank", help="Let a reranker read the best.")] = False,
    reranker: Annotated[
        str, Option(help="A reranker's bundle, shipped name or hub id.")
    ] = RERANKER,
    depth: Annotated[int, Option(min=1, help="How many a reranker may read.")] = RERANKED,
    within: Annotated[
        str | None, Option(help="Time for it all, as 200ms; reranks as many as fit.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the documents that fit the query best, the best first."""
    time = seconds(within)
    encoder = load(model, threads=threads) if model is not None else None
    with Corpus.open(corpus, encoder) as opened:
        scorer = load_reranker(reranker, threads=threads) if rerank or within else None
        if mode != "keyword" and len(opened):
            opened.vectors_of([query])  # load the model before the time is measured
        hits = opened.search(
            query,
            k,
            mode=mode,
            filter=filter,
            weights=WEIGHTS if weights is None else _weights(weights),
            exact=exact,
            reranker=scorer,
            depth=depth,
            within=time,
        )
    for hit in hits:
        yield {
            "id": hit.id,
            "text": hit.text,
            "score": round(hit.score, 6),
            "metadata": dict(hit.metadata),
            "scores": {name: round(score, 6) for name, score in hit.scores.items()},
        }


def _weights(text: str) -> dict[str, float]:
    try:
        pairs = dict(pair.split("=", 1) for pair in text.split(","))
        weights = {name.strip(): float(value) for name, value in pairs.items()}
    except ValueError:
        weights = {}
    if not weights or not weights.keys() <= WEIGHTS.keys():
        raise BadParameter("--weights: expected numbers, as in dense=1,keyword=0.25")
    return {**WEIGHTS, **weights}
