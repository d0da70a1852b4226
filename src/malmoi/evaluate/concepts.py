"""Names → concepts: does the nearest name of a dictionary stand for the same concept?"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..io.tables import BadRows, read_numbered_rows, show_columns
from ..runtime.pooling import normalize
from ..types import Floats
from .examples import Roles
from .measures import mean
from .models import vectors_of
from .report import Outcome

KS = (1, 5)
_NAMES = ("name", "mention", "term", "text")
_CONCEPTS = ("concept", "code", "cui", "ids", "id")
_SCORES_AT_ONCE = 16_000_000


def is_held_out(concept: str, share: float) -> bool:
    """Tell whether a concept belongs to the share that is set aside: always the same ones.

    >>> sum(is_held_out(f"A{i:02d}", 0.1) for i in range(100))
    8
    """
    digest = hashlib.sha256(concept.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


@dataclass(frozen=True, slots=True)
class Term:
    """A name and the concepts that it may stand for; a file has several with "|" between."""

    name: str
    concepts: frozenset[str]


@dataclass(frozen=True)
class Names:
    """What is asked, and the dictionary that it is looked for in.

    Without a dictionary of its own, each name looks among all others.
    """

    asked: list[Term]
    dictionary: list[Term]
    own: bool = False


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    dictionary: str | Path | None = None,
    dictionary_columns: Roles | None = None,
    hold_out: float = 0.0,
    limit: int = 0,
    strict: bool = False,
) -> Names:
    """Read the names that are asked and the dictionary, each with columns name and concept.

    With `hold_out` only the names of concepts that are set aside are asked. `limit` takes so
    many of them, evenly spread over the file.
    """
    terms = list(_terms(Path(path), columns or {}, strict))
    asked = [t for t in terms if not hold_out or any(is_held_out(c, hold_out) for c in t.concepts)]
    if limit and limit < len(asked):
        asked = [asked[i] for i in np.linspace(0, len(asked) - 1, limit).astype(int)]
    if not asked:
        raise DataError(f"{path} has no name to ask; expected some. Check the file's columns.")
    if dictionary is None:
        return Names(asked, terms, own=True)
    listed = list(_terms(Path(dictionary), dictionary_columns or columns or {}, strict))
    return Names(asked, listed)


def _terms(path: Path, columns: Roles, strict: bool) -> Iterator[Term]:
    bad = BadRows(str(path), strict)
    for line, row in read_numbered_rows(path, strict=strict):
        name = row[_column(columns, "name", _NAMES, row, path)].strip()
        concepts = row[_column(columns, "concept", _CONCEPTS, row, path)].split("|")
        found = frozenset(concept.strip() for concept in concepts if concept.strip())
        if name and found:
            yield Term(name, found)
        else:
            bad.add(line, "no name or no concept", "both")
    bad.report()


def _column(
    columns: Roles, role: str, known: Sequence[str], row: dict[str, str], path: Path
) -> str:
    names = (columns[role],) if role in columns else known
    for name in names:
        if name in row:
            return name
    raise DataError(
        f"{path} has no column {' or '.join(names)}; it has {show_columns(list(row))}. "
        f"Name the {role}'s column."
    )


def measure(model: object, names: Names, *, ks: Sequence[int] = KS) -> Outcome:
    """Rank concepts by the cosine of their nearest name.

    "accuracy@k" is the share of names with a right concept among the first k concepts; "mrr" the
    mean inverse rank of the first right one. A name of several concepts is right for each of
    them; of different names with the same cosine the wrong one counts as nearer, for a tie is no
    knowledge.
    """
    ranks = rank(model, names)
    columns = {f"accuracy@{k}": mean([float(r <= k) for r in ranks]) for k in ks}
    columns["mrr"] = mean([1 / r for r in ranks])
    details = {"names": len(names.asked), "dictionary": len(names.dictionary)}
    return Outcome(
        columns, units=np.arange(len(ranks)), main=f"accuracy@{min(ks)}", details=details
    )


def rank(model: object, names: Names) -> list[int]:
    """Give the rank, among concepts, of the first right one; one past all where there is none."""
    listed = _Dictionary(names.dictionary)
    asked = [term.name for term in names.asked]
    vectors = normalize(vectors_of(model, asked + listed.names))
    questions, dictionary = vectors[: len(asked)], vectors[len(asked) :]
    step = max(1, _SCORES_AT_ONCE // len(listed.names))
    ranks: list[int] = []
    for start in range(0, len(asked), step):
        for term, scores in zip(
            names.asked[start : start + step],
            questions[start : start + step] @ dictionary.T,
            strict=True,
        ):
            ranks.append(listed.rank(term, scores, own=names.own))
    return ranks


class _Dictionary:
    """Distinct names with their concepts, and the rows of every concept."""

    def __init__(self, terms: Sequence[Term]) -> None:
        merged: dict[str, set[str]] = {}
        for term in terms:
            merged.setdefault(term.name, set()).update(term.concepts)
        self.names, self.concepts = list(merged), list(merged.values())
        self.numbers = {name: row for row, name in enumerate(self.names)}
        self.rows: dict[str, list[int]] = {}
        for row, concepts in enumerate(self.concepts):
            for concept in concepts:
                self.rows.setdefault(concept, []).append(row)

    def rank(self, term: Term, scores: Floats, *, own: bool) -> int:
        """Count the concepts that stand above the nearest right name."""
        itself = self.numbers.get(term.name, -1) if own else -1
        right = {row for concept in term.concepts for row in self.rows.get(concept, ())} - {itself}
        if not right:
            return len(self.rows) + 1
        nearest = max(float(scores[row]) for row in right)
        above: set[str] = set()
        for row in np.flatnonzero(scores >= nearest).tolist():
            if row not in right and row != itself:
                above |= self.concepts[row]
        return 1 + len(above - term.concepts)
