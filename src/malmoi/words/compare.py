"""Where a word occurs in texts, and how similar its occurrences are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..runtime.pooling import normalize
from ..types import Floats
from .reader import Word


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word, and the text and the number of the text that it stands in."""

    text: str
    owner: int
    word: Word


def similarity(words: Sequence[Word], others: Sequence[Word] | None = None) -> Floats:
    """Cosines of words with others, or among themselves; (len(words), len(others))."""
    left = _stack(words)
    right = left if others is None else _stack(others)
    found: Floats = left @ right.T
    return found


def find(words: Sequence[Word], wanted: str) -> list[Word]:
    """Give the words that are the wanted one, or else those that begin with it.

    Words by spaces carry their particles, so that 배를 is an occurrence of 배 there.
    """
    exact = [word for word in words if word.text == wanted]
    return exact or [word for word in words if word.text.startswith(wanted)]


def occurrences(
    texts: Sequence[str], words: Sequence[Sequence[Word]], wanted: str
) -> list[Occurrence]:
    """Find a word in every text; raises a DataError that names a text without it."""
    found: list[Occurrence] = []
    for owner, (text, own) in enumerate(zip(texts, words, strict=True)):
        here = find(own, wanted)
        if not here:
            has = ", ".join(word.text for word in own) or "no words"
            raise DataError(
                f"text {owner + 1} has no word {wanted!r}; it has {has}. "
                "Choose one of these, or leave the text out."
            )
        found += [Occurrence(text, owner, word) for word in here]
    return found


def by_layer(words: Sequence[Word], layers: int) -> Floats:
    """Cosines among words in every layer; (layers, n, n).

    The words must be read with `layers="concat-all"`.
    """
    unit = normalize(np.stack([word.vector for word in words]).reshape(len(words), layers, -1))
    found: Floats = np.einsum("ald,bld->lab", unit, unit)
    return found


def _stack(words: Sequence[Word]) -> Floats:
    if not words:
        return np.zeros((0, 0), dtype=np.float32)
    return normalize(np.stack([word.vector for word in words]))
