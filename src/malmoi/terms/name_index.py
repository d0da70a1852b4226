"""The index of a lexicon's names, derived once and stored: normal forms, n-grams, vectors.

Each segment of a lexicon has a folder of its own under `linking/`, so that names added later are
indexed alone. `stamp.json` says from which names, table of variants and model the files were made.
Where the lexicon may not be written they are stored in the user's cache; where there is none, or
the lexicon is in memory only, the index is in memory too.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError
from ..index.join import LEAST, WIDTH, Prefilter
from ..io.arrays import open_array
from ..io.fingerprint import SHORT, hash_text, read_stamp
from ..runtime.pooling import normalize
from ..types import Floats
from .builder import general_names
from .cache import NO_CACHE, STAMP, DerivedCache
from .lexicon import Lexicon
from .ngram_index import NgramIndex, Rows
from .normalize import LONGEST, Normalizer, shape_of
from .segment import Segment, Strings, hash64

logger = logging.getLogger(__name__)

_ROWS = 8192  # names multiplied at once: 12 MB of float32 at 384 dimensions


class NameEncoder(Protocol):
    """What the linker asks of an encoder; malmoi.Encoder and StaticEncoder have it."""

    name: str
    dimension: int

    @property
    def encode(self) -> Callable[..., NDArray[Any]]:
        """Give one vector a text; options are those of `TextEncoder.encode`."""


def identity(encoder: object) -> str:
    """Say which model this is: by the hashes of its files, or by its name where it has none."""
    manifest = getattr(encoder, "manifest", None)
    files = sorted(getattr(manifest, "files", {}).items())
    known = [(name, value) for name, value in files if not name.endswith((".md", ".json"))]
    known += [item for item in files if item[0] == "tokenizer.json"]
    label = (getattr(encoder, "name", ""), getattr(encoder, "dimension", 0), type(encoder).__name__)
    return hash_text(repr(known) if known else repr(label))[:SHORT]


class NameVectors:
    """Int8 vectors, mapped from disk; only the block being multiplied is in memory."""

    def __init__(self, codes: NDArray[np.int8], prefilter: Prefilter | None = None) -> None:
        """Take codes of shape (names, dim) as `to_precision` makes them, and their prefilter."""
        self.codes = np.asarray(codes)  # a plain view: indexing a memory map is slow
        self.prefilter = prefilter

    def __len__(self) -> int:
        return len(self.codes)

    def nearest(self, queries: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Give the rows of the nearest names of unit vectors (n, dim), and products with them.

        Both of shape (n, ≤ count), in any order. A prefilter may lose a few at the end of the list.
        """
        if not len(self) or not count:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        if self.prefilter is None:
            return self._nearest_of_all(queries, count)
        count = min(count, len(self))
        lists = self.prefilter.shortlists(queries, count)
        rows = np.empty((len(queries), count), np.int64)
        scores = np.empty((len(queries), count), np.float32)
        short = [i for i, found in enumerate(lists) if len(found) < count]
        if short:  # where hundreds of names are alike too few are above any score
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
            products = queries @ block.T  # (n, block)
            top = highest(products, count)
            rows.append(top + start)
            scores.append(np.take_along_axis(products, top, axis=1))
        every = np.concatenate(scores, axis=1)
        top = highest(every, count)
        found = np.take_along_axis(np.concatenate(rows, axis=1), top, axis=1)
        return found, np.take_along_axis(every, top, axis=1)

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


def highest(scores: Floats, count: int) -> NDArray[np.int64]:
    """Give the columns of the highest scores of each row, in any order. Shape (n, ≤ count)."""
    count = min(count, scores.shape[1])
    return np.argpartition(-scores, count - 1, axis=1)[:, :count].astype(np.int64)


# Formats on disk. Each part has its own number: encoding takes minutes, spelling seconds.
_SPELLINGS, _VECTORS, _PREFILTERS = 4, 2, 1
# Levels of a match: by the plain form, the core, the words in any order.
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
        cls, segment: Segment, codes: Sequence[str], normalizer: Normalizer, rarity: Floats | None
    ) -> "SpellingIndex":
        """Bring every name of a segment to its forms; `codes` are all of the lexicon's."""
        forms = [normalizer.form(text) for text in segment.texts]
        concepts = segment.concepts.tolist()
        shapes = {concept: shape_of(codes[concept]) for concept in set(concepts)}
        keys = [(hash64(f.key), hash64(f.core_key), hash64(f.bag)) for f in forms]
        flat = np.array(keys, np.uint64).reshape(-1)
        order = np.argsort(flat, kind="stable")
        return cls(
            Strings.of(form.core for form in forms),
            np.array([form.unspecific for form in forms], bool),
            np.array([shapes[concept] for concept in concepts], np.int8).reshape(-1, 4),
            flat[order],
            (order // 3).astype(np.int32),
            np.array([PLAIN, CORE, BAG], np.uint8)[order % 3],
            NgramIndex.build((form.core for form in forms), rarity=rarity),
        )

    @classmethod
    def open(cls, folder: Path) -> "SpellingIndex":
        """Map what `save` has written."""
        flags, shapes, keys, rows, levels = (
            np.asarray(open_array(folder / f"{name}.npy")) for name in _COLUMNS
        )
        cores = Strings.open(folder, "cores")
        return cls(cores, flags, shapes, keys, rows, levels, NgramIndex.open(folder, len(cores)))

    def save(self, folder: Path) -> None:
        """Write every part into an empty folder."""
        self.cores.save(folder, "cores")
        for name in _COLUMNS:
            np.save(folder / f"{name}.npy", getattr(self, name.replace("-", "_")))
        self.grams.save(folder)

    def find(self, key: str) -> list[tuple[int, int]]:
        """Give the rows whose names have this key, each with the level of the match."""
        wanted = np.uint64(hash64(key))
        first = last = int(self.keys.searchsorted(wanted))
        while last < len(self.keys) and self.keys[last] == wanted:
            last += 1
        rows, levels = self.key_rows[first:last].tolist(), self.key_levels[first:last].tolist()
        return list(zip(rows, levels, strict=True))

    def contains(self, keys: Sequence[str], *, plain: bool) -> NDArray[np.bool_]:
        """Tell which keys a name has: as its plain form, or at any level. Shape (keys,)."""
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        wanted = np.array([hash64(key) for key in keys], np.uint64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found: NDArray[np.bool_] = self.keys[at] == wanted
        if plain:
            for i in np.flatnonzero(found).tolist():
                found[i] = any(level == PLAIN for _, level in self.find(keys[i]))
        return found


_COLUMNS = ("unspecific", "shapes", "keys", "key-rows", "key-levels")


@dataclass(frozen=True)
class NameIndex:
    """All derived parts of one segment; `vectors` is None for matching by spelling alone."""

    segment: Segment
    spelling: SpellingIndex
    vectors: NameVectors | None


def open_name_indexes(
    lexicon: Lexicon,
    normalizer: Normalizer,
    encoder: NameEncoder | None,
    *,
    cache: DerivedCache = NO_CACHE,
    rebuild: bool = False,
    keep: bool = True,
    progress: bool = False,
) -> list[NameIndex]:
    """Open what was derived before, and derive what is missing; `cache` is where it is stored.

    Vectors of another model are refused unless `rebuild` is set; without `keep` they are ignored,
    and nothing is written.
    """
    indexes: list[NameIndex] = []
    rarity: Floats | None = None
    for segment in lexicon.segments:
        # Names that were added in memory are indexed in memory.
        own = NO_CACHE if segment.folder is None else cache
        opener = _Opener(lexicon, segment, normalizer, own, rebuild, keep, progress)
        spelling = opener.spelling(rarity)
        rarity = spelling.grams.rarity if rarity is None else rarity
        vectors = opener.vectors(encoder) if encoder is not None else None
        indexes.append(NameIndex(segment, spelling, vectors))
    return indexes


T = TypeVar("T")
_NAMES = "names.npy"  # beside vectors: the hashes of the names that they are of


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([hash64(text) for text in texts], np.uint64)


@dataclass(frozen=True)
class _Opener:
    """Opens the parts of a segment's index, or makes and stores them."""

    lexicon: Lexicon
    segment: Segment
    normalizer: Normalizer
    cache: DerivedCache
    rebuild: bool
    keep: bool
    progress: bool

    def spelling(self, rarity: Floats | None) -> SpellingIndex:
        """Open or make the spellings."""
        return self._derived(
            "spelling",
            {"format": _SPELLINGS, "variants": self.normalizer.variants.identity},
            load=SpellingIndex.open,
            make=lambda: SpellingIndex.build(
                self.segment, self.lexicon.codes, self.normalizer, rarity
            ),
            save=SpellingIndex.save,
        )

    def vectors(self, encoder: NameEncoder) -> NameVectors:
        """Open or make the vectors, and a prefilter where there are many."""
        name, model = encoder.name, identity(encoder)
        stamp: dict[str, object] = {"format": _VECTORS, "model": model, "name": name}
        # Only a model that spells symbols has this field, so that older vectors are still used.
        steps = getattr(getattr(encoder, "manifest", None), "clean", ())
        if "symbols" in steps:
            stamp["clean"] = list(steps)
        codes: NDArray[np.int8] = self._derived(
            "vectors",
            stamp,
            load=lambda folder: np.asarray(open_array(folder / "codes.npy")),
            make=lambda: self._encode(encoder, stamp),
            save=self._save_vectors,
        )
        if len(codes) < LEAST or codes.shape[1] < 2 * WIDTH:
            return NameVectors(codes)
        prefilter = self._derived(
            "sketch",
            {**stamp, "sketch": _PREFILTERS},
            load=Prefilter.open,
            make=lambda: Prefilter.build(codes),
            save=Prefilter.save,
        )
        return NameVectors(codes, prefilter)

    def _derived(
        self,
        part: str,
        stamp: Mapping[str, object],
        *,
        load: Callable[[Path], T],
        make: Callable[[], T],
        save: Callable[[T, Path], object],
    ) -> T:
        stamp = {"segment": self.segment.identity, **stamp}
        name = f"{self.segment.identity[:12]}/{part}"
        cached = f"{name}-{stamp['model']}" if "model" in stamp else name
        found = None if self.rebuild else self.cache.find(name, stamp, cached=cached)
        if found is not None:
            return load(found)
        made = make()
        if self.keep:
            self.cache.store(name, stamp, lambda folder: save(made, folder), cached=cached)
        return made

    def _texts(self) -> list[str]:
        # The beginning of a very long name is enough; windows over it would gain nothing.
        return [text[:LONGEST] for text in self.segment.texts]

    def _save_vectors(self, codes: NDArray[np.int8], folder: Path) -> None:
        np.save(folder / "codes.npy", codes)
        np.save(folder / _NAMES, _hashes(self._texts()))

    def _encode(self, encoder: NameEncoder, stamp: Mapping[str, object]) -> NDArray[np.int8]:
        """Encode the names as int8 codes (names, dim), each distinct one once.

        A name that this model has encoded for another segment, as the one before a table was
        edited, is taken from there.
        """
        if not self.rebuild:
            self._refuse_another_model(encoder)
        texts = self._texts()
        codes = np.empty((len(texts), encoder.dimension), np.int8)
        known = self._take_known(texts, codes, {} if self.rebuild else stamp)
        new = [text for text, is_known in zip(texts, known.tolist(), strict=True) if not is_known]
        if len(new) > 2000:
            logger.info(f"encoding {len(new):,} names once with {encoder.name}")
        if new:
            codes[~known] = encoder.encode(new, precision="int8", progress=self.progress)
        return codes

    def _take_known(
        self, texts: Sequence[str], codes: NDArray[np.int8], stamp: Mapping[str, object]
    ) -> NDArray[np.bool_]:
        """Fill the codes of names that are stored already, and tell which. Shape (names,)."""
        known = np.zeros(len(texts), bool)
        wanted = _hashes(texts)
        for folder in self.cache.every("vectors", stamp) if stamp and texts else ():
            if not (folder / _NAMES).exists():
                continue
            names = np.asarray(open_array(folder / _NAMES))
            stored = np.asarray(open_array(folder / "codes.npy"))
            if not len(names) or stored.shape != (len(names), codes.shape[1]):
                continue
            order = np.argsort(names)
            rows = order[np.minimum(np.searchsorted(names, wanted, sorter=order), len(names) - 1)]
            hit = (names[rows] == wanted) & ~known
            codes[hit] = stored[rows[hit]]
            known |= hit
        return known

    def _refuse_another_model(self, encoder: NameEncoder) -> None:
        if self.cache.local is None or not self.keep:
            return
        found = read_stamp(self.cache.local / f"{self.segment.identity[:12]}/vectors" / STAMP)
        if found.get("segment") != self.segment.identity or found.get("format") != _VECTORS:
            return
        label, other = self.lexicon.folder or self.lexicon.label, found.get("name")
        if (found.get("model"), other) == (identity(encoder), encoder.name):
            return  # the same model, which has learnt to read symbols since
        same = " (other weights of that name)" if other == encoder.name else ""
        raise LexiconError(
            f"{label} was indexed with the model {other}; expected {encoder.name}{same}. "
            f"Index it again with: malmoi link {label} --rebuild --model MODEL"
        )


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
