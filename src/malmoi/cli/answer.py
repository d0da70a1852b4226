"""`malmoi answer`: the answer to a question, out of a document or a whole corpus."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter

from ..corpus import Corpus, FoundAnswer
from ..corpus.answers import ANSWERED
from ..corpus.samples import SampleCorpus, TemporaryCorpus
from ..documents import read_documents
from ..encoders import load
from ..errors import DataError
from ..heads.answerer import Answer, Answerer, load_answerer
from ..heads.reranker import load_reranker
from ..io.files import read_text
from .display import bar, clean, shorten, style, wrap
from .options import Threads, arg, opt
from .output import Row, prints, say

_AROUND = 60  # characters
_SAMPLE = "sample"
_SQLITE = b"SQLite format 3\0"
_ORDER = 'malmoi answer "QUESTION" SOURCE --model MODEL'


def _view(rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    """Lay answers out for people: the answer, then where it is and what is around it."""
    for row in rows:
        for line in wrap(clean(row["answer"]), columns):
            yield style(line, "bold")
        share = row["score"] if row["relevance"] is None else row["relevance"]
        title = row["title"] if row["title"] != row["document"] else ""
        place = [title or "", row["place"], *(str(one) for one in row["metadata"].values())]
        text = " · ".join(clean(one) for one in place if one)
        yield style(shorten(f"  {bar(share, 5)} {share:.2f}  {text}", columns), "dim")
        if clean(row["context"]) != clean(row["answer"]):
            yield style(shorten(f"  {clean(row['context'])}", columns), "dim")


@prints(_view)
def answer(
    question: Annotated[str, arg("What to ask.")],
    source: Annotated[str, arg("A document of any form, - for stdin, a corpus, or sample.")],
    more: Annotated[list[str] | None, Argument(hidden=True)] = None,
    model: Annotated[
        str | None,
        opt("An answerer's bundle, which marks the words; a sentence without.", "--model", "-m"),
    ] = None,
    k: Annotated[int, opt("How many answers to print.", "--k", "-k", min=1)] = 1,
    threshold: Annotated[
        float | None,
        opt("The lowest relevance, or with a model score; 0 always answers.", min=0, max=1),
    ] = None,
    passages: Annotated[
        int, opt("Of a corpus: how many passages to read.", "--passages", min=1)
    ] = ANSWERED,
    reranker: Annotated[
        str | None, opt("Of a corpus: a cross-encoder that reads passages again first.")
    ] = None,
    filter: Annotated[
        list[str] | None, opt("Of a corpus: a condition on a field, as type=pdf.")
    ] = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the sentence or span that answers, with its place; a message if there is none."""
    if more:
        raise BadParameter(f"three arguments, the model first perhaps; expected: {_ORDER}")
    answerer = load_answerer(model, threads=threads) if model is not None else None
    count = 0
    if answerer is not None and not _is_corpus(source):
        rows = _from_texts(answerer, question, source, k, threshold)
    else:
        options: dict[str, Any] = {
            "k": k,
            "answerer": answerer,
            "passages": passages,
            "threshold": threshold,
            "filter": filter,
            "reranker": load_reranker(reranker, threads=threads) if reranker else None,
        }
        rows = _from_passages(question, source, threads, options)
    for row in rows:
        yield row
        count += 1
    if not count:
        say("no answer" if answerer else "no sentence answers; 0 as --threshold gives the nearest")


def _is_corpus(source: str) -> bool:
    """Whether a source is a corpus: the sample, an address in Milvus, or an SQLite file."""
    if source.startswith("milvus:") or (source == _SAMPLE and not Path(source).exists()):
        return True
    if not Path(source).is_file():
        return False
    with Path(source).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _open(source: str, threads: int | None) -> Corpus:
    """Open a corpus, or make one of a document that goes when it is closed."""
    if source == _SAMPLE and not Path(source).exists():
        return SampleCorpus.make(load(threads=threads))
    if _is_corpus(source):
        return Corpus.open(source)
    _check_file(source)
    corpus = TemporaryCorpus.new(load(threads=threads))
    try:
        if source == "-":
            corpus.add([{"id": "stdin", "text": read_text(source)}])
        else:
            corpus.add_sources(read_documents(source))
    except BaseException:
        corpus.close()
        raise
    return corpus


def _from_passages(
    question: str, source: str, threads: int | None, options: dict[str, Any]
) -> Iterator[Row]:
    with _open(source, threads) as corpus:
        found: list[FoundAnswer] = corpus.answer(question, **options)
    for one in found:
        hit = one.hit
        yield _row(
            one.answer,
            hit.text,
            {
                "relevance": round(hit.relevance, 4),
                "document": hit.id,
                "title": hit.title,
                "page": hit.page,
                "passage": hit.number,
                "place": hit.place,
                "metadata": dict(hit.metadata),
            },
        )


def _check_file(source: str) -> None:
    if source == "-":
        return
    if not Path(source).exists():
        raise DataError(f"there is no file {source}; expected a document. Check the name: {_ORDER}")
    if Path(source).is_dir():
        raise DataError(
            f"{source} is a folder; expected a file or a corpus. "
            f"Make a corpus of it once with: malmoi index NAME.db {source}"
        )


def _from_texts(
    answerer: Answerer, question: str, source: str, k: int, threshold: float | None
) -> Iterator[Row]:
    _check_file(source)
    texts = dict(_texts(source))
    for one in answerer.answers(question, list(texts.values()), k=k, threshold=threshold):
        name = list(texts)[one.number]
        place = {"document": name, "title": "", "place": name, "metadata": {}}
        yield _row(one, texts[name], {"relevance": None, **place})


def _texts(source: str) -> Iterator[tuple[str, str]]:
    """The texts of a file by their names: one, or one for each row of a table."""
    if source == "-":
        yield "-", read_text(source)
        return
    for document in read_documents(source):
        yield document.id, "\n".join(block.text for block in document.blocks)


def _row(found: Answer, text: str, place: Mapping[str, object]) -> Row:
    before = max(0, found.start - _AROUND)
    around = " ".join(text[before : found.end + _AROUND].split())
    return {
        "answer": found.text,
        "score": round(found.score, 4),
        **place,
        "start": found.start,
        "end": found.end,
        "context": around,
    }
