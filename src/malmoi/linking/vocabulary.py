"""The words of a lexicon: which occur in its names, and which names are too general to stand alone.

A code table has rows such as "moderate" (an inclusion term that continues the line above), "knee"
or "disease". They are found from the table itself: a name of one word that its own heading does not
have, and that occurs in the names of many other categories, says nothing by itself.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from ..lexicon import KINDS, Lexicon
from ..lexicon.segment import hash64
from .cache import DerivedCache
from .name_index import NameIndex

_FORMAT = 2
_FOLDER = "vocabulary"
_FILE = "general.json"
_PREFERRED = KINDS.index("preferred")
# A word is too general if names of so many other categories have it.
_CATEGORIES = 8
_STEM = 6  # letters in which depression and depressive agree


@dataclass(frozen=True)
class Vocabulary:
    """Hashes of the words of names, ascending, and the keys of names that are too general."""

    words: NDArray[np.uint64]
    general: frozenset[str]

    def __contains__(self, word: str) -> bool:
        at = int(self.words.searchsorted(np.uint64(hash64(word))))
        return at < len(self.words) and self.words[at] == np.uint64(hash64(word))

    def save(self, folder: Path) -> None:
        """Write both parts into an empty folder."""
        np.save(folder / "words.npy", self.words)
        (folder / _FILE).write_text(json.dumps(sorted(self.general), ensure_ascii=False), "utf-8")

    @classmethod
    def open(cls, folder: Path) -> "Vocabulary":
        """Read what `save` has written."""
        general = json.loads((folder / _FILE).read_text("utf-8"))
        return cls(np.asarray(open_array(folder / "words.npy")), frozenset(general))


def open_vocabulary(
    names: Lexicon,
    indexes: Sequence[NameIndex],
    cache: DerivedCache,
    *,
    own: int,
    keep: bool = True,
) -> Vocabulary:
    """Open the vocabulary that was stored, or make it; the first `own` segments are the table's."""
    parts = [index.segment.identity for index in indexes]
    stamp = {"format": _FORMAT, "segments": parts}
    found = cache.find(_FOLDER, stamp)
    if found is not None:
        return Vocabulary.open(found)
    cores = [list(index.spelling.cores) for index in indexes]
    words = {word for part in cores for core in part if core.isascii() for word in core.split()}
    hashes = np.array(sorted(map(hash64, words)), np.uint64)
    codes = names.codes
    rows = (
        (core, codes[concept], kind)
        for index, part in zip(indexes[:own], cores, strict=False)
        for core, concept, kind in zip(
            part, index.segment.concepts.tolist(), index.segment.kinds.tolist(), strict=True
        )
    )
    made = Vocabulary(hashes, frozenset(general_names(rows)))
    if keep:
        cache.store(_FOLDER, stamp, made.save)
    return made


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
