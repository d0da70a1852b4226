"""Features of linking: why a name may be what a mention means, one row a name, one column a reason.

Two spellings are compared by the n-grams, the keystrokes and the units that they have in common.
Units are the syllables of Korean, whose spacing is free, and the words of English.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .expansion import Expansion, letters
from .lexicon import Lexicon
from .name_index import PLAIN, NameIndex
from .names import KINDS, LANGUAGES, language_of
from .ngram_index import gram_texts, padded
from .retrieve import Retrieved


@dataclass(frozen=True)
class Core:
    """A name's core, ready to be searched."""

    padded: str  # holds every n-gram of it
    strokes: str
    units: str | tuple[str, ...]  # syllables of a Korean core, words of an English one

    @classmethod
    def of(cls, core: str) -> "Core":
        bare = core.replace(" ", "")
        units = tuple(core.split()) if core.isascii() else bare
        return cls(padded(core), f"^{letters(bare)}$", units)


class Letters:
    """The core of a mention, to be compared with those of many names."""

    def __init__(self, core: str) -> None:
        own = Core.of(core)
        self._grams = tuple(set(gram_texts(core)))
        # One typing error leaves most runs of three strokes, even in a word of two syllables.
        self._strokes = tuple({own.strokes[i : i + 3] for i in range(len(own.strokes) - 2)})
        counts = Counter(own.units)
        self._units, self._length = tuple(counts), len(own.units)
        self._repeated = [(unit, count - 1) for unit, count in counts.items() if count > 1]

    def compared(self, name: Core) -> tuple[float, float, float, float]:
        """Give the shares of own n-grams, of the name's, of keystrokes and of units in common.

        Units are counted wherever they stand, so that the order of words makes no difference.

        >>> Letters("폐렴").compared(Core.of("폐렴"))
        (1.0, 1.0, 1.0, 1.0)
        >>> Letters("당뇨").compared(Core.of("고혈압"))
        (0.0, 0.0, 0.0, 0.0)
        """
        grams, strokes = _found(self._grams, name.padded), _found(self._strokes, name.strokes)
        units = _found(self._units, name.units)
        for unit, more in self._repeated:
            units += min(more, max(name.units.count(unit) - 1, 0))
        return (
            grams / (len(self._grams) or 1),
            min(1.0, grams / (2 * len(name.padded) - 3)),
            min(1.0, 2 * strokes / (len(self._strokes) + len(name.strokes) - 2 or 1)),
            2 * units / (self._length + len(name.units) or 1),
        )


def _found(wanted: tuple[str, ...], text: str | tuple[str, ...]) -> int:
    """Count which of `wanted` a text holds; a list is faster here than a sum."""
    return len([1 for one in wanted if one in text])


@dataclass(frozen=True)
class Weights:
    """How much each feature counts, as `bench/run.py linking_weights` has found on dev data.

    The result of its random walk was rounded by hand; `lay`, `meant` and `group` were set by
    judgement.

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
    lay: float = 0.15
    meant: float = 0.3
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


# Without vectors the spelling has to carry the whole weight, and exactness counts for more.
SPELLING = Weights(
    dense=0.0, across=0.0, support=0.0, gram=1.4, letters=0.7, shared=0.85, covered=0.45,
    covers=0.1, plain=0.25, core=0.05, bag=1.0, preferred=0.15, narrower=-0.06, vaguer=0.02,
    sharper=-0.15, category=0.08, depth=-0.04, centre=1.5, steep=0.8,
)  # fmt: skip

COLUMNS = tuple(field.name for field in fields(Weights) if field.name not in ("centre", "steep"))
AT = {name: i for i, name in enumerate(COLUMNS)}
_SPELLED = [AT[name] for name in ("covered", "covers", "letters", "shared")]
_EQUAL = [*_SPELLED, AT["gram"], AT["core"], AT["bag"]]
_COMPARED = 24  # names whose letters are compared

_PREFERRED, _NARROWER, _MEANT = map(KINDS.index, ("preferred", "narrower", "abbreviation"))
# The letters of a name in the other script say nothing about a mention.
_OTHER_SCRIPT = {"ko": LANGUAGES.index("en"), "en": LANGUAGES.index("ko")}


@dataclass(frozen=True)
class Evidence:
    """The names considered for a mention under one expansion of it."""

    expansion: Expansion
    rows: NDArray[np.int64]  # (names,), ascending
    features: Floats  # (names, COLUMNS)


class FeatureExtractor:
    """Turns names that were retrieved into features."""

    def __init__(self, lexicon: Lexicon, indexes: Sequence[NameIndex], *, lay_from: int) -> None:
        """Take a lexicon and the index of each segment; names from `lay_from` on are lay names."""
        self._lay_from = lay_from
        self._concepts, self._kinds = np.asarray(lexicon.concepts), np.asarray(lexicon.kinds)
        self._languages = np.asarray(lexicon.languages)
        self._shapes = np.concatenate([index.spelling.shapes for index in indexes])
        self._unspecific = np.concatenate([index.spelling.unspecific for index in indexes])
        self._cores = [index.spelling.cores for index in indexes]
        self._starts = np.cumsum([0, *(len(index.segment) for index in indexes)])
        self._core = lru_cache(maxsize=50_000)(self._core_of)

    def extract(self, found: Retrieved, weights: Floats, *, derived: float) -> Evidence:
        """Give the features of the names that were found for a query.

        weights  decide for which names the letters are compared: those that look best so far
        derived  the value of that column, the same for all names of an expansion
        """
        query, rows = found.query, found.rows
        features = np.zeros((len(rows), len(COLUMNS)), np.float32)
        other = self._languages[rows] == _OTHER_SCRIPT.get(language_of(query.expansion.text), 255)
        kinds, unspecific = self._kinds[rows], self._unspecific[rows]
        features[:, AT["gram"]] = np.where(other, 0, found.ngrams)
        features[:, AT["preferred"]] = kinds == _PREFERRED
        features[:, AT["narrower"]] = kinds == _NARROWER
        features[:, AT["category"] : AT["group"] + 1] = self._shapes[rows]
        features[:, AT["derived"]] = derived
        # Translations often leave "unspecified" out, or put it in.
        if query.forms.unspecific:
            features[:, AT["sharper"]] = ~(unspecific | other)
        else:
            features[:, AT["vaguer"]] = unspecific & ~other
        if found.cosines is not None:
            self._add_cosines(features, found.cosines, rows, other)
        for row, levels in query.exact.items():
            at = int(np.searchsorted(rows, row))
            for level in levels:
                features[at, AT[("bag", "core", "plain")[level]]] = 1
            features[at, AT["lay"]] = row >= self._lay_from and PLAIN in levels
            # What people say wins over a name of the table with the same words: 당뇨 is no R81.
            features[at, AT["meant"]] = features[at, AT["lay"]] and self._kinds[row] == _MEANT
        # The letters are compared with the names that look best so far.
        order = np.argsort(-(features @ weights), kind="stable")[: 2 * _COMPARED]
        chosen = order[~other[order]][:_COMPARED]
        own = Letters(query.forms.core)
        shares = [own.compared(self._core(row)) for row in rows[chosen].tolist()]
        features[chosen[:, None], _SPELLED] = np.array(shares, np.float32).reshape(-1, 4)
        # Which endings are removed depends on spaces; names that differ only in these are equal.
        for at in np.flatnonzero(features[:, AT["plain"]]).tolist():
            features[at, _EQUAL] = 1
        return Evidence(query.expansion, rows, features)

    def _add_cosines(
        self, features: Floats, cosines: Floats, rows: NDArray[np.int64], other: NDArray[np.bool_]
    ) -> None:
        """Add cosines, and for a concept how near its names of the other script come."""
        features[:, AT["dense"]] = cosines
        features[other, AT["across"]] = cosines[other]
        numbers, owner = np.unique(self._concepts[rows], return_inverse=True)
        support = np.zeros(len(numbers), np.float32)
        np.maximum.at(support, owner[other], cosines[other])
        features[~other, AT["support"]] = support[owner[~other]]

    def _core_of(self, row: int) -> Core:
        part = int(np.searchsorted(self._starts, row, "right")) - 1
        return Core.of(self._cores[part][row - int(self._starts[part])])


@dataclass(frozen=True)
class RankedConcept:
    """A concept with its score, its names by score, and what speaks for it in one word."""

    concept: int
    score: float  # between 0 and 1
    rows: tuple[int, ...]
    why: str  # exact, abbreviation, fuzzy or meaning


class Ranker:
    """Scores names by their features, and concepts by their best name."""

    def __init__(
        self, extractor: FeatureExtractor, concepts: NDArray[np.int32], weights: Weights
    ) -> None:
        """Take what makes features, the concept of every name (names,), and the weights."""
        self._extractor, self._concepts = extractor, concepts
        self._weights, self._array = weights, weights.array()

    def evidence(self, found: Sequence[Retrieved]) -> list[Evidence]:
        """Give the features of all names considered for a mention, one part an expansion.

        A mention that is itself a name means that: "DM" in a lexicon with that very name is not
        diabetes, so names of its expansions lose what expansions are given ahead. Synonyms keep
        a little, for their table says what people mean: 당뇨 is diabetes, whatever R81 is called.
        """
        is_name = bool(found and found[0].query.names)
        parts = []
        for i, one in enumerate(found):
            how = one.query.expansion.why
            derived = 0.0 if how == "mention" else 1.0
            if is_name and i:
                derived = 0.2 if how == "synonym" else -0.5
            parts.append(self._extractor.extract(one, self._array, derived=derived))
        return parts

    def rank(self, found: Sequence[Retrieved], k: int) -> list[RankedConcept]:
        """Rank up to `k` concepts by their best name under the best expansion.

        Of equal scores the earlier name of the lexicon wins.
        """
        if not found:
            return []
        parts = self.evidence(found)
        rows = np.concatenate([part.rows for part in parts])
        scores = np.concatenate([part.features @ self._array for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
        order = np.lexsort((rows, -scores))
        best: dict[int, int] = {}  # concept → the position of its best name
        names: dict[int, dict[int, None]] = {}  # concept → its names, best first
        concepts = self._concepts[rows[order]].tolist()
        ordered = zip(concepts, rows[order].tolist(), order.tolist(), strict=True)
        for rank, (concept, row, at) in enumerate(ordered):
            if concept in best or len(best) < k:
                best.setdefault(concept, at)
                names.setdefault(concept, {})[row] = None
            elif rank > 8 * k:
                break  # further names are not shown
        exact = found[0].query.names
        return [
            RankedConcept(
                concept,
                self._weights.squash(float(scores[at])),
                tuple(names[concept]),
                why(parts[owners[at]], int(rows[at]))
                if exact.isdisjoint(names[concept])
                else "exact",
            )
            for concept, at in best.items()
        ]


def why(evidence: Evidence, row: int) -> str:
    """Say in one word what speaks for a name."""
    features: Floats = evidence.features[int(evidence.rows.searchsorted(row))]
    how = evidence.expansion.why
    if how == "abbreviation":
        return "abbreviation"
    if how in ("synonym", "sample"):
        return "meaning"
    if any(features[AT[name]] for name in ("plain", "core", "bag")):
        return "exact" if how == "mention" else "fuzzy"
    spelled = features[AT["letters"]] >= 0.6 or features[AT["gram"]] >= 0.5
    return "fuzzy" if spelled or not features[AT["dense"]] else "meaning"
