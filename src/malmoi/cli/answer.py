"""`malmoi answer`: the answer to a question, out of a file or a whole corpus."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

from ..corpus import Corpus
from ..corpus.corpus import ANSWERED, answer_from
from ..documents import read_documents
from ..errors import DataError
from ..heads.answerer import Answer, Answerer, load_answerer
from ..heads.reranker import load_reranker
from ..io.files import read_text
from .options import Threads, arg, opt
from .output import Row, prints_rows, say

_AROUND = 60  # characters
_SQLITE = b"SQLite format 3\0"


@prints_rows
def answer(
    model: Annotated[str, arg("An answerer's bundle; see docs/answers.md.")],
    question: Annotated[str, arg("What to ask.")],
    source: Annotated[str, arg("A document of any form, - for stdin, or a corpus.")],
    k: Annotated[int, opt("How many answers to print.", "--k", "-k", min=1)] = 1,
    threshold: Annotated[
        float | None, opt("The lowest score of an answer; 0 always answers.", min=0, max=1)
    ] = None,
    passages: Annotated[
        int, opt("Of a corpus: how many passages to read.", "--passages", min=1)
    ] = ANSWERED,
    rerank: Annotated[bool, opt("Of a corpus: rerank passages first.", "--rerank")] = False,
    filter: Annotated[
        list[str] | None, opt("Of a corpus: a condition on a field, as type=pdf.")
    ] = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the answer with its place and score; nothing, and a message, if there is none."""
    answerer = load_answerer(model, threads=threads)
    count = 0
    if _is_corpus(source):
        with Corpus.open(source) as corpus:
            found = answer_from(
                corpus,
                answerer,
                question,
                k=k,
                passages=passages,
                threshold=threshold,
                filter=filter,
                reranker=load_reranker(threads=threads) if rerank else None,
            )
        for one in found:
            place = {
                "document": one.hit.id,
                "title": one.hit.title,
                "page": one.hit.page,
                "passage": one.hit.number,
            }
            yield _row(one.answer, one.hit.text, place)
            count += 1
    else:
        for row in _from_texts(answerer, question, source, k, threshold):
            yield row
            count += 1
    if not count:
        say("no answer")


def _is_corpus(source: str) -> bool:
    """Whether a source is a corpus: an address in Milvus, or an SQLite file."""
    if source.startswith("milvus:"):
        return True
    if not Path(source).is_file():
        return False
    with Path(source).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _from_texts(
    answerer: Answerer, question: str, source: str, k: int, threshold: float | None
) -> Iterator[Row]:
    texts = dict(_texts(source))
    for one in answerer.answers(question, list(texts.values()), k=k, threshold=threshold):
        name = list(texts)[one.number]
        yield _row(one, texts[name], {"document": name})


def _texts(source: str) -> Iterator[tuple[str, str]]:
    """The texts of a file by their names: one, or one for each row of a table."""
    if source == "-":
        yield "-", read_text(source)
        return
    if not Path(source).exists():
        raise DataError(f"there is no file {source}; expected a document. Check the name.")
    if Path(source).is_dir():
        raise DataError(
            f"{source} is a folder; expected a file or a corpus. "
            f"Make a corpus of it once with: malmoi index NAME.db {source}"
        )
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
