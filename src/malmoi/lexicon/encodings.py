"""Lines of tables whose encoding is uncertain, and names that went through a wrong one.

Tables are put together from exports of many years: one file may hold lines of UTF-8 and of cp949,
so every line is decoded by itself. A name that was once decoded wrongly and saved again
("ë‹¹ë‡¨ë³‘") can often be brought back, because no byte of it was lost.
"""

import codecs
import logging
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..errors import counted
from ..files import LONGEST_LINE, opening, read_lines

logger = logging.getLogger(__name__)

_HEAD = 1024 * 1024
_HANGUL = re.compile("[가-힣]")
_WRONG = re.compile("[\x80-\u02ff‘-•…‰‹›€™ŒœŠšŽžŸƒˆ˜–—]{2,}")
# How text is brought back: as which encoding it was read, and what it was.
_WAYS = (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "euc_kr"), ("cp949", "utf-8"))
BROKEN = "\ufffd"


def table_lines(path: str | Path) -> Iterator[str]:
    """Yield a file's lines without their ends, each in its own encoding: UTF-8 or cp949.

    The encoding of most lines of the file's beginning is tried first. What was found is
    logged once if it is not UTF-8 throughout.
    """
    with opening(path) as file:
        head = file.read(_HEAD)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from read_lines(path)
        return
    order = ("cp949", "utf-8") if _mostly_cp949(head) else ("utf-8", "cp949")
    seen: Counter[str] = Counter()
    first: dict[str, int] = {}
    with opening(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            line, encoding = _decode(
                raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, order
            )
            seen[encoding] += 1
            first.setdefault(encoding, number)
            yield line.rstrip("\r\n")
    _log_encodings(str(path), seen, first)


def _mostly_cp949(head: bytes) -> bool:
    votes = Counter(
        _decode(line, ("utf-8", "cp949"))[1] for line in head.splitlines()[:-1] or [head]
    )
    return votes["cp949"] > votes["utf-8"]


def _decode(raw: bytes, order: tuple[str, str]) -> tuple[str, str]:
    if raw.isascii():
        return raw.decode("ascii"), "ascii"
    for encoding in order:
        try:
            return raw.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return raw.decode(order[0], "replace"), "broken"


def _log_encodings(name: str, seen: Counter[str], first: dict[str, int]) -> None:
    if seen["cp949"] and seen["utf-8"]:
        fewer = min(("utf-8", "cp949"), key=lambda encoding: seen[encoding])
        logger.info(
            f"{name} mixes encodings: {counted(seen['utf-8'], 'line is', 'lines are')} UTF-8, "
            f"{seen['cp949']:,} cp949 "
            f"(the first {fewer} line is {first[fewer]}); each was read as what it is"
        )
    elif seen["cp949"]:
        logger.info(f"{name} is cp949, not UTF-8; reading it as cp949")
    if seen["broken"]:
        logger.info(
            f"{name} has {counted(seen['broken'], 'line that is', 'lines that are')} neither UTF-8 "
            f"nor cp949 (the first is line {first['broken']}); their broken names are left out and "
            "counted"
        )


def repair(text: str) -> str | None:
    """Bring back Korean that was decoded wrongly and saved again; None where nothing is wrong.

    >>> repair("당뇨병".encode("utf-8").decode("latin-1"))
    '당뇨병'
    >>> repair("당뇨병".encode("cp949").decode("latin-1"))
    '당뇨병'
    >>> repair("Ménière병"), repair("당뇨병"), repair("Behçet’s disease")
    (None, None, None)
    """
    if text.isascii() or BROKEN in text:
        return None
    ways = _WAYS[:3] if _WRONG.search(text) and not _HANGUL.search(text) else _WAYS[3:]
    for wrong, right in ways:
        try:
            mended = text.encode(wrong).decode(right)
        except UnicodeError:
            continue
        if _is_korean(mended):
            return mended
    return None


def _is_korean(text: str) -> bool:
    """Tell whether everything that is not ASCII is Hangul, or nearly so."""
    signs = [sign for sign in text if not sign.isascii()]
    return len(_HANGUL.findall(text)) >= max(1, 0.9 * len(signs))
