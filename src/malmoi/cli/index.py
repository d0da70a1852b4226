"""`malmoi index`: files and folders into a corpus that can be searched."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import BadParameter

from ..corpus import Columns, Corpus, SyncReport, index_files, sync_files, watch_files
from ..corpus.corpus import check_recall
from ..documents import RowColumns, split_document
from ..encoders import load
from ..errors import DataError, counted
from ..io.tables import is_table, read_typed_rows
from ..runtime.pooling import Precision
from .options import ModelOption, Threads, arg, opt
from .output import Row, prints_rows, say, watched

_PATHS = "Files and folders with their sub-folders; - is stdin, a text a line."


@prints_rows
def index(
    corpus: Annotated[Path, arg("The corpus file; made if it is not there.")],
    paths: Annotated[list[str] | None, arg(_PATHS)] = None,
    model: ModelOption = None,
    include: Annotated[
        list[str] | None, opt("Only these names or paths, as *.pdf; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, opt("Not these names or paths, as drafts/**; may be repeated.")
    ] = None,
    lines: Annotated[bool, opt("Every line of a file is a document.", "--lines")] = False,
    keep_missing: Annotated[
        bool, opt("Keep documents whose files are gone.", "--keep-missing")
    ] = False,
    watch: Annotated[bool, opt("Follow the folders until Ctrl-C.", "--watch")] = False,
    tokens: Annotated[int, opt("How long a passage is, in tokens.", min=8)] = 200,
    text: Annotated[str | None, opt("The column or field with the text.")] = None,
    id: Annotated[str | None, opt("The column or field with the id.", "--id")] = None,
    field: Annotated[
        list[str] | None, opt("A column to keep as metadata; all when left out.")
    ] = None,
    precision: Annotated[
        Precision, opt("What a value is stored as (a new corpus only).")
    ] = "float32",
    dim: Annotated[int | None, opt("Keep the first dimensions only (a new corpus only).")] = None,
    words: Annotated[
        Literal["word-morphemes", "morphemes", "bigrams"] | None,
        opt("What keyword search counts (a new corpus only)."),
    ] = None,
    engine: Annotated[Literal["auto", "flat", "hnsw"], opt("How vectors are searched.")] = "auto",
    check: Annotated[
        bool, opt("Print how many of the true nearest a search finds.", "--check")
    ] = False,
    queries: Annotated[int, opt("How many searches --check makes.", min=1)] = 100,
    threads: Threads = None,
) -> Iterable[Row]:
    """Make a corpus hold what files and folders hold: what is new, changed or gone since."""
    # long because every option has a line of its own
    if not paths and not check:
        raise BadParameter("name files or folders to put in, or --check to measure what is there")
    fields = tuple(field) if field else None
    rows, folders = _sorted_out(paths or [], lines, text)
    if watch and not folders:
        raise BadParameter("--watch follows files and folders; name one")
    # A corpus knows its model; without a name, a new one gets the shipped model.
    encoder = load(model, threads=threads) if model is not None or not corpus.exists() else None
    with Corpus.open(
        corpus,
        encoder,
        precision=precision,
        dim=dim,
        words=words,
        engine=engine,
        splitter=partial(split_document, tokens=tokens),
    ) as opened:
        if rows:
            columns = Columns(id, text, fields)
            report = index_files(opened, rows, columns=columns, progress=watched())
            empty = counted(report.empty, "without text was", "without text were")
            say(
                f"{counted(report.written, 'document')} written, {report.unchanged:,} unchanged"
                f"{f', {empty} passed over' if report.empty else ''}; {corpus} has {len(opened):,}"
            )
        if folders:
            named = RowColumns((text,) if text else None, None, id, fields)
            options: dict[str, Any] = {
                "include": include or (),
                "exclude": exclude or (),
                "keep_missing": keep_missing,
                "columns": named if text or id or fields else None,
                "progress": watched(),
            }
            synced: Iterable[SyncReport] = (
                watch_files(opened, folders, **options)
                if watch
                else [sync_files(opened, folders, **options)]
            )
            for one in synced:
                _say_synced(one, corpus, opened)
        return [check_recall(opened, queries=queries)] if check else []


def _sorted_out(paths: Sequence[str], lines: bool, text: str | None) -> tuple[list[str], list[str]]:
    """The files that are read a row or line a document, and those that are synced."""
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise DataError(f"there is no file or folder {path}. Check the name.")
    rows = [path for path in paths if path == "-" or lines or _has_texts(path, text)]
    return rows, [path for path in paths if path not in rows]


def _has_texts(path: str, text: str | None) -> bool:
    """Tell whether a file is a table with a column of texts, whose rows have their own ids."""
    if not is_table(path) or not Path(path).is_file():
        return False
    _, first = next(iter(read_typed_rows(path)), (0, {}))
    return len(first) < 2 or (text or "text") in first


def _say_synced(report: SyncReport, corpus: Path, opened: Corpus) -> None:
    failed = f"; {counted(len(report.failed), 'file')} not read" if report.failed else ""
    say(
        f"{counted(report.files, 'file')}: {counted(report.written, 'document')} written, "
        f"{report.unchanged:,} unchanged, {report.removed:,} removed{failed}; {corpus} has "
        f"{len(opened):,} in {counted(opened.store.passage_count(), 'passage')}"
    )
