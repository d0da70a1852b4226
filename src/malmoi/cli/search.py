"""`malmoi search`: the documents of a corpus that fit a query."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter

from ..bundle.bundle import RERANKER
from ..corpus import Corpus, Hit
from ..corpus.corpus import RERANKED, Mode
from ..corpus.ranking import RERANK, WEIGHTS
from ..encoders import load
from ..heads.reranker import load_reranker
from .options import ModelOption, Threads, arg, opt, seconds
from .output import Format, Row, prints_rows


@prints_rows
def search(
    corpus: Annotated[Path, arg("A corpus that malmoi index made.")],
    query: Annotated[str, arg("What to look for.")],
    k: Annotated[int, opt("How many documents to print.", "--k", "-k")] = 10,
    mode: Annotated[Mode, opt("By meaning, words, or both.")] = "hybrid",
    filter: Annotated[
        list[str] | None, opt("A condition on a field, as year=2024, type=pdf or folder=hr.")
    ] = None,
    group: Annotated[
        bool, opt("A row is a document with its best passages, or else a passage.")
    ] = True,
    neighbours: Annotated[
        int, opt("Also print this many passages before and after each.", min=0)
    ] = 0,
    weights: Annotated[
        str | None, opt("Of a hybrid search's sides, as dense=1,keyword=0.8.")
    ] = None,
    exact: Annotated[bool, opt("Compare with every vector.", "--exact")] = False,
    rerank: Annotated[bool, opt("Let a reranker read the best.", "--rerank/--no-rerank")] = RERANK,
    reranker: Annotated[str, opt("A reranker's bundle, shipped name or hub id.")] = RERANKER,
    depth: Annotated[int, opt("How many a reranker may read.", min=1)] = RERANKED,
    within: Annotated[str | None, opt("Time for it all, as 200ms; reranks as many as fit.")] = None,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> Iterable[Row]:
    """Print the documents that fit the query best, the best first."""
    time = seconds(within)
    encoder = load(model, threads=threads) if model is not None else None
    with Corpus.open(corpus, encoder) as opened:
        options: dict[str, Any] = {
            "mode": mode,
            "filter": filter,
            "weights": WEIGHTS if weights is None else _weights(weights),
            "exact": exact,
            "reranker": load_reranker(reranker, threads=threads) if rerank or within else None,
            "depth": depth,
            "within": time,
        }
        if group:
            found = [one.hits for one in opened.search_documents(query, k, **options)]
        else:
            found = [(hit,) for hit in opened.search(query, k, **options)]
        for best, *more in found:
            if form is Format.TABLE:
                yield _line(best)
                continue
            row = _row(best)
            if neighbours:
                around = opened.neighbours(best.id, best.number, neighbours)
                row["before"] = [one.text for n, one in around.items() if n < best.number]
                row["after"] = [one.text for n, one in around.items() if n > best.number]
            if group:
                names = ("number", "snippet", "headings", "page", "score")
                row["more"] = [{name: _row(hit)[name] for name in names} for hit in more]
            yield row


def _row(hit: Hit) -> dict[str, object]:
    return {
        "id": hit.id,
        "text": hit.text,
        "score": round(hit.score, 6),
        "metadata": dict(hit.metadata),
        "scores": {name: round(score, 6) for name, score in hit.scores.items()},
        "title": hit.title,
        "headings": list(hit.headings),
        "page": hit.page,
        "number": hit.number,
        "source": hit.source,
        "snippet": hit.snippet,
    }


def _line(hit: Hit) -> Row:
    """What of a hit is for people."""
    place = " › ".join(one for one in hit.headings if one != hit.title)
    page = f"p. {hit.page}" if hit.page is not None else ""
    return {
        "score": round(hit.score, 2),
        "document": hit.id,
        "title": hit.title,
        "place": ", ".join(part for part in (place, page) if part),
        "text": " ".join(hit.snippet.split()),
    }


def _weights(text: str) -> dict[str, float]:
    try:
        pairs = dict(pair.split("=", 1) for pair in text.split(","))
        weights = {name.strip(): float(value) for name, value in pairs.items()}
    except ValueError:
        weights = {}
    if not weights or not weights.keys() <= WEIGHTS.keys():
        raise BadParameter("--weights: expected numbers, as in dense=1,keyword=0.8")
    return {**WEIGHTS, **weights}
