"""`malmoi search`: the documents of a corpus that fit a query."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter

from ..corpus import RELEVANT, Corpus, Hit
from ..corpus.corpus import RERANKED, Mode
from ..corpus.ranking import WEIGHTS
from ..encoders import load
from ..heads.reranker import load_reranker
from .display import bar, cell, clean, mark, shorten, style, width, wrap
from .options import ModelOption, Threads, arg, more, opt, seconds
from .output import Format, print_rows, prints_rows, say

_SNIPPET_LINES = 3
_BAR = 5  # columns that show relevance
# Particles that a word of a query ends in, and the text need not.
_PARTICLES = re.compile(
    "(?<=[가-힣]{2})(?:에서|에게|으로|까지|부터|은|는|이|가|을|를|의|에|로|와|과|도|요)$"
)


@prints_rows
def search(
    corpus: Annotated[str, arg("A corpus that malmoi index made, or sample.")],
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
    context: Annotated[
        int | None, opt("Print the passages joined for a prompt, of up to so many tokens.", min=1)
    ] = None,
    weights: Annotated[
        str | None, more("Of a hybrid search's sides, as dense=1,keyword=0.8.")
    ] = None,
    exact: Annotated[bool, more("Compare with every vector.", "--exact")] = False,
    late: Annotated[
        bool, more("Compare word by word, where the corpus can.", "--late/--no-late")
    ] = True,
    min_relevance: Annotated[
        float, opt("Leave out what is less relevant, from 0 to 1.", min=0, max=1)
    ] = 0.0,
    reranker: Annotated[
        str | None, opt("A cross-encoder's bundle or hub id, which reads the best again.")
    ] = None,
    depth: Annotated[int, more("How many a reranker may read.", min=1)] = RERANKED,
    within: Annotated[
        str | None, more("Time for it all, as 200ms; reranks as many as fit.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Print the documents that fit the query best, the best first."""
    time = seconds(within)
    if within and reranker is None:
        raise BadParameter("--within is the time of a reranker; expected --reranker MODEL with it")
    encoder = load(model, threads=threads) if model is not None else None
    with _open(corpus, encoder) as opened:
        options: dict[str, Any] = {
            "mode": mode,
            "filter": filter,
            "weights": WEIGHTS if weights is None else _weights(weights),
            "exact": exact,
            "late": late,
            "min_relevance": min_relevance,
            "reranker": load_reranker(reranker, threads=threads) if reranker else None,
            "depth": depth,
            "within": time,
        }
        if context is not None:
            text = opened.context(query, context, **options)
            if text:
                typer.echo(text)
            else:
                say(f"nothing fits into {context} tokens. Allow more, or use fewer filters")
            return
        if group:
            found = [one.hits for one in opened.search_documents(query, k, **options)]
        else:
            found = [(hit,) for hit in opened.search(query, k, **options)]
        rows = [_row(opened, hits, neighbours, group) for hits in found]
    if rows and max(row["relevance"] for row in rows) < RELEVANT:
        say("nothing relevant found; the nearest are:")
    if form is Format.PEOPLE:
        print_rows(rows, form, view=lambda found, columns: _view(query, found, columns))
        if not rows:
            less = ", a lower --min-relevance" * bool(min_relevance)
            say(f"nothing in {corpus} fits. Look for other words{less}, or use fewer filters")
    else:
        print_rows(rows, form)


def _open(corpus: str, encoder: Any) -> Corpus:
    if corpus == "sample" and not Path(corpus).exists():
        from ..corpus.samples import SampleCorpus

        return SampleCorpus.make(encoder or load())
    return Corpus.open(corpus, encoder)


def _row(corpus: Corpus, hits: tuple[Hit, ...], neighbours: int, group: bool) -> dict[str, Any]:
    best, *others = hits
    row: dict[str, Any] = _hit(best)
    if neighbours:
        around = corpus.neighbours(best.id, best.number, neighbours)
        row["before"] = [one.text for n, one in around.items() if n < best.number]
        row["after"] = [one.text for n, one in around.items() if n > best.number]
    if group:
        names = ("number", "text", "snippet", "headings", "page", "score", "relevance", "matches")
        row["more"] = [{name: _hit(hit)[name] for name in names} for hit in others]
    return row


def _hit(hit: Hit) -> dict[str, object]:
    return {
        "id": hit.id,
        "text": hit.text,
        "score": round(hit.score, 6),
        "relevance": round(hit.relevance, 4),
        "metadata": dict(hit.metadata),
        "scores": {name: round(score, 6) for name, score in hit.scores.items()},
        "title": hit.title,
        "headings": list(hit.headings),
        "page": hit.page,
        "number": hit.number,
        "source": hit.source,
        "place": hit.place,
        "snippet": hit.snippet,
        "matches": [
            {"query": list(one.query), "passage": list(one.passage), "cosine": one.cosine}
            for one in hit.matches
        ],
    }


def _view(query: str, rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    """Lay hits out for people: title and place, the snippet with the query's words marked."""
    shared = [_PARTICLES.sub("", word) for word in re.findall(r"\w{2,}", query)]
    for number, row in enumerate(rows, start=1):
        title, id = clean(str(row["title"] or "")), clean(str(row["id"]))
        words = _met(row, row["text"]) or shared
        relevance = f"{bar(row['relevance'], _BAR)} {row['relevance']:.2f}"
        room = columns - len(relevance) - 2
        if title and title != id:
            head, lines = style(shorten(f"{number:>2}  {title}", room), "bold"), None
            wide = width(shorten(f"{number:>2}  {title}", room))
        else:  # a line or a row of a table is its own title
            lines = _snippet(row["snippet"], room - 4)
            wide = width(f"{number:>2}  {lines[0]}")
            head = f"{number:>2}  {mark(lines.pop(0), words)}"
        yield f"{head}{' ' * max(room - wide + 2, 1)}{style(relevance, 'dim')}"
        lines = _snippet(row["snippet"], columns - 4) if lines is None else lines
        headings = [one for one in row["headings"] if one != row["title"]]
        place = [clean(str(row["source"] or id))]
        place += [" › ".join(headings)] * bool(headings)
        place += [f"p. {row['page']}"] * (row["page"] is not None)
        place += [f"{name}: {cell(value)}" for name, value in row["metadata"].items()]
        yield style(shorten(f"    {' · '.join(map(clean, place))}", columns), "dim")
        for line in lines:
            yield f"    {mark(line, words)}"
        for text in row.get("before", []):
            yield style(shorten(f"  ↑ {clean(text)}", columns), "dim")
        for text in row.get("after", []):
            yield style(shorten(f"  ↓ {clean(text)}", columns), "dim")
        for other in row.get("more", []):
            line = shorten(clean(other["snippet"]), columns - 4)
            yield f"  + {mark(line, _met(other, other['text']) or shared)}"
        yield ""


def _met(row: dict[str, Any], text: str) -> list[str]:
    """The words of a passage that met words of the query."""
    return [text[slice(*one["passage"])] for one in row["matches"]]


def _snippet(text: str, columns: int) -> list[str]:
    lines = wrap(clean(text), columns)
    if len(lines) > _SNIPPET_LINES:
        last = shorten(f"{lines[_SNIPPET_LINES - 1]} …", columns)
        return [*lines[: _SNIPPET_LINES - 1], last]
    return lines


def _weights(text: str) -> dict[str, float]:
    try:
        pairs = dict(pair.split("=", 1) for pair in text.split(","))
        weights = {name.strip(): float(value) for name, value in pairs.items()}
    except ValueError:
        weights = {}
    if not weights or not weights.keys() <= WEIGHTS.keys():
        raise BadParameter("--weights: expected numbers, as in dense=1,keyword=0.8")
    return {**WEIGHTS, **weights}
