"""Codes that were given up for others: a file of `from` and `to`, chains followed to their end."""

from collections.abc import Mapping
from pathlib import Path

from ..errors import DataError, counted
from .cells import read_cells


def read_merges(path: Path) -> dict[str, str]:
    """Read a table of two columns, the old code and the new one; the header may be left out."""
    pairs: dict[str, str] = {}
    for line, cells in read_cells(path):
        cells = [cell.strip() for cell in cells]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise DataError(
                f"line {line} of {path} has {counted(len([c for c in cells if c]), 'cell')}; "
                "expected an old code and the one it became. Mend the line."
            )
        old, new = cells[:2]
        if line == 1 and old.casefold() in ("from", "old", "code", "구코드", "이전코드"):
            continue
        if pairs.get(old, new) != new:
            raise DataError(
                f"line {line} of {path} merges {old} into {new}, an earlier line into "
                f"{pairs[old]}; expected one. Remove one of the lines."
            )
        pairs[old] = new
    return follow(pairs, where=str(path))


def follow(pairs: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Follow chains of codes to their last one; a circle has none and is refused.

    >>> follow({"A": "B", "B": "C"}, where="x")
    {'A': 'C', 'B': 'C'}
    """
    ends: dict[str, str] = {}
    for old in pairs:
        path = [old]
        while path[-1] in pairs:
            path.append(pairs[path[-1]])
            if path[-1] in path[:-1]:
                shown = path[path.index(path[-1]) :]
                raise DataError(
                    f"{where} merges in a circle: {' → '.join(shown[:6])}; expected every chain to "
                    "end at a code that stays. Remove one of these lines."
                )
        ends[old] = path[-1]
    return ends
