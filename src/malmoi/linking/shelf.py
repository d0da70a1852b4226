"""What the linker derives from a lexicon, kept beside it: spellings, n-grams, vectors.

Each segment of a lexicon has a folder of its own under `linking/`, so that names added later are
indexed alone. `stamp.json` says of which names, table of variants and model the files were made.
Where the lexicon cannot be written to, or stands in memory only, so does the shelf.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError
from ..files import Tell, writing_folder
from ..lexicon import Lexicon, Segment
from ..lexicon.columns import Strings, open_array
from ..lexicon.store import SHIPPED
from .grams import Floats, Grams, Rows
from .normal import Normal
from .vectors import NameEncoder, Vectors, encode_names, identity

FOLDER = "linking"
FORMAT = 2
# How exactly a key matched: by the plain form, the core, the words in any order.
PLAIN, CORE, BAG = 2, 1, 0


@dataclass(frozen=True)
class Spelling:
    """The forms of a segment's names: cores, keys to find them by, n-grams."""

    cores: Strings
    unspecific: NDArray[np.bool_]
    keys: NDArray[np.uint64]  # ascending
    key_rows: Rows
    key_levels: NDArray[np.uint8]
    grams: Grams

    @classmethod
    def build(cls, segment: Segment, normal: Normal, rarity: Floats | None) -> "Spelling":
        """Bring every name of a segment to its forms."""
        forms = [normal.form(text) for text in segment.texts]
        keys = [(hashed(f.key), hashed(f.core_key), hashed(f.bag)) for f in forms]
        flat = np.array(keys, np.uint64).reshape(-1)
        order = np.argsort(flat, kind="stable")
        return cls(
            Strings.of(form.core for form in forms),
            np.array([form.unspecific for form in forms], bool),
            flat[order],
            (order // 3).astype(np.int32),
            np.array([PLAIN, CORE, BAG], np.uint8)[order % 3],
            Grams.build((form.core for form in forms), rarity=rarity),
        )

    @classmethod
    def open(cls, folder: Path, names: int) -> "Spelling":
        """Map what `save` has written."""
        flags, keys, rows, levels = (
            np.asarray(open_array(folder / f"{name}.npy")) for name in _COLUMNS
        )
        cores = Strings.open(folder, "cores")
        return cls(cores, flags, keys, rows, levels, Grams.open(folder, names))

    def save(self, folder: Path) -> None:
        """Write every part into an empty folder."""
        self.cores.save(folder, "cores")
        for name in _COLUMNS:
            np.save(folder / f"{name}.npy", getattr(self, name.replace("-", "_")))
        self.grams.save(folder)

    def find(self, key: str) -> list[tuple[int, int]]:
        """Give the rows whose names have this key, each with the level of the match."""
        wanted = np.uint64(hashed(key))
        first = int(np.searchsorted(self.keys, wanted, "left"))
        last = int(np.searchsorted(self.keys, wanted, "right"))
        return [(int(self.key_rows[i]), int(self.key_levels[i])) for i in range(first, last)]


_COLUMNS = ("unspecific", "keys", "key-rows", "key-levels")


def hashed(key: str) -> int:
    """Hash a key to 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Shelf:
    """All derived parts of one segment; `vectors` is None for matching by spelling alone."""

    segment: Segment
    spelling: Spelling
    vectors: Vectors | None


def open_shelves(
    lexicon: Lexicon,
    normal: Normal,
    encoder: NameEncoder | None,
    *,
    rebuild: bool = False,
    keep: bool = True,
    progress: bool = False,
    tell: Tell | None = None,
) -> list[Shelf]:
    """Open what was derived before, and derive what is missing.

    Vectors of another model are refused unless `rebuild` is set; without `keep` they are passed
    over, and nothing is written.
    """
    shelves: list[Shelf] = []
    rarity: Floats | None = None
    for segment in lexicon.segments:
        maker = _Maker(lexicon, segment, normal, encoder, rebuild, keep, progress, tell or _silent)
        spelling = maker.spelling(rarity)
        rarity = spelling.grams.rarity if rarity is None else rarity
        vectors = maker.vectors() if encoder is not None else None
        shelves.append(Shelf(segment, spelling, vectors))
    return shelves


@dataclass(frozen=True)
class _Maker:
    lexicon: Lexicon
    segment: Segment
    normal: Normal
    encoder: NameEncoder | None
    rebuild: bool
    keep: bool
    progress: bool
    tell: Tell

    @property
    def _folder(self) -> Path | None:
        if self.lexicon.folder is None or self.segment.folder is None:
            return None
        if self.lexicon.folder.parent == SHIPPED:  # an installation is nobody's to write to
            return None
        return self.lexicon.folder / FOLDER / self.segment.folder.name

    def spelling(self, rarity: Floats | None) -> Spelling:
        """Open the spellings, or make them."""
        stamp = {
            "format": FORMAT,
            "segment": self.segment.identity,
            "variants": self.normal.variants.identity,
        }
        folder = self._folder
        if folder is not None and not self.rebuild and _stamp(folder / "spelling") == stamp:
            return Spelling.open(folder / "spelling", len(self.segment))
        made = Spelling.build(self.segment, self.normal, rarity)
        if folder is not None and self.keep:
            with _writing(folder / "spelling", stamp) as half:
                made.save(half)
        return made

    def vectors(self) -> Vectors:
        """Open the vectors, or make them; those of another model are refused."""
        assert self.encoder is not None
        stamp = {
            "format": FORMAT,
            "segment": self.segment.identity,
            "model": identity(self.encoder),
            "name": self.encoder.name,
        }
        folder = self._folder
        found = {} if folder is None or self.rebuild else _stamp(folder / "vectors")
        if folder is not None and found.get("segment") == self.segment.identity:
            if found.get("model") != stamp["model"] and self.keep:
                raise self._other_model(str(found.get("name")))
            if found == stamp:
                return Vectors.open(folder / "vectors" / "codes.npy")
        if len(self.segment) > 2000:
            self.tell(f"encoding {len(self.segment):,} names once with {self.encoder.name}")
        codes = encode_names(self.encoder, self.segment.texts, progress=self.progress)
        if folder is not None and self.keep:
            with _writing(folder / "vectors", stamp) as half:
                np.save(half / "codes.npy", codes)
        return Vectors(codes)

    def _other_model(self, name: str) -> LexiconError:
        assert self.encoder is not None
        label = self.lexicon.folder or self.lexicon.label
        same = " (other weights of that name)" if name == self.encoder.name else ""
        return LexiconError(
            f"{label} was indexed with the model {name}; expected {self.encoder.name}{same}. "
            f"Index it again with: malmoi link {label} --rebuild --model MODEL"
        )


@contextlib.contextmanager
def _writing(folder: Path, stamp: dict[str, Any]) -> Iterator[Path]:
    """Give a folder to write to; where the lexicon is read-only, one that is thrown away."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder.parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        with tempfile.TemporaryDirectory() as half:
            yield Path(half)
        return
    with writing_folder(folder, replace=True) as half_folder:
        yield half_folder
        (half_folder / "stamp.json").write_text(json.dumps(stamp), "utf-8")


def _stamp(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / "stamp.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _silent(message: str) -> None:
    pass
