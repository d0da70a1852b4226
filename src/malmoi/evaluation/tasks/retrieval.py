"""Retrieval and rerank: how high among all documents are those that a query should find?

Files have sets of texts that mean the same, or queries with their documents; both become
`Searches`. With a folder of files to search in, a file has questions, the file that answers each
(its path in the folder) and a piece of text that the right passage has: `FolderQuestions`.
"""

import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...corpus import Corpus, Hit, group_hits
from ...encoders import TextEncoder
from ...errors import DataError, OptionError, counted
from ...index.knn import RowPairs, nearest
from ...io.tables import read_texts
from ...runtime.pooling import normalize
from ...types import Floats
from ..examples import QUERIES, Examples, Form, Roles, label, number, read_examples, text
from ..measures import mean, number_groups
from ..models import name_of, scores_of, vectors_of
from . import Outcome, Settings, Task

Ranks = list[dict[int, int]]  # for each query: document's row → its rank from 1

_SCORES_AT_ONCE = 16_000_000  # 64 MB of float32
_PAIRS_AT_ONCE = 20_000
# Up to this many relevant documents it is faster to count those above each than to sort all.
_FEW = 48
_SET_COLUMNS = (
    ("set", "sentence"), ("set", "text"), ("group", "sentence"), ("group", "text"),
    ("cluster", "text"), ("code", "name"),
)  # fmt: skip
_SETS = Form(("set", "text"), _SET_COLUMNS, {}, sided=False)
_GRADES = {"grade": ("grade", "relevance", "score")}
_QUESTION_COLUMNS = (
    ("question", "file", "answer"), ("query", "file", "answer"), ("question", "document", "answer"),
    ("질문", "파일", "답"), ("질문", "파일", "답변"), ("질문", "문서", "답"),
    ("질문", "문서", "답변"),
)  # fmt: skip
_QUESTIONS = Form(("query", "file", "answer"), _QUESTION_COLUMNS, {}, sided=False)
# Passages looked at for each document that is wanted: several may be of one document.
_PASSAGES = 5
_DOCUMENTS = Form(("query", "document"), QUERIES, _GRADES, optional=("grade",))


@dataclass(frozen=True, slots=True)
class Member:
    """A text of a set whose texts all mean the same."""

    set: str
    text: str


@dataclass(frozen=True, slots=True)
class Relevant:
    """A query and a document that answers it; a higher grade answers it better."""

    query: str
    document: str
    grade: float = 1.0


@dataclass(frozen=True)
class Searches:
    """Queries, documents, and which rows of the documents each query should find.

    relevant: for each query the rows of its documents and their grades.
    own: the row of the query itself where it is among the documents and must not be found, or -1.
    units: which queries are drawn together when resampling.
    query_prompt, document_prompt: prompts of models that read both differently.
    """

    queries: list[str]
    documents: list[str]
    relevant: list[dict[int, float]]
    own: NDArray[np.int64]
    units: NDArray[np.intp]
    query_prompt: str | None = None
    document_prompt: str | None = None


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


def _parse_member(values: Roles) -> Member:
    return Member(label(values, "set"), text(values, "text"))


def _parse_relevant(values: Roles) -> Relevant:
    grade = number(values, "grade") if "grade" in values else 1.0
    return Relevant(text(values, "query"), text(values, "document"), grade)


def _parse_question(values: Roles) -> FolderQuestion:
    return FolderQuestion(text(values, "query"), text(values, "file"), text(values, "answer"))


class Retrieval(Task[Any]):
    """Rank every document by cosine for every query, and measure where the relevant ones are.

    For each k: "hit" is the share of queries with a relevant document among the first k (for sets:
    a member finds its set), "recall" the share of relevant documents there, "mrr" the inverse
    rank of the first, "ndcg" the discounted gain of all against the best order. "map" looks at
    the whole ranking.

    With a folder as `documents` the rows are `FolderQuestions`, and the model's search over the
    files is measured: "passage" and "document" are the shares of questions whose right passage
    and file are among the first k, by both sides together and by each alone.
    """

    name = "retrieval"
    forms = ((_SETS, _parse_member), (_DOCUMENTS, _parse_relevant))

    def _load_folder(self, path: Path, settings: Settings) -> Examples[Any]:
        forms = ((_QUESTIONS, _parse_question),)
        found = read_examples(path, forms, columns=settings.columns, strict=settings.strict)
        folder = Path(settings.documents or "")
        questions = FolderQuestions(folder, found.rows[: settings.limit or None])
        about = {"ks": list(settings.ks), "folder": folder.name}
        return Examples(questions, found.source, about=about)

    def load(self, path: Path, settings: Settings) -> Examples[Any]:
        """Read a file of sets or of queries and documents; `limit` counts queries."""
        if settings.documents is not None and Path(settings.documents).is_dir():
            return self._load_folder(path, settings)
        examples = self.read_forms(path, settings)
        more: list[str] = []
        if settings.documents is not None:
            more = [line for line in read_texts(settings.documents) if line.strip()]
        members = [row for row in examples.rows if isinstance(row, Member)]
        pairs = [row for row in examples.rows if isinstance(row, Relevant)]
        found = from_sets(members, more) if members else from_pairs(pairs, more)
        count = settings.limit or len(found.queries)
        searches = replace(
            found,
            queries=found.queries[:count],
            relevant=found.relevant[:count],
            own=found.own[:count],
            units=found.units[:count],
            query_prompt=settings.query_prompt,
            document_prompt=settings.document_prompt,
        )
        return Examples(searches, examples.source, about={"ks": list(settings.ks)})

    def check(self, rows: Searches | FolderQuestions, where: str) -> None:
        """Refuse a file with nothing to find, or with hardly anything to rank."""
        if isinstance(rows, FolderQuestions):
            return
        if not rows.queries:
            raise DataError(
                f"{where} has no query with anything to find; expected sets of two texts or more, "
                "or queries with a document. Name the columns with --columns set=…,text=… or "
                "query=…,document=…"
            )
        if len(rows.documents) < 3:
            raise DataError(
                f"{where} has {counted(len(rows.documents), 'document')}; expected three or more, "
                "because fewer can hardly be ranked. Add documents with --documents."
            )

    def outcome(self, model: object, examples: Examples[Any], settings: Settings) -> Outcome:
        if isinstance(examples.rows, FolderQuestions):
            return _folder_outcome(model, examples.rows, check_ks(settings.ks))
        kept, notes = usable_ks(settings.ks, examples.rows)
        return outcome_of(rank(model, examples.rows), examples.rows, kept, notes)

    def text_pairs(self, rows: Searches | FolderQuestions) -> list[tuple[str, str]]:
        if isinstance(rows, FolderQuestions):
            return [(one.query, one.answer) for one in rows.questions]
        return [
            (query, rows.documents[row])
            for query, relevant in zip(rows.queries, rows.relevant, strict=True)
            for row in relevant
        ]


class Reranking(Retrieval):
    """An encoder proposes documents, a reranker puts them in order.

    The encoder's first `top` documents are scored by the reranker and put in the order of these
    scores; the others keep their places below. The encoder's own order is compared with it.
    """

    name = "rerank"

    def load(self, path: Path, settings: Settings) -> Examples[Any]:
        named = name_of(_encoder(settings))
        examples = super().load(path, settings)
        return replace(examples, about={**examples.about, "top": settings.top, "encoder": named})

    def outcome(self, model: object, examples: Examples[Any], settings: Settings) -> Outcome:
        """Measure the order after reranking, with the encoder's own order to compare it with."""
        searches, top, encoder = examples.rows, settings.top, _encoder(settings)
        if isinstance(searches, FolderQuestions):
            return _folder_outcome(encoder, searches, check_ks(settings.ks), reranker=model)
        if top < 1:
            raise OptionError(f"top is {top}; expected 1 or more. Choose how many to rerank.")
        kept, notes = usable_ks(settings.ks, searches)
        before = rank(encoder, searches)
        after = _reordered(model, before, propose(encoder, searches, top), searches)
        alone = (f"{name_of(encoder)} alone", outcome_of(before, searches, kept, notes))
        return replace(outcome_of(after, searches, kept, notes), others=(alone,))


def _encoder(settings: Settings) -> object:
    if settings.encoder is None:
        raise OptionError(
            "no encoder was named; expected one that proposes what is to be reranked. "
            "Name it with --encoder."
        )
    return settings.encoder


def from_sets(members: Sequence[Member], more: Sequence[str] = ()) -> Searches:
    """Let every member of a set of two or more look for the others.

    A text that a set holds twice is there once. Sets are resampled whole.

    >>> found = from_sets([Member("1", "배"), Member("1", "선박"), Member("2", "사과")])
    >>> found.queries, found.relevant
    (['배', '선박'], [{1: 1.0}, {0: 1.0}])
    """
    unique = list(dict.fromkeys(members))
    rows: dict[str, list[int]] = {}
    for row, member in enumerate(unique):
        rows.setdefault(member.set, []).append(row)
    asking = [row for row, member in enumerate(unique) if len(rows[member.set]) > 1]
    return Searches(
        queries=[unique[row].text for row in asking],
        documents=[*(member.text for member in unique), *more],
        relevant=[{r: 1.0 for r in rows[unique[row].set] if r != row} for row in asking],
        own=np.array(asking, dtype=np.int64),
        units=number_groups(unique[row].set for row in asking),
    )


def from_pairs(pairs: Sequence[Relevant], more: Sequence[str] = ()) -> Searches:
    """Let every distinct query look for its documents among all distinct documents.

    A grade of 0 or less marks a document that is not an answer.

    >>> found = from_pairs([Relevant("배", "ship"), Relevant("배", "pear"), Relevant("눈", "snow")])
    >>> found.documents, found.relevant
    (['ship', 'pear', 'snow'], [{0: 1.0, 1: 1.0}, {2: 1.0}])
    """
    documents: dict[str, int] = {}
    relevant: dict[str, dict[int, float]] = {}
    for pair in pairs:
        row = documents.setdefault(pair.document, len(documents))
        grades = relevant.setdefault(pair.query, {})
        if pair.grade > 0:
            grades[row] = max(pair.grade, grades.get(row, 0.0))
    for extra in more:
        documents.setdefault(extra, len(documents))
    answered = {query: grades for query, grades in relevant.items() if grades}
    return Searches(
        queries=list(answered),
        documents=list(documents),
        relevant=list(answered.values()),
        own=np.full(len(answered), -1, dtype=np.int64),
        units=np.arange(len(answered)),
    )


def rank(encoder: object, searches: Searches) -> Ranks:
    """Give the rank of every relevant document among all; of equal scores the earlier row wins."""
    queries, documents = unit_vectors(encoder, searches)
    found: Ranks = []
    for row, scores in enumerate(score_rows(queries, documents)):
        own = searches.own[row]
        if own >= 0:
            scores[own] = -np.inf
        relevant = np.array(list(searches.relevant[row]), dtype=np.int64)
        found.append(dict(zip(relevant.tolist(), _ranks(scores, relevant), strict=True)))
    return found


def propose(encoder: object, searches: Searches, top: int) -> list[list[int]]:
    """Give the rows of the `top` nearest documents of each query, nearest first."""
    queries, documents = unit_vectors(encoder, searches)
    asking = np.flatnonzero(searches.own >= 0)
    own = RowPairs(asking, searches.own[asking])
    blocks = nearest(queries, documents, top, without=own)
    return [[int(row) for row in rows if row >= 0] for block in blocks for rows in block.rows]


def _reordered(
    reranker: object, before: Ranks, proposed: list[list[int]], searches: Searches
) -> Ranks:
    pairs = [
        (searches.queries[i], searches.documents[row])
        for i, rows in enumerate(proposed)
        for row in rows
    ]
    starts = range(0, len(pairs), _PAIRS_AT_ONCE)
    scores = np.concatenate(
        [scores_of(reranker, pairs[start : start + _PAIRS_AT_ONCE]) for start in starts]
    )
    after, at = [], 0
    for ranks, rows in zip(before, proposed, strict=True):
        order = np.argsort(-scores[at : at + len(rows)], kind="stable")
        at += len(rows)
        places = {rows[place]: new for new, place in enumerate(order, start=1)}
        after.append({row: places.get(row, old) for row, old in ranks.items()})
    return after


def outcome_of(
    ranks: Ranks, searches: Searches, ks: Sequence[int], notes: tuple[str, ...] = ()
) -> Outcome:
    """Turn ranks into measures, one value per query."""
    both = list(zip(ranks, searches.relevant, strict=True))
    columns: dict[str, list[float]] = {}
    for k in ks:
        columns[f"hit@{k}"] = [float(min(found.values()) <= k) for found in ranks]
        columns[f"recall@{k}"] = [
            sum(rank <= k for rank in found.values()) / len(found) for found in ranks
        ]
        if k > 1 or k == max(ks):  # at 1 they are no more than the hits
            firsts = [min(found.values()) for found in ranks]
            columns[f"mrr@{k}"] = [1 / first if first <= k else 0.0 for first in firsts]
            columns[f"ndcg@{k}"] = [_ndcg(found, grades, k) for found, grades in both]
    columns["map"] = [_average_precision(found) for found in ranks]
    measures = {name: mean(values) for name, values in columns.items()}
    details = {"queries": len(searches.queries), "documents": len(searches.documents)}
    return Outcome(measures, searches.units, f"ndcg@{max(ks)}", details, notes)


def check_ks(ks: Sequence[int]) -> list[int]:
    """Give the cut-offs in order, each once; none, or one below 1, is an OptionError."""
    if not ks or min(ks) < 1:
        raise OptionError(
            f"k is {list(ks)}; expected one number or more, each from 1. Name them as --k 1,5,10"
        )
    return sorted(set(ks))


def usable_ks(ks: Sequence[int], searches: Searches) -> tuple[list[int], tuple[str, ...]]:
    """Leave out every k at which all documents would be found whatever the model."""
    asked = check_ks(ks)
    ranked = len(searches.documents) - int((searches.own >= 0).any())
    kept = [k for k in asked if k < ranked]
    if kept == asked:
        return kept, ()
    left = ", ".join(str(k) for k in asked[len(kept) :])
    few = counted(ranked, "document is", "documents are")
    note = f"only {few} ranked, so k = {left} says nothing and was left out"
    return kept or [1], (note,)


def unit_vectors(encoder: object, searches: Searches) -> tuple[Floats, Floats]:
    """The vectors of queries and documents, each of length 1."""
    asked, given = searches.query_prompt, searches.document_prompt
    if asked == given:  # together, so that a text on both sides is encoded once
        both = normalize(vectors_of(encoder, searches.queries + searches.documents, prompt=asked))
        return both[: len(searches.queries)], both[len(searches.queries) :]
    queries = vectors_of(encoder, searches.queries, prompt=asked)
    documents = vectors_of(encoder, searches.documents, prompt=given)
    return normalize(queries), normalize(documents)


def score_rows(queries: Floats, documents: Floats) -> Iterator[Floats]:
    """Yield the scores (documents,) of each query in order, computed many at once."""
    step = max(1, _SCORES_AT_ONCE // len(documents))
    for start in range(0, len(queries), step):
        yield from queries[start : start + step] @ documents.T


def _ranks(scores: Floats, rows: NDArray[np.int64]) -> list[int]:
    if len(rows) > _FEW:
        places = np.empty(len(scores), dtype=np.int64)
        places[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        return [int(place) for place in places[rows]]
    above = [(scores > scores[row]).sum() + (scores[:row] == scores[row]).sum() for row in rows]
    return [1 + int(count) for count in above]


def _ndcg(ranks: Mapping[int, int], grades: Mapping[int, float], k: int) -> float:
    gained = sum(grades[row] * _discount(rank) for row, rank in ranks.items() if rank <= k)
    best = sorted(grades.values(), reverse=True)[:k]
    return float(gained / sum(grade * _discount(i) for i, grade in enumerate(best, start=1)))


def _discount(rank: int) -> float:
    return float(1 / np.log2(rank + 1))


def _average_precision(ranks: Mapping[int, int]) -> float:
    ordered = sorted(ranks.values())
    return sum(i / rank for i, rank in enumerate(ordered, start=1)) / len(ordered)


def _folder_outcome(
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
    """Whether a passage, or its title and headings, has a piece of text, whatever its spaces."""
    return _plain(answer) in _plain(" ".join((hit.title, *hit.headings, hit.text)))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
