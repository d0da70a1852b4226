"""Large pages for a model's weights, where Linux gives them to those who ask.

A product walks over tens of megabytes of weights. In pages of 4 KiB the processor looks up
thousands of addresses on the way, in pages of 2 MiB a few dozen: long texts run two to three per
cent faster. onnxruntime allocates without asking, so the memory that came with a session is found
in the process's map and asked for afterwards. It is a hint: where it is refused nothing changes.
"""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

_PAGE = 2 << 20
_MAP = Path("/proc/self/maps")
_WANT, _NOW = 14, 25  # MADV_HUGEPAGE, and MADV_COLLAPSE (Linux 6.1) for what is there already

Region = tuple[int, int]


class Growth:
    """The memory that a process gains from the moment this is made."""

    def __init__(self) -> None:
        self._before = list(_regions())

    def ask(self) -> int:
        """Ask for large pages in it, and give how many there are now."""
        found = [
            part for region in _regions() for part in _without(region, self._before) if _whole(part)
        ]
        if not found:
            return 0
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        pages = 0
        for start, end in map(_whole, found):
            advise(start, end - start, _WANT)
            pages += sum(advise(at, _PAGE, _NOW) == 0 for at in range(start, end, _PAGE))
        return pages


def _regions(path: Path = _MAP) -> Iterator[Region]:
    """Give the process's private memory that no file stands behind."""
    if sys.platform != "linux" or not path.exists():
        return
    for line in path.read_text().splitlines():
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)


def _without(region: Region, others: list[Region]) -> list[Region]:
    """Give what is left of a region beside the others.

    >>> _without((0, 10), [(2, 4), (8, 12)])
    [(0, 2), (4, 8)]
    """
    left = [region]
    for start, end in others:
        left = [
            part
            for low, high in left
            for part in ((low, min(high, start)), (max(low, end), high))
            if part[0] < part[1]
        ]
    return left


def _whole(region: Region) -> Region:
    """Give the whole large pages inside a region; its start is its end where there are none."""
    start, end = -(-region[0] // _PAGE) * _PAGE, region[1] // _PAGE * _PAGE
    return start, max(start, end)
