"""`malmoi search`: the documents of a corpus that fit a query."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import BadParameter

from ..bundle.catalog import RERANKER
from ..corpus import Corpus
from ..corpus.corpus import RERANKED, Mode
from ..corpus.fusion import WEIGHTS
from ..encoder import load
from ..reranker.reranker import load_reranker
from .options import ModelOption, Threads, arg, opt, seconds
from .output import Row, prints_rows


@prints_rows
def search(
    corpus: Annotated[Path, arg("A corpus that malmoi index made.")],
    query: Annotated[str, arg("What to look for.")],
    k: Annotated[int, opt("How many documents to print.", "--k", "-k")] = 10,
    mode: Annotated[Mode, opt("By meaning, words, or both.")] = "hybrid",
    filter: Annotated[
        list[str] | None, opt("A condition on a field, as year=2024 or year>=2020.")
    ] = None,
    weights: Annotated[
        str | None, opt("Of a hybrid search's sides, as dense=1,keyword=0.25.")
    ] = None,
    exact: Annotated[bool, opt("Compare with every vector.", "--exact")] = False,
    rerank: Annotated[bool, opt("Let a reranker read the best.", "--rerank")] = False,
    reranker: Annotated[str, opt("A reranker's bundle, shipped name or hub id.")] = RERANKER,
    depth: Annotated[int, opt("How many a reranker may read.", min=1)] = RERANKED,
    within: Annotated[str | None, opt("Time for it all, as 200ms; reranks as many as fit.")] = None,
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
