"""Meaning: the vectors of a lexicon's names, eight bits a value, and the nearest of them.

What the linker derives from a lexicon, kept beside it: spellings, n-grams, vectors.

Each segment of a lexicon has a folder of its own under `linking/`, so that names added later are
indexed alone. `stamp.json` says of which names, table of variants and model the files were made.
Where the lexicon cannot be written to they are kept in the user's cache; where there is none, or
the lexicon stands in memory only, so does the shelf.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError
from ..index.prefilter import LEAST, WIDTH, Prefilter
from ..io.arrays import open_array
from ..lexicon import Lexicon, Segment
from ..lexicon.strings import Strings
from ..runtime.pooling import normalize
from ..types import Floats
from .cache import NO_CACHE, DerivedCache, read_stamp
from .ngram_index import NgramIndex, Rows
from .normalize import Normalizer, shape_of

logger = logging.getLogger(__name__)

_ROWS = 8192  # names multiplied at once: 12 MB of float32 at 384 dimensions
_GROUP = 16


class NameEncoder(Protocol):
    """What the linker asks of an encoder; malmoi.Encoder and StaticEncoder have it."""

    name: str
    dimension: int

    @property
    def encode(self) -> Callable[..., NDArray[Any]]:
        """Give one vector a text; options are those of `TextEncoder.encode`."""


def identity(encoder: object) -> str:
    """Say which model this is: by the hashes of its files, or what is known where it has none."""
    manifest = getattr(encoder, "manifest", None)
    files = sorted(getattr(manifest, "files", {}).items())
    known = [(name, value) for name, value in files if not name.endswith((".md", ".json"))]
    known += [item for item in files if item[0] == "tokenizer.json"]
    label = (getattr(encoder, "name", ""), getattr(encoder, "dimension", 0), type(encoder).__name__)
    told = repr(known) if known else repr(label)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def reading(encoder: object) -> dict[str, object]:
    """Say how a model reads text beyond what its files decide, for the stamp of its vectors.

    Only a model that spells signs says it, so that vectors made before any did are used on.
    """
    steps = getattr(getattr(encoder, "manifest", None), "clean", ())
    return {"clean": list(steps)} if "symbols" in steps else {}


def encode_names(encoder: NameEncoder, texts: Iterable[str], *, progress: bool) -> NDArray[np.int8]:
    """Encode names as int8 codes, each distinct one once. Shape (names, dim)."""
    listed = list(texts)
    if not listed:
        return np.empty((0, encoder.dimension), np.int8)
    # Longest names say enough with their beginning; windows over them would gain nothing.
    cut = [text[:400] for text in listed]
    codes: NDArray[np.int8] = encoder.encode(cut, precision="int8", progress=progress)
    return codes


class NameVectors:
    """Int8 vectors, mapped from disk; nothing is held but the block being multiplied."""

    def __init__(self, codes: NDArray[np.int8], sketch: Prefilter | None = None) -> None:
        """Take codes of shape (names, dim) as `to_precision` makes them, and their sketch."""
        self.codes = np.asarray(codes)  # a plain view: a map's own indexing is slow
        self.sketch = sketch

    def __len__(self) -> int:
        """Count the names."""
        return len(self.codes)

    def nearest(self, queries: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Give the rows of the nearest names of unit vectors (n, dim), and products with them.

        Both of shape (n, ≤ count), in any order.

        With a sketch, names that it does not let pass are not looked at; a few of those at the
        end of the list may be missed.
        """
        if not len(self) or not count:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        if self.sketch is None:
            return self._nearest_of_all(queries, count)
        count = min(count, len(self))
        lists = self.sketch.shortlists(queries, count)
        rows = np.empty((len(queries), count), np.int64)
        scores = np.empty((len(queries), count), np.float32)
        short = [i for i, found in enumerate(lists) if len(found) < count]
        if short:  # names that are alike in hundreds leave too few above any score
            rows[short], scores[short] = self._nearest_of_all(queries[short], count)
        for i, found in enumerate(lists):
            if len(found) >= count:
                products = self.codes[found].astype(np.float32) @ queries[i]
                top = np.argpartition(products, -count)[-count:]
                rows[i], scores[i] = found[top], products[top]
        return rows, scores

    def _nearest_of_all(self, queries: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Multiply with every name, a block at a time, so that memory does not grow with them."""
        rows: list[NDArray[np.int64]] = []
        scores: list[Floats] = []
        for start in range(0, len(self), _ROWS):
            block = self.codes[start : start + _ROWS].astype(np.float32)
            found = queries @ block.T  # (n, block)
            top = _top(found, count)
            rows.append(top + start)
            scores.append(np.take_along_axis(found, top, axis=1))
        return highest(np.concatenate(rows, axis=1), np.concatenate(scores, axis=1), count)

    def cosines(self, query: Floats, rows: NDArray[Any]) -> Floats:
        """Give the cosine of a unit vector (dim,) with chosen names. Shape (rows,)."""
        chosen = self.codes[rows].astype(np.float32)
        lengths = np.sqrt(np.einsum("nd,nd->n", chosen, chosen))
        found: Floats = chosen @ query / np.maximum(lengths, np.float32(1e-12))
        return found

    def unit(self, row: int) -> Floats:
        """Give the vector of a name, of unit length. Shape (dim,)."""
        found: Floats = normalize(self.codes[row : row + 1].astype(np.float32))[0]
        return found


def highest(
    rows: NDArray[np.int64], scores: Floats, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Give of every line the rows with the highest scores, and these. Shape (n, ≤ count)."""
    top = _top(scores, count)
    return np.take_along_axis(rows, top, axis=1), np.take_along_axis(scores, top, axis=1)


def _top(scores: Floats, count: int) -> NDArray[np.int64]:
    """Give the columns of the highest scores of each row, in any order. Shape (n, ≤ count).

    The highest of every few scores are compared first: the best `count` names lie in the best
    `count` groups, and a group's highest score is cheap to find.
    """
    count = min(count, scores.shape[1])
    whole = scores.shape[1] // _GROUP
    if whole <= 2 * count:
        return np.argpartition(-scores, count - 1, axis=1)[:, :count].astype(np.int64)
    # Group g holds the columns g, g + whole, g + 2·whole …: long rows are compared, not short ones.
    shaped = scores[:, : whole * _GROUP].reshape(len(scores), _GROUP, whole)
    groups = np.argpartition(-shaped.max(axis=1), count - 1, axis=1)[:, :count]
    inside = (groups[:, :, None] + np.arange(_GROUP) * whole).reshape(len(scores), -1)
    rest = np.arange(whole * _GROUP, scores.shape[1])
    columns = np.concatenate([inside, np.tile(rest, (len(scores), 1))], axis=1)
    values = np.take_along_axis(scores, columns, axis=1)
    best = np.argpartition(-values, count - 1, axis=1)[:, :count]
    return np.take_along_axis(columns, best, axis=1).astype(np.int64)


# Each has a number of its own: encoding again takes minutes, spelling again seconds.
SPELLINGS, VECTORS, SKETCHES = 4, 2, 1
# How exactly a key matched: by the plain form, the core, the words in any order.
PLAIN, CORE, BAG = 2, 1, 0


@dataclass(frozen=True)
class SpellingIndex:
    """The forms of a segment's names: cores, keys to find them by, n-grams."""

    cores: Strings
    unspecific: NDArray[np.bool_]
    shapes: NDArray[np.int8]  # (names, 4), what the codes say by their form
    keys: NDArray[np.uint64]  # ascending
    key_rows: Rows
    key_levels: NDArray[np.uint8]
    grams: NgramIndex

    @classmethod
    def build(
        cls, segment: Segment, codes: Sequence[str], normal: Normalizer, rarity: Floats | None
    ) -> "SpellingIndex":
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
            NgramIndex.build((form.core for form in forms), rarity=rarity),
        )

    @classmethod
    def open(cls, folder: Path, names: int) -> "SpellingIndex":
        """Map what `save` has written."""
        flags, shapes, keys, rows, levels = (
            np.asarray(open_array(folder / f"{name}.npy")) for name in _COLUMNS
        )
        cores = Strings.open(folder, "cores")
        return cls(cores, flags, shapes, keys, rows, levels, NgramIndex.open(folder, names))

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
class NameIndex:
    """All derived parts of one segment; `vectors` is None for matching by spelling alone."""

    segment: Segment
    spelling: SpellingIndex
    vectors: NameVectors | None


def open_name_indexes(
    lexicon: Lexicon,
    normal: Normalizer,
    encoder: NameEncoder | None,
    *,
    place: DerivedCache = NO_CACHE,
    rebuild: bool = False,
    keep: bool = True,
    progress: bool = False,
) -> list[NameIndex]:
    """Open what was derived before, and derive what is missing; `place` is where it is kept.

    Vectors of another model are refused unless `rebuild` is set; without `keep` they are passed
    over, and nothing is written.
    """
    shelves: list[NameIndex] = []
    rarity: Floats | None = None
    for segment in lexicon.segments:
        maker = _Maker(lexicon, segment, normal, encoder, place, rebuild, keep, progress)
        spelling = maker.spelling(rarity)
        rarity = spelling.grams.rarity if rarity is None else rarity
        vectors = maker.vectors() if encoder is not None else None
        shelves.append(NameIndex(segment, spelling, vectors))
    return shelves


@dataclass(frozen=True)
class _Maker:
    lexicon: Lexicon
    segment: Segment
    normal: Normalizer
    encoder: NameEncoder | None
    place: DerivedCache
    rebuild: bool
    keep: bool
    progress: bool

    def spelling(self, rarity: Floats | None) -> SpellingIndex:
        """Open the spellings, or make them."""
        stamp = {
            "format": SPELLINGS,
            "segment": self.segment.identity,
            "variants": self.normal.variants.identity,
        }
        name = f"{self.segment.identity[:12]}/spelling"
        found = None if self.rebuild else self._place.find(name, stamp)
        if found is not None:
            return SpellingIndex.open(found, len(self.segment))
        made = SpellingIndex.build(self.segment, self.lexicon.codes, self.normal, rarity)
        if self.keep:
            self._place.keep(name, stamp, made.save)
        return made

    def vectors(self) -> NameVectors:
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
                return NameVectors(codes, self._sketch(codes, stamp))
            self._refuse_another_model(name)
        codes = self._encoded()
        if self.keep:
            self._place.keep(
                name, stamp, lambda folder: np.save(folder / "codes.npy", codes), cached=cached
            )
        return NameVectors(codes, self._sketch(codes, stamp))

    def _sketch(self, codes: NDArray[np.int8], vectors: Mapping[str, object]) -> Prefilter | None:
        """Open the sketch of vectors with this stamp, or make it; few names have none."""
        if len(codes) < LEAST or codes.shape[1] < 2 * WIDTH:
            return None
        stamp = {**vectors, "sketch": SKETCHES}
        name = f"{self.segment.identity[:12]}/sketch"
        cached = f"{name}-{stamp['model']}"
        found = None if self.rebuild else self._place.find(name, stamp, cached=cached)
        if found is not None:
            return Prefilter.open(found)
        made = Prefilter.build(codes)
        if self.keep:
            self._place.keep(name, stamp, made.save, cached=cached)
        return made

    @property
    def _place(self) -> DerivedCache:
        """Nowhere, for names that were added in memory."""
        return NO_CACHE if self.segment.folder is None else self.place

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
