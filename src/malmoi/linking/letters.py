"""Two spellings compared closely: grams, strokes and signs that they have in common.

Signs are the syllables of Korean, whose words are written together as one likes, and the words
of English.
"""

from collections import Counter
from dataclasses import dataclass

from .grams import gram_texts, padded
from .jamo import letters


@dataclass(frozen=True)
class Core:
    """A name's core, ready to be searched."""

    padded: str  # holds every gram of it
    strokes: str
    signs: str | tuple[str, ...]  # syllables of a Korean core, words of an English one

    @classmethod
    def of(cls, core: str) -> "Core":
        """Make a core ready."""
        bare = core.replace(" ", "")
        signs = tuple(core.split()) if core.isascii() else bare
        return cls(padded(core), f"^{letters(bare)}$", signs)


class Letters:
    """A mention's core, to be compared with those of many names."""

    def __init__(self, core: str) -> None:
        """Take a core apart."""
        own = Core.of(core)
        self._grams = tuple(set(gram_texts(core)))
        # One slip leaves most stretches of three strokes, even in a word of two syllables.
        self._strokes = tuple({own.strokes[i : i + 3] for i in range(len(own.strokes) - 2)})
        counts = Counter(own.signs)
        self._signs, self._length = tuple(counts), len(own.signs)
        self._again = [(sign, count - 1) for sign, count in counts.items() if count > 1]

    def compared(self, name: Core) -> tuple[float, float, float, float]:
        """Give the shares of own grams, of the name's grams, of strokes and of signs in common.

        Signs are counted wherever they stand, so that the order of words makes no difference.

        >>> Letters("폐렴").compared(Core.of("폐렴"))
        (1.0, 1.0, 1.0, 1.0)
        >>> Letters("당뇨").compared(Core.of("고혈압"))
        (0.0, 0.0, 0.0, 0.0)
        """
        grams, strokes = _found(self._grams, name.padded), _found(self._strokes, name.strokes)
        signs = _found(self._signs, name.signs)
        for sign, more in self._again:
            signs += min(more, max(name.signs.count(sign) - 1, 0))
        return (
            grams / (len(self._grams) or 1),
            min(1.0, grams / (2 * len(name.padded) - 3)),
            min(1.0, 2 * strokes / (len(self._strokes) + len(name.strokes) - 2 or 1)),
            2 * signs / (self._length + len(name.signs) or 1),
        )


def _found(wanted: tuple[str, ...], text: str | tuple[str, ...]) -> int:
    """Count what a text has of some signs; a list is quicker here than a sum of what is true."""
    return len([1 for sign in wanted if sign in text])
