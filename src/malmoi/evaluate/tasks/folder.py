"""Retrieval from a folder of files: does a search find the passage that answers, and its file?

A file of questions has a question, the file that answers it (its path in the folder) and a piece
of text that the right passage has.
"""

import tempfile
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...corpus import Corpus, Hit, group_hits
from ...encoders import TextEncoder
from ...errors import DataError, OptionError, counted
from ..examples import Form, Roles, text
from ..measures import mean
from ..task import Outcome

_COLUMNS = (
    ("question", "file", "answer"), ("query", "file", "answer"), ("question", "document", "answer"),
    ("질문", "파일", "답"), ("질문", "파일", "답변"), ("질문", "문서", "답"),
    ("질문", "문서", "답변"),
)  # fmt: skip
QUESTIONS = Form(("query", "file", "answer"), _COLUMNS, {}, sided=False)
_PASSAGES = 5  # are looked at for each document that is wanted: several may be of one document


@dataclass(frozen=True, slots=True)
class FolderQuestion:
    """A question, the file that answers it, and a piece of text of the right passage."""

    query: str
    file: str
    answer: str


@dataclass(frozen=True)
class FolderQuestions:
    """Questions about the files of a folder."""

    folder: Path
    questions: list[FolderQuestion]


def parse_question(values: Roles) -> FolderQuestion:
    """Make a question of a row's values."""
    return FolderQuestion(text(values, "query"), text(values, "file"), text(values, "answer"))


def folder_outcome(
    encoder: object, rows: FolderQuestions, ks: Sequence[int], *, reranker: Any = None
) -> Outcome:
    """Index the folder and ask every question, by both sides together and by each alone.

    With a reranker, its order is compared with the one before it.
    """
    if not isinstance(encoder, TextEncoder):
        raise OptionError(
            f"a folder is indexed by an encoder, and {type(encoder).__name__} is none. Name one."
        )
    with (
        tempfile.TemporaryDirectory() as place,
        Corpus.open(Path(place) / "folder.malmoi", encoder) as corpus,
    ):
        report = corpus.sync(rows.folder)
        right = _right_documents(corpus, rows)
        ways: dict[str, dict[str, Any]] = {mode: {"mode": mode} for mode in ("dense", "keyword")}
        if reranker is not None:
            ways = {"hybrid": {}}
        measured = {
            name: _measured(corpus, rows, right, ks, options) for name, options in ways.items()
        }
        ours = _measured(corpus, rows, right, ks, {"reranker": reranker})
        details = {
            "queries": len(rows.questions),
            "documents": len(corpus),
            "passages": corpus.store.passage_count(),
        }
    units = np.arange(len(rows.questions))
    main = f"passage@{min(ks)}"
    others = tuple((name, Outcome(own, units, main)) for name, own in measured.items())
    unread = f"{counted(len(report.failed), 'file')} could not be read"
    return Outcome(ours, units, main, details, (unread,) if report.failed else (), others)


def _right_documents(corpus: Corpus, rows: FolderQuestions) -> list[set[str]]:
    """The documents of each question's file; a table has one for each row."""
    ids = [one.document.id for one in corpus.store.documents()]
    by_file: dict[str, set[str]] = {}
    for id in ids:
        by_file.setdefault(id, set()).add(id)
        by_file.setdefault(id.partition("#")[0], set()).add(id)
    found = []
    for question in rows.questions:
        name = unicodedata.normalize("NFC", question.file).replace("\\", "/").removeprefix("./")
        own = by_file.get(name) or by_file.get(name.removeprefix(f"{rows.folder.name}/"))
        if not own:
            raise DataError(
                f"a question names the file {question.file}, which is not among the "
                f"{counted(len(ids), 'document')} of {rows.folder}; expected its path in the "
                "folder. Correct the file of questions."
            )
        found.append(own)
    return found


def _measured(
    corpus: Corpus,
    rows: FolderQuestions,
    right: Sequence[set[str]],
    ks: Sequence[int],
    options: dict[str, Any],
) -> dict[str, Any]:
    """For each k, whether a right passage and a right document are among the first k."""
    columns: dict[str, list[float]] = {
        f"{what}@{k}": [] for what in ("passage", "document") for k in ks
    }
    for question, own in zip(rows.questions, right, strict=True):
        hits = corpus.search(question.query, _PASSAGES * max(ks), **options)
        documents = [one.id in own for one in group_hits(hits)]
        passages = [hit.id in own and _answers(hit, question.answer) for hit in hits]
        for k in ks:
            columns[f"passage@{k}"].append(float(any(passages[:k])))
            columns[f"document@{k}"].append(float(any(documents[:k])))
    return {name: mean(values) for name, values in columns.items()}


def _answers(hit: Hit, answer: str) -> bool:
    """Whether a passage, or what stands above it, has a piece of text, whatever its spaces."""
    return _plain(answer) in _plain(" ".join((hit.title, *hit.headings, hit.text)))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
