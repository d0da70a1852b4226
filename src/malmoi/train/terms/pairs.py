"""Term files → pairs of names of one concept, with what each concept is confused with.

A file has a name and a concept in every row; names of one concept are synonyms, and at most so
many pairs are drawn of each. A file of strict pairs (`synonym` is a column too) makes every row
a meaning of its own: an inclusion term is narrower than its code, and no other name of it.
"""

import dataclasses
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ...errors import DataError, by_number, counted
from ...evaluate.concepts import is_held_out
from ..data import Found, TrainingExamples, file_rows
from ..objective import OBJECTIVES
from ..recipe import Data
from .hard_negatives import Confusable, Pair, fold, read_confusable
from .sampler import BatchClusters

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PairOptions:
    """How pairs are drawn and laid into batches; see docs/training.md."""

    pairs: int
    together: int
    neighbours: int
    siblings: int


class _Numbers(dict[str, int]):
    """Texts → numbers from 0, in the order they come."""

    def of(self, text: str) -> int:
        return self.setdefault(text, len(self))


def read_synonyms(entry: Data, root: Path, *, seed: int, strict: bool) -> TrainingExamples:
    """Read the files of an entry with the objective align."""
    options = _options(entry)
    rows = _kept(entry, list(_rows(entry, root, strict)))
    concepts = _Numbers()
    for *_, row in rows:
        concepts.of(row[entry.columns["concept"]])
    if "synonym" in entry.columns:
        pairs = _strict_pairs(entry, rows)
    else:
        pairs = _drawn_pairs(entry, rows, options.pairs, seed)
    if not pairs:
        raise DataError(
            f"{', '.join(entry.files)} have no concept with two names; expected some, for a name "
            "is learnt from another. Check the columns in the recipe."
        )
    found = read_confusable(entry, root, names_of(pairs), list(concepts), strict=strict)
    beside = found.with_siblings(list(concepts), options.siblings)
    count = len({pair.concept for pair in pairs})
    logger.info(
        f"{counted(len(pairs), 'pair')} of {counted(count, 'concept')}; "
        f"{sum(map(bool, beside.beside)):,} have others that they are confused with"
    )
    return _examples([*pairs, *beside.loners], [*concepts, *beside.added], beside, options)


def names_of(pairs: Sequence[Pair]) -> dict[str, str]:
    """Map every name, folded, to the first concept that has it."""
    found: dict[str, str] = {}
    for pair in pairs:
        for name in (pair.a, pair.b):
            found.setdefault(fold(name), pair.concept)
    return found


def _options(entry: Data) -> PairOptions:
    settled = OBJECTIVES[entry.objective].settle(entry.options, where="the recipe")
    return PairOptions(
        **{spec.name: settled[spec.name] for spec in dataclasses.fields(PairOptions)}
    )


def _rows(entry: Data, root: Path, strict: bool) -> list[Found]:
    found = [
        row
        for file in entry.files
        for row in file_rows(
            root / file, entry.columns, entry.where, {}, strict, without=entry.without
        )
    ]
    return found[: entry.limit] if entry.limit else found


def _kept(entry: Data, rows: list[Found]) -> list[Found]:
    """Leave out the concepts that are held out."""
    if not entry.hold_out:
        return rows
    column = entry.columns["concept"]
    kept = [row for row in rows if not is_held_out(row[2][column], entry.hold_out)]
    left = len(rows) - len(kept)
    are = by_number(left, "is", "are")
    logger.info(f"{left:,} of {counted(len(rows), 'row')} {are} of concepts that are held out")
    return kept


def _strict_pairs(entry: Data, rows: Sequence[Found]) -> list[Pair]:
    columns, seen = entry.columns, set()
    pairs: list[Pair] = []
    for *_, row in rows:
        a, b, concept = (row[columns[name]] for name in ("name", "synonym", "concept"))
        key = (fold(a), fold(b), concept)
        if key[0] == key[1] or key in seen:
            continue
        seen.add(key)
        pairs.append(Pair(a, b, f"{len(pairs)}", concept))
    return pairs


def _drawn_pairs(entry: Data, rows: Sequence[Found], most: int, seed: int) -> list[Pair]:
    names: dict[str, dict[str, str]] = {}
    for *_, row in rows:
        name, concept = row[entry.columns["name"]], row[entry.columns["concept"]]
        names.setdefault(concept, {}).setdefault(fold(name), name)
    return [
        Pair(a, b, concept, concept)
        for concept, group in names.items()
        for a, b in draw(list(group.values()), most, concept, seed)
    ]


def draw(names: Sequence[str], most: int, concept: str, seed: int) -> list[tuple[str, str]]:
    """Give all pairs of names, or `most` of them: the same ones whatever else is in the file.

    >>> draw(["간경변", "간경화", "liver cirrhosis"], 2, "K74", seed=1)
    [('간경변', 'liver cirrhosis'), ('간경화', 'liver cirrhosis')]
    """
    count = len(names) * (len(names) - 1) // 2
    if count <= most:
        return list(combinations(names, 2))
    digest = hashlib.sha256(concept.encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])
    if count < 100_000:
        every = list(combinations(names, 2))
        return [every[i] for i in sorted(rng.permutation(count)[:most])]
    # So many names that listing their pairs would fill memory: drawn one by one.
    chosen: set[tuple[int, int]] = set()
    while len(chosen) < most:
        i, j = sorted(int(k) for k in rng.choice(len(names), 2, replace=False))
        chosen.add((i, j))
    return [(names[i], names[j]) for i, j in sorted(chosen)]


def _examples(
    pairs: Sequence[Pair], concepts: Sequence[str], beside: Confusable, options: PairOptions
) -> TrainingExamples:
    texts, folded, meanings = _Numbers(), _Numbers(), _Numbers()
    number = {concept: i for i, concept in enumerate(concepts)}
    columns = np.array([[texts.of(pair.a), texts.of(pair.b)] for pair in pairs], dtype=np.int32)
    names = [[folded.of(fold(pair.a)), folded.of(fold(pair.b))] for pair in pairs]
    # A meaning and its concept together: row 3 of a strict file is not the code "3".
    labels = [meanings.of(f"{pair.concept}\0{pair.meaning}") for pair in pairs]
    clusters = BatchClusters(
        labels=np.array(labels, dtype=np.int64),
        concepts=np.array([number[pair.concept] for pair in pairs], dtype=np.int64),
        names=np.array(names, dtype=np.int64),
        beside=[[number[one] for one in others] for others in beside.beside],
        together=options.together,
        neighbours=options.neighbours,
    )
    return TrainingExamples(list(texts), columns, clusters.labels, (), clusters)
