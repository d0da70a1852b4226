"""Concepts: does the nearest name of a dictionary stand for the same concept?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from ...errors import DataError
from ...io.fingerprint import hash_number
from ...runtime.pooling import normalize
from ...terms.export import synonyms
from ...terms.readers import form_of
from ...terms.segment import MANIFEST
from ...types import Floats
from ..examples import BadRow, Examples, Form, Roles, describe, read_examples, text
from ..measures import mean
from ..models import vectors_of
from . import Outcome, Settings, Task
from .retrieval import score_rows


@dataclass(frozen=True, slots=True)
class Term:
    """A name and the concepts that it may stand for; a file has several with "|" between."""

    name: str
    concepts: frozenset[str]


def _parse(values: Roles) -> Term:
    concepts = frozenset(part.strip() for part in values["concept"].split("|") if part.strip())
    if not concepts:
        raise BadRow("no concept", "one or more")
    return Term(text(values, "name").strip(), concepts)


@dataclass(frozen=True)
class Names:
    """What is asked, and the dictionary that it is looked for in.

    Without a dictionary of its own, each name looks among all others.
    """

    asked: list[Term]
    dictionary: list[Term]
    own: bool = False


_NAMES = ("name", "mention", "term", "text")
_CONCEPTS = ("concept", "code", "cui", "ids", "id")
_FORM = Form(("name", "concept"), tuple(product(_NAMES, _CONCEPTS)), {}, sided=False)


def is_held_out(concept: str, share: float) -> bool:
    """Tell whether a concept belongs to the share that is set aside: always the same ones.

    >>> sum(is_held_out(f"A{i:02d}", 0.1) for i in range(100))
    8
    """
    return hash_number(concept) < share * 2**64


class Concepts(Task[Names]):
    """Rank concepts by the cosine of their nearest name.

    "accuracy@k" is the share of names with a right concept among the first k concepts; "mrr" the
    mean inverse rank of the first right one. A name of several concepts is right for each of
    them; of different names with the same cosine the wrong one counts as nearer, because a tie is
    not knowledge.
    """

    name = "concepts"
    forms = ((_FORM, _parse),)

    def load(self, path: Path, settings: Settings) -> Examples[Names]:
        """Read the names that are asked and the dictionary, each with columns name and concept.

        `hold_out` asks only names of concepts that are set aside; `limit` takes this many of them,
        evenly spread over the file.
        """
        share, limit = settings.hold_out, settings.limit
        examples = self._names(path, settings)
        terms: list[Term] = examples.rows
        asked = [t for t in terms if not share or any(is_held_out(c, share) for c in t.concepts)]
        if limit and limit < len(asked):
            asked = [asked[i] for i in np.linspace(0, len(asked) - 1, limit).astype(int)]
        if not asked:
            raise DataError(
                f"{path} has no name to ask of the {share:g} of concepts that are held out; "
                "expected some. Make hold_out larger, or name another file."
            )
        names = Names(asked, terms, own=True)
        if settings.dictionary is not None:
            columns = settings.dictionary_columns or settings.columns
            listed = read_examples(
                settings.dictionary, self.forms, columns=columns, strict=settings.strict
            )
            names = Names(asked, listed.rows)
        return Examples(names, examples.source)

    def _names(self, path: Path, settings: Settings) -> Examples[list[Term]]:
        """Read a table with a header, or the names of KOSTOM, MRCONSO or a lexicon by their form.

        Of the latter, a concept's only name is left out: no other name could find it.
        """
        if settings.columns or form_of(path) in ("table", "biosyn"):
            return read_examples(path, self.forms, columns=settings.columns, strict=settings.strict)
        own: dict[str, dict[str, None]] = {}
        for _, code, name in synonyms(path):
            if name:
                own.setdefault(code, {})[name] = None
        several = ((code, names) for code, names in own.items() if len(names) > 1)
        rows = [Term(name, frozenset({code})) for code, names in several for name in names]
        file = path / MANIFEST if path.is_dir() else path
        return Examples(rows, describe(file, len(rows), {}))

    def outcome(self, model: object, examples: Examples[Names], settings: Settings) -> Outcome:
        """Measure how high the first right concept of each name is."""
        names, ks = examples.rows, settings.ks
        ranks = rank(model, names)
        columns = {f"accuracy@{k}": mean([float(r <= k) for r in ranks]) for k in ks}
        columns["mrr"] = mean([1 / r for r in ranks])
        details = {"names": len(names.asked), "dictionary": len(names.dictionary)}
        return Outcome(columns, np.arange(len(ranks)), f"accuracy@{min(ks)}", details)


def rank(model: object, names: Names) -> list[int]:
    """Give the rank, among concepts, of the first right one; one past all where there is none."""
    listed = _Dictionary(names.dictionary)
    asked = [term.name for term in names.asked]
    vectors = normalize(vectors_of(model, asked + listed.names))
    questions, dictionary = vectors[: len(asked)], vectors[len(asked) :]
    return [
        listed.rank(term, scores, own=names.own)
        for term, scores in zip(names.asked, score_rows(questions, dictionary), strict=True)
    ]


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
        """Count the concepts above the nearest right name."""
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
