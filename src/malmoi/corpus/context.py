"""Passages that were found, joined for a prompt: with their sources, within a budget of tokens."""

from collections.abc import Sequence
from itertools import groupby

from ..documents.split import estimate_tokens
from .ranking import Hit


def join_passages(hits: Sequence[Hit], tokens: int) -> str:
    """Join hits, best documents first, each passage once and neighbours as one text.

    The best hits are taken as long as they fit into `tokens`, by the estimate that splits
    documents; one that does not fit is left out, and shorter ones after it may be taken.

    >>> hits = [Hit("a.md", "둘.", 2, number=1), Hit("a.md", "하나.", 1, number=0)]
    >>> print(join_passages(hits, 100))
    [1] a.md
    하나.
    <BLANKLINE>
    둘.
    """
    taken: list[Hit] = []
    text = ""
    for hit in hits:
        if any(hit.key == one.key or hit.text == one.text for one in taken):
            continue
        longer = _text([*taken, hit])
        if estimate_tokens(longer) <= tokens:
            taken, text = [*taken, hit], longer
    return text


def _text(hits: Sequence[Hit]) -> str:
    """Write hits under their sources; those that follow each other share one."""
    order = list(dict.fromkeys(hit.id for hit in hits))
    ranked = sorted(hits, key=lambda hit: (order.index(hit.id), hit.number))
    parts: list[str] = []
    # Numbers that follow each other have the same distance to their places.
    places = enumerate(ranked)
    for _, group in groupby(places, key=lambda one: (one[1].id, one[1].number - one[0])):
        own = [hit for _, hit in group]
        first = own[0]
        above = [first.place, first.title, *first.headings]
        head = " · ".join(dict.fromkeys(one for one in above if one))
        texts = "\n\n".join(hit.text for hit in own)
        parts.append(f"[{len(parts) + 1}] {head}\n{texts}")
    return "\n\n".join(parts)
