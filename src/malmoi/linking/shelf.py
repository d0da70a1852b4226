"""What the linker derives from a lexicon, kept beside it: spellings, n-grams, vectors.

Each segment of a lexicon has a folder of its own under `linking/`, so that names added later are
indexed alone. `stamp.json` says of which names, table of variants and model the files were made.
Where the lexicon cannot be written to they are kept in the user's cache; where there is none, or
the lexicon stands in memory only, so does the shelf.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError
from ..lexicon import Lexicon, Segment
from ..lexicon.columns import Strings, open_array
from .codes import shape_of
from .grams import Floats, Grams, Rows
from .normal import Normal
from .places import NOWHERE, Place, read_stamp
from .sketch import LEAST, WIDTH, Sketch
from .vectors import NameEncoder, Vectors, encode_names, identity, reading

logger = logging.getLogger(__name__)

# Each has a number of its own: encoding again takes minutes, spelling again seconds.
SPELLINGS, VECTORS, SKETCHES = 4, 2, 1
# How exactly a key matched: by the plain form, the core, the words in any order.
PLAIN, CORE, BAG = 2, 1, 0


@dataclass(frozen=True)
class Spelling:
    """The forms of a segment's names: cores, keys to find them by, n-grams."""

    cores: Strings
    unspecific: NDArray[np.bool_]
    shapes: NDArray[np.int8]  # (names, 4), what the codes say by their form
    keys: NDArray[np.uint64]  # ascending
    key_rows: Rows
    key_levels: NDArray[np.uint8]
    grams: Grams

    @classmethod
    def build(
        cls, segment: Segment, codes: Sequence[str], normal: Normal, rarity: Floats | None
    ) -> "Spelling":
        """Bring every name of a segment to its forms; `codes` are all of the lexicon's."""
        forms = [normal.form(text) for text in segment.texts]
        keys = [(hashed(f.key), hashed(f.core_key), hashed(f.bag)) for f in forms]
        flat = np.array(keys, np.uint64).reshape(-1)
        order = np.argsort(flat, kind="stable")
        return cls(
            Strings.of(form.core for form in forms),
            np.array([form.unspecific for form in forms], bool),
            _shapes(segment, codes),
            flat[order],
            (order // 3).astype(np.int32),
            np.array([PLAIN, CORE, BAG], np.uint8)[order % 3],
            Grams.build((form.core for form in forms), rarity=rarity),
        )

    @classmethod
    def open(cls, folder: Path, names: int) -> "Spelling":
        """Map what `save` has written."""
        flags, shapes, keys, rows, levels = (
            np.asarray(open_array(folder / f"{name}.npy")) for name in _COLUMNS
        )
        cores = Strings.open(folder, "cores")
        return cls(cores, flags, shapes, keys, rows, levels, Grams.open(folder, names))

    def save(self, folder: Path) -> None:
        """Write every part into an empty folder."""
        self.cores.save(folder, "cores")
        for name in _COLUMNS:
            np.save(folder / f"{name}.npy", getattr(self, name.replace("-", "_")))
        self.grams.save(folder)

    def find(self, key: str) -> list[tuple[int, int]]:
        """Give the rows whose names have this key, each with the level of the match."""
        wanted = np.uint64(hashed(key))
        first = last = int(self.keys.searchsorted(wanted))
        while last < len(self.keys) and self.keys[last] == wanted:
            last += 1
        rows, levels = self.key_rows[first:last].tolist(), self.key_levels[first:last].tolist()
        return list(zip(rows, levels, strict=True))


_COLUMNS = ("unspecific", "shapes", "keys", "key-rows", "key-levels")


def _shapes(segment: Segment, codes: Sequence[str]) -> NDArray[np.int8]:
    shapes = {number: astuple(shape_of(codes[number])) for number in set(segment.concepts.tolist())}
    rows = [shapes[number] for number in segment.concepts.tolist()]
    return np.array(rows, np.int8).reshape(-1, 4)


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
    place: Place = NOWHERE,
    rebuild: bool = False,
    keep: bool = True,
    progress: bool = False,
) -> list[Shelf]:
    """Open what was derived before, and derive what is missing; `place` is where it is kept.

    Vectors of another model are refused unless `rebuild` is set; without `keep` they are passed
    over, and nothing is written.
    """
    shelves: list[Shelf] = []
    rarity: Floats | None = None
    for segment in lexicon.segments:
        maker = _Maker(lexicon, segment, normal, encoder, place, rebuild, keep, progress)
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
    place: Place
    rebuild: bool
    keep: bool
    progress: bool

    def spelling(self, rarity: Floats | None) -> Spelling:
        """Open the spellings, or make them."""
        stamp = {
            "format": SPELLINGS,
            "segment": self.segment.identity,
            "variants": self.normal.variants.identity,
        }
        name = f"{self.segment.identity[:12]}/spelling"
        found = None if self.rebuild else self._place.find(name, stamp)
        if found is not None:
            return Spelling.open(found, len(self.segment))
        made = Spelling.build(self.segment, self.lexicon.codes, self.normal, rarity)
        if self.keep:
            self._place.keep(name, stamp, made.save)
        return made

    def vectors(self) -> Vectors:
        """Open the vectors, or make them; those of another model are refused."""
        assert self.encoder is not None
        stamp = {
            "format": VECTORS,
            "segment": self.segment.identity,
            "model": identity(self.encoder),
            "name": self.encoder.name,
            **reading(self.encoder),
        }
        name = f"{self.segment.identity[:12]}/vectors"
        cached = f"{name}-{stamp['model']}"
        if not self.rebuild:
            found = self._place.find(name, stamp, cached=cached)
            if found is not None:
                codes = np.asarray(open_array(found / "codes.npy"))
                return Vectors(codes, self._sketch(codes, stamp))
            self._refuse_another_model(name)
        codes = self._encoded()
        if self.keep:
            self._place.keep(
                name, stamp, lambda folder: np.save(folder / "codes.npy", codes), cached=cached
            )
        return Vectors(codes, self._sketch(codes, stamp))

    def _sketch(self, codes: NDArray[np.int8], vectors: Mapping[str, object]) -> Sketch | None:
        """Open the sketch of vectors with this stamp, or make it; few names have none."""
        if len(codes) < LEAST or codes.shape[1] < 2 * WIDTH:
            return None
        stamp = {**vectors, "sketch": SKETCHES}
        name = f"{self.segment.identity[:12]}/sketch"
        cached = f"{name}-{stamp['model']}"
        found = None if self.rebuild else self._place.find(name, stamp, cached=cached)
        if found is not None:
            return Sketch.open(found)
        made = Sketch.build(codes)
        if self.keep:
            self._place.keep(name, stamp, made.save, cached=cached)
        return made

    @property
    def _place(self) -> Place:
        """Nowhere, for names that were added in memory."""
        return NOWHERE if self.segment.folder is None else self.place

    def _encoded(self) -> NDArray[np.int8]:
        assert self.encoder is not None
        if len(self.segment) > 2000:
            logger.info(f"encoding {len(self.segment):,} names once with {self.encoder.name}")
        return encode_names(self.encoder, self.segment.texts, progress=self.progress)

    def _refuse_another_model(self, name: str) -> None:
        assert self.encoder is not None
        if self._place.beside is None or not self.keep:
            return
        found = read_stamp(self._place.beside / name)
        if found.get("segment") != self.segment.identity or found.get("format") != VECTORS:
            return
        label, other = self.lexicon.folder or self.lexicon.label, found.get("name")
        if (found.get("model"), other) == (identity(self.encoder), self.encoder.name):
            return  # the same one, which has learnt to read signs since
        same = " (other weights of that name)" if other == self.encoder.name else ""
        raise LexiconError(
            f"{label} was indexed with the model {other}; expected {self.encoder.name}{same}. "
            f"Index it again with: malmoi link {label} --rebuild --model MODEL"
        )
