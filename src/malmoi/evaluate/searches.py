"""What a search should find: files of sets, or of queries with their documents → Searches."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, counted
from ..io.tables import read_texts
from .examples import (
    QUERIES,
    Examples,
    ExampleSource,
    Form,
    Roles,
    label,
    number,
    read_examples,
    text,
)

SETS = Form(
    ("set", "text"),
    (
        ("set", "sentence"),
        ("set", "text"),
        ("group", "sentence"),
        ("group", "text"),
        ("cluster", "text"),
        ("code", "name"),
    ),
    {},
    sided=False,
)
DOCUMENTS = Form(
    ("query", "document"),
    QUERIES,
    {"grade": ("grade", "relevance", "score")},
    optional=("grade",),
)


@dataclass(frozen=True, slots=True)
class Relevant:
    """A query and a document that answers it; a higher grade answers it better."""

    query: str
    document: str
    grade: float = 1.0


@dataclass(frozen=True, slots=True)
class Member:
    """A text of a set whose texts all mean the same."""

    set: str
    text: str


@dataclass(frozen=True)
class Searches:
    """Queries, documents, and which rows of the documents each query should find.

    `relevant` holds for each query the rows and their grades. `own` is the row of the query
    itself where it stands among the documents, which it must not find, or -1. `units` says which
    queries belong together when resampling. The prompts are those of models that read questions
    and documents differently.
    """

    queries: list[str]
    documents: list[str]
    relevant: list[dict[int, float]]
    own: NDArray[np.int64]
    units: NDArray[np.intp]
    query_prompt: str | None = None
    document_prompt: str | None = None


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    documents: str | Path | None = None,
    strict: bool = False,
) -> tuple[Searches, ExampleSource]:
    """Read a file of sets or of queries and documents; see `read_examples` for the options.

    `documents` is a file of more texts to search among, one a line.
    """
    examples: Examples[Member | Relevant] = read_examples(
        path,
        [(SETS, _parse_member), (DOCUMENTS, _parse_relevant)],
        columns=columns,
        sides=sides,
        strict=strict,
    )
    more = [line for line in read_texts(documents) if line.strip()] if documents else []
    members = [row for row in examples.rows if isinstance(row, Member)]
    pairs = [row for row in examples.rows if isinstance(row, Relevant)]
    searches = from_sets(members, more) if members else from_pairs(pairs, more)
    _check(searches, str(path))
    return searches, examples.source


def first_queries(searches: Searches, count: int) -> Searches:
    """Keep the first queries only, among all documents."""
    return dataclasses.replace(
        searches,
        queries=searches.queries[:count],
        relevant=searches.relevant[:count],
        own=searches.own[:count],
        units=searches.units[:count],
    )


def _parse_member(values: Roles) -> Member:
    return Member(label(values, "set"), text(values, "text"))


def _parse_relevant(values: Roles) -> Relevant:
    grade = number(values, "grade") if "grade" in values else 1.0
    return Relevant(text(values, "query"), text(values, "document"), grade)


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
    units: dict[str, int] = {}
    return Searches(
        queries=[unique[row].text for row in asking],
        documents=[*(member.text for member in unique), *more],
        relevant=[{r: 1.0 for r in rows[unique[row].set] if r != row} for row in asking],
        own=np.array(asking, dtype=np.int64),
        units=np.array(
            [units.setdefault(unique[row].set, len(units)) for row in asking], dtype=np.intp
        ),
    )


def from_pairs(pairs: Sequence[Relevant], more: Sequence[str] = ()) -> Searches:
    """Let every distinct query look for its documents among all distinct documents.

    A grade of 0 or less marks a document that is no answer.

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


def _check(searches: Searches, where: str) -> None:
    if not searches.queries:
        raise DataError(
            f"{where} has no query with anything to find; expected sets of two texts or more, or "
            "queries with a document. Check the columns."
        )
    if len(searches.documents) < 3:
        raise DataError(
            f"{where} has {counted(len(searches.documents), 'document')}; expected three or more, "
            "for less can hardly be ranked. Add documents."
        )
