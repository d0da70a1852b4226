"""Several rankings made into one by the places, not the scores, that documents have in them."""

from collections.abc import Mapping, Sequence

from ..errors import OptionError
from .store import Scored

# The constant of the method's paper (Cormack et al. 2009): how little the first places differ.
DEPTH = 60


def fuse(rankings: Mapping[str, Sequence[Scored]], weights: Mapping[str, float]) -> list[Scored]:
    """Reciprocal rank fusion: each ranking gives weight / (60 + rank), and the sums decide.

    >>> one, two = Scored("배", 0.9), Scored("차", 0.8)
    >>> [hit.id for hit in fuse({"a": [one, two], "b": [two]}, {"a": 1, "b": 0.5})]
    ['차', '배']
    """
    if any(weight < 0 for weight in weights.values()) or not any(weights.values()):
        raise OptionError(
            f"the weights are {dict(weights)}; expected none below 0 and one above. Correct them."
        )
    sums: dict[str, float] = {}
    for name, ranking in rankings.items():
        for rank, one in enumerate(ranking, start=1):
            sums[one.id] = sums.get(one.id, 0.0) + weights.get(name, 1.0) / (DEPTH + rank)
    ordered = sorted(sums.items(), key=lambda item: -item[1])  # stable: ties keep their order
    return [Scored(id, score) for id, score in ordered]
