"""The second stage of linking: names that were retrieved → concepts, ranked, with the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import Floats
from .features import AT, Evidence, FeatureExtractor, Weights
from .retrieve import Retrieved


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
