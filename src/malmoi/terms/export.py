"""A lexicon → files that training reads: its names by code, or pairs of names of one code."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from ..io.files import writing
from ..io.fingerprint import hash_number
from .names import EXCLUDED
from .readers import TableSource

# The most pairs of a code, as in SapBERT: a code of forty names would be seen 780 times.
PAIRS = 50
PAIR_COLUMNS = ("sent0", "sent1", "label")
NAME_COLUMNS = ("code", "name", "language", "kind", "source")
# Names that mean less than their code, or stand for many things, are no synonyms of it.
_LOOSE = ("narrower", "abbreviation", EXCLUDED)


def draw(names: Sequence[str], most: int, concept: str, seed: int) -> list[tuple[str, str]]:
    """Give all pairs of names, or `most` of them: the same ones whatever else is in the file.

    >>> draw(["간경변", "간경화", "liver cirrhosis"], 2, "K74", seed=1)
    [('간경변', 'liver cirrhosis'), ('간경화', 'liver cirrhosis')]
    """
    count = len(names) * (len(names) - 1) // 2
    if count <= most:
        return list(combinations(names, 2))
    rng = np.random.default_rng([seed, hash_number(concept)])
    if count < 100_000:
        every = list(combinations(names, 2))
        return [every[i] for i in sorted(rng.permutation(count)[:most])]
    # So many names that listing their pairs would fill memory: drawn one by one.
    chosen: set[tuple[int, int]] = set()
    while len(chosen) < most:
        i, j = sorted(int(k) for k in rng.choice(len(names), 2, replace=False))
        chosen.add((i, j))
    return [(names[i], names[j]) for i, j in sorted(chosen)]


def synonyms(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, code and name of a lexicon or a code table, for those that mean their code."""
    for entry in TableSource(path).entries():
        if entry.kind not in _LOOSE:
            yield entry.line, entry.code, entry.text.strip()


def name_rows(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield every name of a lexicon or a code table in the order of NAME_COLUMNS."""
    for one in TableSource(path).entries():
        yield one.code, one.text.strip(), one.language or "", one.kind, one.source


def pair_rows(path: Path, *, most: int = PAIRS, seed: int = 1) -> Iterator[tuple[str, ...]]:
    """Yield at most so many pairs of names of each code, with the code that joins them."""
    names: dict[str, dict[str, None]] = {}
    for _, code, name in synonyms(path):
        names.setdefault(code, {})[name] = None
    for code, own in names.items():
        for a, b in draw(list(own), most, code, seed):
            yield a, b, code


def write_rows(header: Sequence[str], rows: Iterable[Sequence[object]], out: Path) -> int:
    """Write a .tsv file whole or not at all; gives how many rows it has."""
    count = 0
    with writing(out) as file:
        file.write(("\t".join(header) + "\n").encode())
        for row in rows:
            line = "\t".join(" ".join(str(cell).split()) for cell in row)
            file.write(line.encode("utf-8", "replace") + b"\n")
            count += 1
    return count
