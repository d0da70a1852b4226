"""Codes that were given up for others: a file of `from` and `to`, chains followed to their end.

Tables → a lexicon on disk, and more names into one that is there.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..bundle.manifest import sha256
from ..errors import DataError, LexiconError, counted
from ..io.files import writing_folder
from ..io.progress import Advance, progressing
from .builder import Entry, LexiconBuilder
from .cells import read_cells
from .lexicon import Lexicon, write_exclusions
from .manifest import LexiconManifest, SegmentEntry, hashes
from .readers import TableSource
from .report import BuildReport
from .segment import Segment


def read_merges(path: Path) -> dict[str, str]:
    """Read a table of two columns, the old code and the new one; the header may be left out."""
    pairs: dict[str, str] = {}
    for line, cells in read_cells(path):
        cells = [cell.strip() for cell in cells]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise DataError(
                f"line {line} of {path} has {counted(len([c for c in cells if c]), 'cell')}; "
                "expected an old code and the one it became. Mend the line."
            )
        old, new = cells[:2]
        if line == 1 and old.casefold() in ("from", "old", "code", "구코드", "이전코드"):
            continue
        if pairs.get(old, new) != new:
            raise DataError(
                f"line {line} of {path} merges {old} into {new}, an earlier line into "
                f"{pairs[old]}; expected one. Remove one of the lines."
            )
        pairs[old] = new
    return follow(pairs, where=str(path))


def follow(pairs: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Follow chains of codes to their last one; a circle has none and is refused.

    >>> follow({"A": "B", "B": "C"}, where="x")
    {'A': 'C', 'B': 'C'}
    """
    ends: dict[str, str] = {}
    for old in pairs:
        path = [old]
        while path[-1] in pairs:
            path.append(pairs[path[-1]])
            if path[-1] in path[:-1]:
                shown = path[path.index(path[-1]) :]
                raise DataError(
                    f"{where} merges in a circle: {' → '.join(shown[:6])}; expected every chain to "
                    "end at a code that stays. Remove one of these lines."
                )
        ends[old] = path[-1]
    return ends


SEGMENTS = "segments"


def build_lexicon(
    tables: Sequence[str | Path],
    out: str | Path,
    *,
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    source: str = "",
    merges: str | Path | None = None,
    keep_uncoded: bool = False,
    cleaning: bool = True,
    replace: bool = False,
    progress: bool = False,
) -> BuildReport:
    """Read tables, merge them by code and write a lexicon, whole or not at all.

    The first table's names are preferred over those of later ones. `merges` names a file of codes
    that became others. `keep_uncoded` gives rows without a code one of their own.
    """
    draft = LexiconBuilder(merges=read_merges(Path(merges)) if merges else {}, cleaning=cleaning)
    sources = _sources(tables, form, columns, source, keep_uncoded)
    _read(draft, sources, progress=progress)
    segment = draft.segment()
    with writing_folder(out, replace=replace) as folder:
        entry = _write(segment, draft, folder)
        manifest = LexiconManifest(Path(out).name.removesuffix(".lexicon"), made_by=_version())
        report = draft.report.to_json()
        dataclasses.replace(manifest.with_segment(entry), report=report).write(folder)
    return draft.report


def add_names(
    lexicon: str | Path,
    tables: Sequence[str | Path],
    *,
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    source: str = "",
    keep_uncoded: bool = False,
    cleaning: bool = True,
    progress: bool = False,
) -> BuildReport:
    """Write more names into a lexicon as a segment of their own; nothing there is changed.

    Names that the lexicon has already are passed over and counted as duplicates.
    """
    folder = Path(lexicon)
    sources = _sources(tables, form, columns, source, keep_uncoded)
    with _alone(folder):
        base = Lexicon.open(folder)
        draft = LexiconBuilder(base=base, cleaning=cleaning)
        _read(draft, sources, empty_is_fine=True, progress=progress)
        if draft.has_names:
            segment = draft.segment()
            entry = _write(segment, draft, folder)
            base.manifest.with_segment(entry).write(folder)
    return draft.report


def with_additions(lexicon: Lexicon, tables: Sequence[str | Path]) -> Lexicon:
    """Give a lexicon with the names of a user's own tables after its own, in memory only."""
    draft = LexiconBuilder(base=lexicon)
    _read(draft, _sources(tables, "auto", None, "", False), empty_is_fine=True)
    segment = draft.segment()
    return Lexicon((*lexicon.segments, segment), manifest=lexicon.manifest, folder=lexicon.folder)


def memory_lexicon(tables: Sequence[str | Path], *, name: str = "") -> Lexicon:
    """Build a lexicon that is written nowhere."""
    draft = LexiconBuilder()
    _read(draft, _sources(tables, "auto", None, "", False))
    segment = draft.segment()
    return Lexicon((segment,), manifest=LexiconManifest(name, report=draft.report.to_json()))


def _sources(
    tables: Sequence[str | Path],
    form: str,
    columns: Mapping[str, str] | None,
    source: str,
    keep_uncoded: bool,
) -> list[TableSource]:
    return [TableSource(Path(table), form, columns, source, keep_uncoded) for table in tables]


def _read(
    draft: LexiconBuilder,
    sources: Sequence[TableSource],
    *,
    empty_is_fine: bool = False,
    progress: bool = False,
) -> None:
    for source in sources:
        with progressing(source.path.name, total=None, shown=progress) as advance:
            rows = draft.add(_counted(source.entries(), advance))
        draft.report.tables.append(_told(source, rows))
    if not draft.has_names and not empty_is_fine:
        listed = ", ".join(str(source.path) for source in sources)
        raise DataError(
            f"no names were found in {listed}; expected rows with a code and a name. "
            "Check the columns, and name them with --columns."
        )


def _counted(entries: Iterator[Entry], advance: Advance) -> Iterator[Entry]:
    for entry in entries:
        advance(1)
        yield entry


def _told(source: TableSource, rows: int) -> dict[str, Any]:
    return {
        "file": source.path.name,
        "sha256": sha256(source.path) if source.path.is_file() else "",
        "form": source.form,
        "rows": rows,
        "passed": dict(source.passed.counts),
        "passed_lines": source.passed.lines,
    }


def _write(segment: Segment, draft: LexiconBuilder, folder: Path) -> SegmentEntry:
    """Write a segment under a name made of its content, so that a half one is never met again."""
    name = f"{SEGMENTS}/{segment.identity[:12]}"
    with writing_folder(folder / name, replace=True) as place:
        segment.save(place)
        write_exclusions(place, draft.exclusions)
    return SegmentEntry(
        name,
        segment.identity,
        len(segment),
        len(segment.codes),
        segment.source_names,
        tuple(draft.report.tables),
        hashes(folder / name),
    )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time add names; a second one is told to come again."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: the last one to finish wins
        yield
        return
    path = folder / ".adding"
    try:
        file = path.open("wb")
    except OSError as error:
        if not folder.is_dir():
            Lexicon.open(folder)  # says what is wrong with the name
        raise LexiconError(
            f"{folder} may not be written ({error.strerror}); expected a lexicon of your own. "
            "Copy it, or name your file when it is opened: --additions"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LexiconError(
                f"another process is adding names to {folder}; expected to be alone. "
                "Try again when it has finished."
            ) from error
        yield


def _version() -> str:
    from importlib import metadata

    try:
        return f"malmoi {metadata.version('malmoi')}"
    except metadata.PackageNotFoundError:
        return "malmoi"
