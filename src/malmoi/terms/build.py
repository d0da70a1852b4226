"""Tables → a lexicon on disk, and more names into one that is there."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import DataError, LexiconError, counted
from ..io.files import writing_folder
from ..io.fingerprint import hash_folder
from ..io.tables import read_cells
from .builder import BuildReport, LexiconBuilder
from .lexicon import Lexicon
from .readers import TableSource
from .segment import LexiconManifest, SegmentEntry, write_exclusions


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
    plain: bool = False,
    progress: bool = False,
) -> BuildReport:
    """Read tables, merge them by code and write a lexicon, whole or not at all.

    tables        files; the names of the first are preferred over those of later ones
    form          how they are laid out: table, kostom, mrconso, biosyn, lexicon, or auto
    columns       the columns of a table by role, as {"code": "상병코드", "ko": "한글명"}
    source        the name of the source; that of the file by default
    merges        a file of codes that were replaced by others
    keep_uncoded  give rows without a code one of their own
    cleaning      remove what tables write around names
    replace       overwrite what is at `out`
    plain         link to these names alone, without the lay and clinical names that ship
    """
    builder = LexiconBuilder(merges=read_merges(Path(merges)) if merges else {}, cleaning=cleaning)
    sources = [TableSource(Path(path), form, columns, source, keep_uncoded) for path in tables]
    builder.read(sources, progress=progress)
    builder.report_general()
    builder.report.plain = plain
    with writing_folder(out, replace=replace) as folder:
        entry = _write_segment(builder, folder)
        manifest = LexiconManifest(Path(out).name.removesuffix(".lexicon"), made_by=_version())
        report = builder.report.to_json()
        dataclasses.replace(manifest.with_segment(entry), report=report).write(folder)
    return builder.report


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

    Names that the lexicon has already are skipped and counted as duplicates. The options are those
    of `build_lexicon`.
    """
    folder = Path(lexicon)
    with _only_writer(folder):
        base = Lexicon.open(folder)
        builder = LexiconBuilder(base=base, cleaning=cleaning)
        sources = [TableSource(Path(path), form, columns, source, keep_uncoded) for path in tables]
        builder.read(sources, required=False, progress=progress)
        if builder.has_names:
            base.manifest.with_segment(_write_segment(builder, folder)).write(folder)
    return builder.report


def memory_lexicon(tables: Sequence[str | Path], *, name: str = "") -> Lexicon:
    """Build a lexicon in memory; nothing is written."""
    builder = LexiconBuilder()
    builder.read([TableSource(Path(path)) for path in tables])
    segment = builder.segment()
    return Lexicon((segment,), manifest=LexiconManifest(name, report=builder.report.to_json()))


def read_merges(path: Path) -> dict[str, str]:
    """Read a table of an old code and the one that replaced it; a header is optional."""
    pairs: dict[str, str] = {}
    for line, cells in read_cells(path):
        cells = [cell.strip() for cell in cells]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise DataError(
                f"line {line} of {path} has {counted(len([c for c in cells if c]), 'cell')}; "
                "expected an old code and the one that replaced it. Complete or remove the line."
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


def _write_segment(builder: LexiconBuilder, folder: Path) -> SegmentEntry:
    """Write a segment under a name made of its content, so that an incomplete one is never used."""
    segment = builder.segment()
    name = f"segments/{segment.identity[:12]}"
    with writing_folder(folder / name, replace=True) as new:
        segment.save(new)
        write_exclusions(new, builder.exclusions)
    counts, tables = (len(segment), len(segment.codes)), tuple(builder.report.tables)
    files = hash_folder(folder / name)
    return SegmentEntry(
        name, segment.identity, *counts, segment.source_names, tables=tables, files=files
    )


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Let one process at a time add names; a second one gets an error."""
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
