"""Names that are too general to stand alone, found from the table itself.

A code table has rows such as "moderate" (an inclusion term that continues the line above), "knee"
or "type". A name of one word that its own heading does not have, and that occurs in the names of
many other categories, says nothing by itself. They are listed in the report of a build, and notes
are not searched for them.
"""

from collections import defaultdict
from collections.abc import Iterable

from .names import KINDS

_PREFERRED = KINDS.index("preferred")
# A word is too general if names of so many other categories have it.
_CATEGORIES = 8
_STEM = 6  # letters in which depression and depressive agree


def general_names(rows: Iterable[tuple[str, str, int]]) -> set[str]:
    """Find names that are too general, among rows of a core, a code and the number of a kind.

    >>> rows = [("seropositive arthritis", "M05", 0), ("severe", "M05", 2), ("gout", "M10", 0)]
    >>> rows += [(f"severe {word}", f"A{i:02}", 0) for i, word in enumerate("abcdefgh")]
    >>> general_names(rows)
    {'severe'}
    """
    alone: dict[str, set[str]] = defaultdict(set)
    headings: dict[str, set[str]] = defaultdict(set)
    categories: dict[str, set[str]] = defaultdict(set)
    for core, code, kind in rows:
        if not core.isascii():
            continue  # Korean words have no borders; those that matter are in ordinary.tsv
        words = core.split()
        if len(words) == 1:
            alone[core].add(code)
        if kind == _PREFERRED:
            headings[code].update(word[:_STEM] for word in words)
        for word in set(words):
            categories[word].add(code[:3])
    return {
        word
        for word, codes in alone.items()
        if not any(word[:_STEM] in headings[code] for code in codes)
        and len(categories[word] - {code[:3] for code in codes}) >= _CATEGORIES
    }
