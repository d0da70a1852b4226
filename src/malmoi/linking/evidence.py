"""Why a name may be what a mention means, in numbers: one row a name, one column a reason."""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..lexicon import KINDS, Lexicon
from .codes import shape_of
from .edits import likeness
from .grams import Floats, best, grams
from .jamo import letters
from .normal import Form
from .readings import Reading
from .shelf import PLAIN, Shelf

GRAMS_FIRST = 64  # names that spelling brings to the short list
VECTORS_FIRST = 40  # names that meaning brings
CLOSER = 24  # names whose grams are compared
CLOSEST = 8  # names whose letters are compared one by one

_PREFERRED, _NARROWER = KINDS.index("preferred"), KINDS.index("narrower")


@dataclass(frozen=True)
class Weights:
    """How much each reason counts; `bench/linking_weights.py` looks for better ones.

    These were found by a random walk of that kind on dev data of KCD-9 and a list of lay names,
    then rounded by hand; `vaguer` and `category`, which put a category before its "unspecified"
    code, are a judgement that no dev data decided.

    The names are those of the columns of `Evidence.features`; `centre` is the sum at which a
    first candidate is right as often as wrong, `steep` how quickly that changes around it.
    """

    gram: float = 1.0
    dense: float = 1.17
    edit: float = 0.1
    covered: float = 0.5
    covers: float = 0.4
    plain: float = 0.3
    core: float = 0.17
    bag: float = 0.1
    preferred: float = 0.1
    narrower: float = -0.06
    vaguer: float = -0.02
    sharper: float = -0.3
    category: float = 0.02
    depth: float = -0.03
    rest: float = 0.0
    group: float = -1.2
    derived: float = 0.4
    centre: float = 2.35
    steep: float = 1.7

    def array(self) -> Floats:
        """The weights in the order of the columns."""
        return np.array([getattr(self, name) for name in COLUMNS], np.float32)

    def squash(self, score: float) -> float:
        """Bring a sum of evidence between 0 and 1, where it is about the chance of being right.

        >>> Weights().squash(Weights().centre)
        0.5
        """
        return float(1 / (1 + math.exp(min(700.0, (self.centre - score) * self.steep))))


# Without vectors the spelling has to carry the whole weight.
SPELLING = Weights(dense=0.0, gram=1.4, edit=0.3, centre=1.9, steep=1.4)


COLUMNS = tuple(field.name for field in fields(Weights) if field.name not in ("centre", "steep"))
AT = {name: i for i, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class Evidence:
    """The names considered for a mention under one reading of it."""

    reading: Reading
    rows: NDArray[np.int64]  # (names,)
    features: Floats  # (names, COLUMNS)


@dataclass(frozen=True)
class Asked:
    """A reading with its forms and its vector, None where only spelling counts."""

    reading: Reading
    form: Form
    vector: Floats | None


class Gatherer:
    """Collects evidence from every segment of a lexicon."""

    def __init__(self, lexicon: Lexicon, shelves: Sequence[Shelf]) -> None:
        """Take a lexicon and what was derived from it."""
        self.lexicon, self.shelves = lexicon, shelves
        self._concepts, self._kinds = np.asarray(lexicon.concepts), np.asarray(lexicon.kinds)
        self.starts = np.cumsum([0, *(len(shelf.segment) for shelf in shelves)])
        self._core = lru_cache(maxsize=50_000)(self._core_of)
        self._shape = lru_cache(maxsize=50_000)(lambda n: astuple(shape_of(lexicon.codes[n])))

    def gather(self, asked: Asked, near: NDArray[np.int64], weights: Floats) -> Evidence:
        """Give the evidence for a reading; `near` are the names whose meaning is nearest."""
        scores = [shelf.spelling.grams.scores(asked.form.core) for shelf in self.shelves]
        spelled = [
            start + best(found, GRAMS_FIRST)
            for start, found in zip(self.starts, scores, strict=False)
        ]
        exact = self._exact(asked.form)
        parts = [*spelled, near, np.array(sorted(exact), np.int64)]
        rows = np.unique(np.concatenate(parts).astype(np.int64))
        features = self._features(asked, rows, np.concatenate(scores), exact)
        self._look_closer(asked, rows, features, weights)
        return Evidence(asked.reading, rows, features)

    def _exact(self, form: Form) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for key in {form.key, form.core_key, form.bag}:
            if not key:
                continue
            for start, shelf in zip(self.starts, self.shelves, strict=False):
                for row, level in shelf.spelling.find(key):
                    # A plain form equals a plain form; a core may equal either of the others.
                    if level != PLAIN or key == form.key:
                        found.setdefault(int(start) + row, set()).add(level)
        return found

    def _features(
        self, asked: Asked, rows: NDArray[np.int64], scores: Floats, exact: dict[int, set[int]]
    ) -> Floats:
        features = np.zeros((len(rows), len(COLUMNS)), np.float32)
        features[:, AT["gram"]] = scores[rows]
        if asked.vector is not None:
            features[:, AT["dense"]] = self._cosines(asked.vector, rows)
        kinds = self._kinds[rows]
        features[:, AT["preferred"]] = kinds == _PREFERRED
        features[:, AT["narrower"]] = kinds == _NARROWER
        unspecific = self._unspecific(rows)
        asks = asked.form.unspecific
        features[:, AT["vaguer"]] = unspecific & (not asks)
        features[:, AT["sharper"]] = ~unspecific & asks
        for i, row in enumerate(rows.tolist()):
            for level in exact.get(row, ()):
                features[i, AT[("bag", "core", "plain")[level]]] = 1
        shapes = [self._shape(number) for number in self._concepts[rows].tolist()]
        columns = [AT["category"], AT["depth"], AT["rest"], AT["group"]]
        features[:, columns] = np.array(shapes, np.float32).reshape(-1, 4)
        features[:, AT["derived"]] = asked.reading.why != "mention"
        return features

    def _look_closer(
        self, asked: Asked, rows: NDArray[np.int64], features: Floats, weights: Floats
    ) -> None:
        """Compare letters with the names that look best so far."""
        spelled = letters(asked.form.core_key)
        own = frozenset(grams(asked.form.core))
        order = np.argsort(-(features @ weights), kind="stable")[:CLOSER]
        for place, i in enumerate(order.tolist()):
            name_letters, name_grams = self._core(int(rows[i]))
            shared = len(own & name_grams)
            features[i, AT["covered"]] = shared / len(own) if own else 0
            features[i, AT["covers"]] = shared / len(name_grams) if name_grams else 0
            longest = max(len(spelled), len(name_letters))
            if place < CLOSEST and longest and min(len(spelled), len(name_letters)) > 0.5 * longest:
                features[i, AT["edit"]] = likeness(spelled, name_letters)

    def _core_of(self, row: int) -> tuple[str, frozenset[int]]:
        part = int(np.searchsorted(self.starts, row, "right")) - 1
        core = self.shelves[part].spelling.cores[row - int(self.starts[part])]
        return letters(core.replace(" ", "")), frozenset(grams(core))

    def _cosines(self, vector: Floats, rows: NDArray[np.int64]) -> Floats:
        found = np.zeros(len(rows), np.float32)
        for start, end, shelf in zip(self.starts, self.starts[1:], self.shelves, strict=False):
            inside = (rows >= start) & (rows < end)
            if shelf.vectors is not None and inside.any():
                found[inside] = shelf.vectors.cosines(vector, rows[inside] - start)
        return found

    def _unspecific(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), bool)
        for start, end, shelf in zip(self.starts, self.starts[1:], self.shelves, strict=False):
            inside = (rows >= start) & (rows < end)
            found[inside] = shelf.spelling.unspecific[rows[inside] - start]
        return found
