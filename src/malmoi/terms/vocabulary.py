"""The words of a lexicon: which occur in its names, and which names are too general alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.arrays import open_array
from .cache import DerivedCache
from .general import general_names
from .lexicon import Lexicon
from .name_index import NameIndex
from .segment import hash64

_FORMAT = 2
_FOLDER = "vocabulary"
_FILE = "general.json"


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
