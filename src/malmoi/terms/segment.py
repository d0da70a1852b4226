"""A part of a lexicon that is written once: names in columns, with an index by folded text.

Names are sorted by concept, so a concept's names are a range of rows. A lexicon begins with one
segment; what is added later makes another, and nothing that was written before changes. Names that
a table excludes from a code are in a table next to the columns.
"""

import bisect
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError, counted
from ..io.arrays import REBUILD, open_array
from ..io.files import parse_json
from ..io.fingerprint import check_format, check_whole, find_changed, is_inside, seal, write_json
from ..io.tables import read_rows
from .names import KINDS, LANGUAGES, Exclusion, Name, fold

MANIFEST = "lexicon.json"
FORMAT = 1
_COUNTED = ("names", "concepts")  # stated for the whole lexicon too
SHIPPED = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class SegmentEntry:
    """A segment as the manifest lists it; `folder` is inside the lexicon's."""

    folder: str
    identity: str
    names: int
    concepts: int
    sources: tuple[str, ...] = ()
    tables: tuple[dict[str, Any], ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SegmentEntry":
        """Make an entry of parsed JSON."""
        values = {key: data[key] for key in ("folder", "identity", "names", "concepts")}
        sources, tables = (tuple(data.get(key, ())) for key in ("sources", "tables"))
        files = dict(data.get("files", {}))
        return cls(**values, sources=sources, tables=tables, files=files)


@dataclass(frozen=True)
class LexiconManifest:
    """What a reader must know to open a lexicon, and the report of how it was made."""

    name: str = ""
    segments: tuple[SegmentEntry, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)
    made_by: str = ""

    @classmethod
    def read(cls, folder: Path) -> "LexiconManifest":
        """Read and check `folder/lexicon.json`."""
        path = folder / MANIFEST
        try:
            data = parse_json(path.read_text("utf-8"))
            check_format(data, FORMAT, where=str(path), remedy=REBUILD, error=LexiconError)
            segments = tuple(SegmentEntry.from_json(entry) for entry in data["segments"])
        except LexiconError:  # it is a ValueError too
            raise
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise LexiconError(
                f"{path} cannot be read ({type(error).__name__}); expected the manifest of a "
                f"lexicon. {REBUILD}"
            ) from error
        for segment in segments:
            if not is_inside(segment.folder):
                raise LexiconError(
                    f"{path} names the folder {segment.folder!r}; expected one inside the "
                    f"lexicon. {REBUILD}"
                )
        check_whole(data, where=str(path), remedy=REBUILD, error=LexiconError)
        return cls(data.get("name", ""), segments, data.get("report", {}), data.get("made_by", ""))

    def write(self, folder: Path) -> None:
        """Write `lexicon.json`, whole or not at all."""
        counts = {key: sum(getattr(one, key) for one in self.segments) for key in _COUNTED}
        data = {"format": FORMAT, **asdict(self), **counts}
        write_json(folder / MANIFEST, seal(data), indent=1)

    def with_segment(self, segment: SegmentEntry) -> "LexiconManifest":
        """Give the manifest with one segment more."""
        return replace(self, segments=(*self.segments, segment))

    def verify(self, folder: Path, opened: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Compare every file with its hash; the first that differs raises LexiconError.

        So does a file of a segment that is opened and has no hash; those that are `optional` need
        not be there.
        """
        for segment in self.segments:
            path = find_changed(folder / segment.folder, segment.files)
            for name in (*opened, *optional):
                own = folder / segment.folder / name
                if name not in segment.files and (name in opened or own.exists()):
                    path = own
            if path is not None and not path.exists():
                raise LexiconError(
                    f"{path.parent} lacks {path.name}; expected a whole lexicon. Copy the folder "
                    "again, or build it again with: malmoi lexicon build"
                )
            if path is not None:
                raise LexiconError(
                    f"{path} is not the file that {MANIFEST} describes (cut short, changed, "
                    "missing or not listed). Copy the folder again, or build it again with: "
                    "malmoi lexicon build"
                )


def find_lexicon(path: str | Path) -> Path:
    """Find a lexicon's folder: on disk, or shipped under that name ("sample")."""
    folder = Path(path).expanduser()
    if (folder / MANIFEST).is_file():
        return folder
    shipped = SHIPPED / f"{path}.lexicon"
    if not folder.exists() and (shipped / MANIFEST).is_file():
        return shipped
    if folder.is_dir():
        raise LexiconError(
            f"{folder} is no lexicon (it has no {MANIFEST}); expected a folder made by malmoi. "
            "Make one with: malmoi lexicon build TABLE --out NAME.lexicon"
        )
    if folder.exists():
        raise LexiconError(
            f"{folder} is a file; expected a lexicon, which is a folder. Make one of a table "
            f"with: malmoi lexicon build {folder} --out NAME.lexicon"
        )
    raise LexiconError(
        f"there is no lexicon {path}; expected a folder, or the name of a shipped one "
        "(sample). Make one with: malmoi lexicon build TABLE --out NAME.lexicon"
    )


Small = NDArray[np.uint8]
Rows = NDArray[np.int32]
Keys = NDArray[np.uint64]

_STRINGS = ("texts", "originals", "codes")
_ARRAYS = ("original_rows", "concepts", "languages", "kinds", "sources", "keys", "key_rows")
_EXCLUSIONS = "exclusions.tsv"
_EXCLUSION_COLUMNS = ("concept", "belongs_to", "language", "text")


class _Texts(Sequence[str]):
    """A sequence of texts of which each is read when it is needed."""

    def _get(self, i: int) -> str:
        raise NotImplementedError

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no text {i}; there are {len(self)}")
        return self._get(i % len(self))


class Strings(_Texts):
    """A column of texts: UTF-8 bytes end to end, and where each ends. Opening it reads nothing."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Take UTF-8 bytes, and the byte after the last one of each text."""
        self._data, self._ends = data, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Strings":
        """Lay texts end to end in memory.

        >>> list(Strings.of(["간", "", "liver"]))
        ['간', '', 'liver']
        """
        raw = [text.encode("utf-8") for text in texts]
        ends = np.cumsum([len(one) for one in raw], dtype=np.int64)
        return cls(np.frombuffer(b"".join(raw), np.uint8), ends)

    @classmethod
    def open(cls, folder: Path, name: str) -> "Strings":
        """Map a column that `save` has written."""
        # Plain views: indexing a memory map is slow.
        data, ends = (open_array(folder / f"{file}.npy") for file in (name, f"{name}-ends"))
        return cls(np.asarray(data), np.asarray(ends))

    def save(self, folder: Path, name: str) -> None:
        """Write the column as two .npy files."""
        np.save(folder / f"{name}.npy", self._data)
        np.save(folder / f"{name}-ends.npy", self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    def _get(self, i: int) -> str:
        start = int(self._ends[i - 1]) if i else 0
        return self._data[start : int(self._ends[i])].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        """Give all texts in order, some thousands at a time, so that little is in memory."""
        start = 0
        for first in range(0, len(self), 8192):
            ends = self._ends[first : first + 8192].tolist()
            block = self._data[start : ends[-1]].tobytes()
            at = 0
            for end in ends:
                yield block[at : end - start].decode("utf-8")
                at = end - start
            start = ends[-1]


@dataclass(frozen=True)
class Segment:
    """Names in columns. `concepts` counts through the whole lexicon, rows through this segment.

    `codes` are the concepts that this segment adds; they follow those of the segments before.
    `folder` is None while it is only in memory.
    """

    folder: Path | None
    identity: str
    texts: Strings
    originals: Strings
    original_rows: Rows  # the rows whose original text differs, ascending
    concepts: Rows
    languages: Small
    kinds: Small
    sources: NDArray[np.uint16]
    source_names: tuple[str, ...]
    codes: Strings
    keys: Keys  # hashes of folded texts, ascending
    key_rows: Rows  # the row of each

    def __len__(self) -> int:
        return len(self.concepts)

    @classmethod
    def open(cls, folder: Path, *, identity: str, source_names: Sequence[str]) -> "Segment":
        """Map a segment's files; nothing is read until it is needed."""
        columns: dict[str, Any] = {name: Strings.open(folder, name) for name in _STRINGS}
        for name in _ARRAYS:
            columns[name] = open_array(folder / f"{name.replace('_', '-')}.npy")
        return cls(folder, identity, source_names=tuple(source_names), **columns)

    @classmethod
    def of(cls, names: Sequence[Name], concepts: Rows, codes: Sequence[str]) -> "Segment":
        """Make a segment in memory; `concepts` are the numbers of the concepts, ascending."""
        changed = [i for i, name in enumerate(names) if name.original != name.text]
        sources = list(dict.fromkeys(name.source for name in names))
        numbers = {source: i for i, source in enumerate(sources)}
        keys = np.array([hash64(fold(name.text)) for name in names], np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.int32)
        return cls(
            None,
            _identity(names, concepts, codes),
            Strings.of(name.text for name in names),
            Strings.of(names[i].original for i in changed),
            np.array(changed, np.int32),
            concepts,
            np.array([LANGUAGES.index(name.language) for name in names], np.uint8),
            np.array([KINDS.index(name.kind) for name in names], np.uint8),
            np.array([numbers[name.source] for name in names], np.uint16),
            tuple(sources),
            Strings.of(codes),
            keys[order],
            order,
        )

    def save(self, folder: Path) -> None:
        """Write the columns into an empty folder."""
        for name in _STRINGS:
            getattr(self, name).save(folder, name)
        for name in _ARRAYS:
            np.save(folder / f"{name.replace('_', '-')}.npy", getattr(self, name))

    def original(self, row: int) -> str:
        """Give a name as its table has it."""
        at = int(np.searchsorted(self.original_rows, row))
        if at < len(self.original_rows) and int(self.original_rows[at]) == row:
            return self.originals[at]
        return self.texts[row]

    def rows_of(self, concept: int) -> range:
        """Give the rows of a concept, by its number in the lexicon."""
        number = np.int32(concept)  # of the array's own type, or numpy copies the whole array
        first = int(np.searchsorted(self.concepts, number, "left"))
        return range(first, int(np.searchsorted(self.concepts, number, "right")))

    def find(self, text: str) -> list[int]:
        """Give the rows whose names equal a text but for case, width and spaces, ascending."""
        folded = fold(text)
        key = np.uint64(hash64(folded))
        first = int(np.searchsorted(self.keys, key, "left"))
        last = int(np.searchsorted(self.keys, key, "right"))
        rows = sorted(self.key_rows[first:last].tolist())
        return [row for row in rows if fold(self.texts[row]) == folded]


def hash64(text: str) -> int:
    """Hash a text to 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _identity(names: Sequence[Name], concepts: Rows, codes: Sequence[str]) -> str:
    """Hash all that a derived file (vectors, n-grams) depends on: texts, concepts and codes."""
    hashed = hashlib.sha256(np.ascontiguousarray(concepts).tobytes())
    for name in names:
        hashed.update(f"{name.text}\0{name.kind}\0".encode())
    for code in codes:
        hashed.update(f"\1{code}".encode())
    return hashed.hexdigest()


class CodeNumbers(_Texts):
    """The codes of a lexicon by number, and their numbers by code."""

    def __init__(self, segments: Sequence[Segment], starts: Sequence[int]) -> None:
        """Take segments, the number of the first code of each, and that after the last."""
        self._segments, self._starts = segments, starts

    def __len__(self) -> int:
        return self._starts[-1]

    def _get(self, i: int) -> str:
        part = bisect.bisect_right(self._starts, i) - 1
        return self._segments[part].codes[i - self._starts[part]]

    def number(self, code: str) -> int | None:
        """Give the number of a code, None when it is not known."""
        for segment, start in zip(self._segments, self._starts, strict=False):
            # The codes of a segment are sorted, so that only a few of them are read.
            at = bisect.bisect_left(segment.codes, code)
            if at < len(segment.codes) and segment.codes[at] == code:
                return start + at
        return None


def open_segments(folder: Path, manifest: LexiconManifest) -> list[Segment]:
    """Open the segments that a manifest lists, each of the size that is stated there.

    Every file is compared with its hash first, which takes 1.5 ms a megabyte: a damaged name would
    otherwise be found, or not, without a word.
    """
    files = [f"{name}{end}.npy" for name in _STRINGS for end in ("", "-ends")]
    files += [f"{name.replace('_', '-')}.npy" for name in _ARRAYS]
    manifest.verify(folder, files, (_EXCLUSIONS,))
    segments = []
    for entry in manifest.segments:
        path = folder / entry.folder
        segment = Segment.open(path, identity=entry.identity, source_names=entry.sources)
        if len(segment) != entry.names or len(segment.texts) != entry.names:
            raise LexiconError(
                f"{path} holds {counted(len(segment), 'name')}; {MANIFEST} says {entry.names:,}. "
                "Copy the folder again, or build it again."
            )
        segments.append(segment)
    return segments


def write_exclusions(folder: Path, exclusions: Sequence[Exclusion]) -> None:
    """Write the excluded names of a segment; no file where there are none."""
    if not exclusions:
        return
    lines = ["\t".join(_EXCLUSION_COLUMNS)]
    lines += ["\t".join(getattr(row, name) for name in _EXCLUSION_COLUMNS) for row in exclusions]
    (folder / _EXCLUSIONS).write_text("\n".join(lines) + "\n", "utf-8")


def read_exclusions(segments: Sequence[Segment]) -> Iterator[Exclusion]:
    """Read the excluded names of segments, as far as they are on disk."""
    for segment in segments:
        if segment.folder is not None and (segment.folder / _EXCLUSIONS).is_file():
            for row in read_rows(segment.folder / _EXCLUSIONS):
                yield Exclusion(row["text"], row["concept"], row["belongs_to"], row["language"])
