"""Where a document has the words of a query: good enough to mark, not what it was found by."""

import re

_WORD = re.compile(r"[0-9A-Za-z]+|[가-힣]+")
_SHORTEST = 2  # a Korean word's stem; its endings and particles differ


def matches(query: str, text: str) -> list[tuple[int, int]]:
    """Give the stretches of a text that begin like words of the query, in order.

    >>> text = "환불은 며칠 걸리나요?"
    >>> [text[start:end] for start, end in matches("환불 언제 걸려요", text)]
    ['환불']
    >>> matches("refund", "How are Refunds paid?")
    [(8, 14)]
    """
    wanted = {word.lower() for word in _WORD.findall(query)}
    found = []
    for word in _WORD.finditer(text):
        size = max((_shared(word[0].lower(), one) for one in wanted), default=0)
        if size:
            found.append((word.start(), word.start() + size))
    return found


def _shared(word: str, other: str) -> int:
    """How many letters two words share from the start, 0 unless that means something."""
    size = 0
    for a, b in zip(word, other, strict=False):
        if a != b:
            break
        size += 1
    hangul = word[0] >= "가"
    needed = min(len(other), _SHORTEST) if hangul else max(min(len(other), len(word)), 3)
    return size if size >= needed else 0
