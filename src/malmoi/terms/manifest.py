"""`lexicon.json`: what a lexicon contains, with the hash of every file of its segments."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import LexiconError
from ..io.arrays import REBUILD
from ..io.files import parse_json
from ..io.fingerprint import check_format, check_whole, find_changed, is_inside, seal, write_json

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
