"""Two spellings compared closely: grams, strokes and signs that they have in common.

Signs are the syllables of Korean, whose words are written together as one likes, and the words
of English.

Why a name may be what a mention means, in numbers: one row a name, one column a reason.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..lexicon import KINDS, Lexicon
from ..lexicon.terms import LANGUAGES, language_of
from ..types import Floats
from .expansion import Expansion, letters
from .name_index import PLAIN, NameIndex
from .ngram_index import Counted, ScoredNames, gram_texts, padded
from .normalize import NormalForms


@dataclass(frozen=True)
class Core:
    """A name's core, ready to be searched."""

    padded: str  # holds every gram of it
    strokes: str
    signs: str | tuple[str, ...]  # syllables of a Korean core, words of an English one

    @classmethod
    def of(cls, core: str) -> "Core":
        """Make a core ready."""
        bare = core.replace(" ", "")
        signs = tuple(core.split()) if core.isascii() else bare
        return cls(padded(core), f"^{letters(bare)}$", signs)


class Letters:
    """A mention's core, to be compared with those of many names."""

    def __init__(self, core: str) -> None:
        """Take a core apart."""
        own = Core.of(core)
        self._grams = tuple(set(gram_texts(core)))
        # One slip leaves most stretches of three strokes, even in a word of two syllables.
        self._strokes = tuple({own.strokes[i : i + 3] for i in range(len(own.strokes) - 2)})
        counts = Counter(own.signs)
        self._signs, self._length = tuple(counts), len(own.signs)
        self._again = [(sign, count - 1) for sign, count in counts.items() if count > 1]

    def compared(self, name: Core) -> tuple[float, float, float, float]:
        """Give the shares of own grams, of the name's grams, of strokes and of signs in common.

        Signs are counted wherever they stand, so that the order of words makes no difference.

        >>> Letters("폐렴").compared(Core.of("폐렴"))
        (1.0, 1.0, 1.0, 1.0)
        >>> Letters("당뇨").compared(Core.of("고혈압"))
        (0.0, 0.0, 0.0, 0.0)
        """
        grams, strokes = _found(self._grams, name.padded), _found(self._strokes, name.strokes)
        signs = _found(self._signs, name.signs)
        for sign, more in self._again:
            signs += min(more, max(name.signs.count(sign) - 1, 0))
        return (
            grams / (len(self._grams) or 1),
            min(1.0, grams / (2 * len(name.padded) - 3)),
            min(1.0, 2 * strokes / (len(self._strokes) + len(name.strokes) - 2 or 1)),
            2 * signs / (self._length + len(name.signs) or 1),
        )


def _found(wanted: tuple[str, ...], text: str | tuple[str, ...]) -> int:
    """Count what a text has of some signs; a list is quicker here than a sum of what is true."""
    return len([1 for sign in wanted if sign in text])


GRAMS_FIRST = 64  # names that spelling brings to the short list
VECTORS_FIRST = 40  # names that meaning brings
CLOSER = 24  # names whose letters are compared

_PREFERRED, _NARROWER = KINDS.index("preferred"), KINDS.index("narrower")
_KOREAN, _ENGLISH = LANGUAGES.index("ko"), LANGUAGES.index("en")
# What a name of the other script is like has nothing to do with its letters.
_OTHER_SCRIPT = {"ko": _ENGLISH, "en": _KOREAN}


@dataclass(frozen=True)
class Weights:
    """How much each reason counts, as `bench/linking_weights.py` has found on dev data.

    Its random walk's result was rounded by hand; `told` and `group` are a judgement.

    The names are those of the columns of `Evidence.features`; `centre` is the sum at which a
    first candidate is right as often as wrong, `steep` how quickly that changes around it.
    """

    gram: float = 1.0
    dense: float = 1.05
    across: float = 0.75
    support: float = 0.45
    letters: float = 0.4
    shared: float = 0.8
    covered: float = 0.4
    covers: float = -0.3
    plain: float = 0.4
    told: float = 0.15
    core: float = -0.2
    bag: float = 0.6
    preferred: float = 0.2
    narrower: float = -0.08
    vaguer: float = -0.02
    sharper: float = -0.25
    category: float = 0.0
    depth: float = -0.01
    rest: float = 0.0
    group: float = -1.2
    derived: float = 0.6
    centre: float = 2.2
    steep: float = 1.2

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
# Where meaning does not count, exactness has to count for more.
SPELLING = Weights(
    dense=0.0, across=0.0, support=0.0, gram=1.4, letters=0.7, shared=0.85, covered=0.45,
    covers=0.1, plain=0.25, core=0.05, bag=1.0, preferred=0.15, narrower=-0.06, vaguer=0.02,
    sharper=-0.15, category=0.08, depth=-0.04, centre=1.5, steep=0.8,
)  # fmt: skip


COLUMNS = tuple(field.name for field in fields(Weights) if field.name not in ("centre", "steep"))
AT = {name: i for i, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class Evidence:
    """The names considered for a mention under one reading of it."""

    reading: Expansion
    rows: NDArray[np.int64]  # (names,)
    features: Floats  # (names, COLUMNS)


@dataclass(frozen=True)
class Query:
    """A reading with its forms and its vector, None where only spelling counts."""

    reading: Expansion
    form: NormalForms
    vector: Floats | None
    exact: Mapping[int, set[int]]  # names with a key of its own, and how closely

    @property
    def language(self) -> str:
        """The script of the reading, as a lexicon has it of its names."""
        return language_of(self.reading.text)


class FeatureExtractor:
    """Collects evidence from every segment of a lexicon."""

    def __init__(self, lexicon: Lexicon, shelves: Sequence[NameIndex], *, own: int) -> None:
        """Take a lexicon and what was derived from it; after the first `own` names are told ones.

        Told are those that the shipped tables bring: what people mean by a word, where they do.
        """
        self.lexicon, self.shelves, self._own = lexicon, shelves, own
        self._concepts, self._kinds = np.asarray(lexicon.concepts), np.asarray(lexicon.kinds)
        self._languages = np.asarray(lexicon.languages)
        self._shapes = np.concatenate([shelf.spelling.shapes for shelf in shelves])
        self._unspecific = np.concatenate([shelf.spelling.unspecific for shelf in shelves])
        self.starts = np.cumsum([0, *(len(shelf.segment) for shelf in shelves)])
        self._core = lru_cache(maxsize=50_000)(self._core_of)

    def gather(self, asked: Query, near: NDArray[np.int64], weights: Floats) -> Evidence:
        """Give the evidence for a reading; `near` are the names whose meaning is nearest."""
        found = self._short_list(asked, near)
        rows = found.rows
        features = np.zeros((len(rows), len(COLUMNS)), np.float32)
        other = self._languages[rows] == _OTHER_SCRIPT.get(asked.language, 255)
        features[:, AT["gram"]] = np.where(other, 0, found.scores)
        self._add_meaning(features, asked, rows, other)
        self._add_names(features, asked, rows, other)
        for row, levels in asked.exact.items():
            place = int(np.searchsorted(rows, row))
            for level in levels:
                features[place, AT[("bag", "core", "plain")[level]]] = 1
            features[place, AT["told"]] = row >= self._own and PLAIN in levels
        self._look_closer(asked, rows, features, weights, other)
        # Where endings are taken off depends on spaces; names that differ in these are one.
        for at in np.flatnonzero(features[:, AT["plain"]]).tolist():
            features[at, _ALIKE] = 1
        return Evidence(asked.reading, rows, features)

    def exact(self, form: NormalForms) -> dict[int, set[int]]:
        """Give the names whose keys equal a form's, each with the levels at which they do."""
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

    def is_told(self, form: NormalForms) -> bool:
        """Tell whether a form is a name that the shipped tables bring."""
        if self._own == len(self.lexicon):
            return False
        found = self.shelves[-1].spelling.find(form.key)
        return any(level == PLAIN for _, level in found)

    def vector(self, row: int) -> Floats:
        """Give the vector of a name, of unit length, where the lexicon has vectors."""
        part = int(np.searchsorted(self.starts, row, "right")) - 1
        vectors = self.shelves[part].vectors
        assert vectors is not None
        return vectors.unit(row - int(self.starts[part]))

    def _short_list(self, asked: Query, near: NDArray[np.int64]) -> ScoredNames:
        """Give the names to consider, ascending, and how much of its spelling each shares."""
        counted = Counted.of(asked.form.core)
        also = np.concatenate([near, np.fromiter(asked.exact, np.int64, len(asked.exact))])
        rows, scores = [], []
        for start, end, shelf in zip(self.starts, self.starts[1:], self.shelves, strict=False):
            inside = also[(also >= start) & (also < end)] - start
            found = shelf.spelling.grams.find(counted, GRAMS_FIRST, inside)
            rows.append(found.rows + start)
            scores.append(found.scores)
        return ScoredNames(np.concatenate(rows), np.concatenate(scores))

    def _add_meaning(
        self,
        features: Floats,
        asked: Query,
        rows: NDArray[np.int64],
        other: NDArray[np.bool_],
    ) -> None:
        """Add cosines, and for a concept how near its names of the other script come."""
        if asked.vector is None:
            return
        for start, end, shelf in zip(self.starts, self.starts[1:], self.shelves, strict=False):
            inside = slice(*np.searchsorted(rows, (start, end)))
            if shelf.vectors is not None and inside.stop > inside.start:
                near = shelf.vectors.cosines(asked.vector, rows[inside] - start)
                features[inside, AT["dense"]] = near
        cosines = features[:, AT["dense"]]
        features[other, AT["across"]] = cosines[other]
        numbers, owner = np.unique(self._concepts[rows], return_inverse=True)
        support = np.zeros(len(numbers), np.float32)
        np.maximum.at(support, owner[other], cosines[other])
        features[~other, AT["support"]] = support[owner[~other]]

    def _add_names(
        self,
        features: Floats,
        asked: Query,
        rows: NDArray[np.int64],
        other: NDArray[np.bool_],
    ) -> None:
        kinds = self._kinds[rows]
        features[:, AT["preferred"]] = kinds == _PREFERRED
        features[:, AT["narrower"]] = kinds == _NARROWER
        features[:, AT["derived"]] = asked.reading.why != "mention"
        features[:, AT["category"] : AT["group"] + 1] = self._shapes[rows]
        unspecific = self._unspecific[rows]
        # Translations often leave "unspecified" out, or put it in.
        if asked.form.unspecific:
            features[:, AT["sharper"]] = ~(unspecific | other)
        else:
            features[:, AT["vaguer"]] = unspecific & ~other

    def _look_closer(
        self,
        asked: Query,
        rows: NDArray[np.int64],
        features: Floats,
        weights: Floats,
        other: NDArray[np.bool_],
    ) -> None:
        """Compare letters with the names that look best so far."""
        own = Letters(asked.form.core)
        order = np.argsort(-(features @ weights), kind="stable")[: 2 * CLOSER]
        chosen = order[~other[order]][:CLOSER]
        found = [own.compared(self._core(row)) for row in rows[chosen].tolist()]
        features[chosen[:, None], _CLOSER] = np.array(found, np.float32).reshape(-1, len(_CLOSER))

    def _core_of(self, row: int) -> Core:
        part = int(np.searchsorted(self.starts, row, "right")) - 1
        return Core.of(self.shelves[part].spelling.cores[row - int(self.starts[part])])


_ALIKE = [AT[name] for name in ("gram", "covered", "covers", "letters", "shared", "core", "bag")]
_CLOSER = [AT[name] for name in ("covered", "covers", "letters", "shared")]
