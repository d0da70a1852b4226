"""What a model's cosines mean: those of unrelated pairs, and of pairs that say the same.

Models differ: for one of them 0.6 is a paraphrase, for another what any two sentences have. The
pairs are 48 everyday sentences, each twice in Korean and twice in English (`data/pairs.tsv`).
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..io.tables import read_rows
from ..runtime.pooling import normalize
from ..types import Floats
from .base import BaseEncoder

PAIRS = Path(__file__).parents[1] / "data/pairs.tsv"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class ScoreScale:
    """The cosines of unrelated pairs and of pairs of the same meaning, (n,) each."""

    unrelated: Floats
    same: Floats

    def quantiles(self) -> dict[str, tuple[float, ...]]:
        """The cosines below which 5, 25, 50, 75 and 95 % of the pairs of each kind are."""
        found = {"unrelated": self.unrelated, "same meaning": self.same}
        return {
            name: tuple(float(value) for value in np.quantile(scores, QUANTILES))
            for name, scores in found.items()
        }

    def calibrated(self, scores: Floats) -> Floats:
        """Where cosines lie between those of unrelated pairs, 0, and those of paraphrases, 1.

        S / (S + U), with S the share of the pairs of the same meaning that have this cosine or less
        and U the share of the unrelated ones that have it or more. It grows with the cosine.
        """
        values = np.asarray(scores, dtype=np.float32)
        same, unrelated = np.sort(self.same), np.sort(self.unrelated)
        # Half a pair more: no cosine is impossible for either kind.
        below = (np.searchsorted(same, values, "right") + 0.5) / (len(same) + 1)
        above = (len(unrelated) - np.searchsorted(unrelated, values) + 0.5) / (len(unrelated) + 1)
        found: Floats = (below / (below + above)).astype(np.float32)
        return found


def score_scale(encoder: BaseEncoder) -> ScoreScale:
    """Measure the cosines that an encoder gives to pairs of both kinds, also across languages.

    Pairs that are about one thing without saying the same are harder than these; a threshold for
    your own texts is found on your own pairs: `malmoi evaluate --task pairs`.
    """
    rows = list(read_rows(PAIRS))
    columns = [normalize(encoder.encode([row[name] for row in rows])) for name in rows[0]]
    same, unrelated = [], []
    for left, right in itertools.combinations(columns, 2):
        scores = left @ right.T  # (rows, rows)
        same.append(np.diag(scores))
        unrelated.append(scores[~np.eye(len(scores), dtype=bool)])
    return ScoreScale(np.concatenate(unrelated), np.concatenate(same))
