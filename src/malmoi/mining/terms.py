"""The terms nearest to a term, from any encoder and any list of terms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..encoder import TextEncoder
from ..errors import DataError, OptionError
from ..types import Floats


@dataclass(frozen=True, slots=True)
class NearTerm:
    """A term beside another one: how alike they are, and which of the asked ones it is near to."""

    term: str
    near: str
    score: float


@dataclass(frozen=True)
class Neighbourhood:
    """Asked terms, their nearest ones, and a vector for every term in the picture.

    `terms` are the asked ones first; `asked` is how many; `vectors` are (terms, dim).
    """

    found: list[NearTerm]
    terms: list[str]
    asked: int
    vectors: Floats


def nearest_terms(
    encoder: TextEncoder, asked: Sequence[str], among: Sequence[str], *, k: int = 10
) -> Neighbourhood:
    """Find the `k` terms of a list that are nearest to each asked one, itself left out."""
    if k < 1:
        raise OptionError(f"k is {k}; expected 1 or more.")
    known = list(dict.fromkeys(term.strip() for term in among if term.strip()))
    wanted = list(dict.fromkeys(asked))
    if not known:
        raise DataError("the list of terms is empty; expected one a line. Name another file.")
    table, queries = encoder.encode(known), encoder.encode(wanted)
    found: list[NearTerm] = []
    rows: dict[str, Floats] = dict(zip(wanted, queries, strict=True))
    for term, query in zip(wanted, queries, strict=True):
        scores = table @ query
        order = [i for i in np.argsort(-scores, kind="stable")[: k + 1] if known[i] != term][:k]
        found += [NearTerm(term, known[i], float(scores[i])) for i in order]
        rows |= {known[i]: table[i] for i in order if known[i] not in rows}
    return Neighbourhood(found, list(rows), len(wanted), np.stack(list(rows.values())))
