"""`malmoi index`: files and folders into a corpus that can be searched."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import BadParameter

from ..corpus import Corpus, IngestReport, index_files, watch_files
from ..corpus.corpus import check_recall
from ..corpus.ingest import has_rows
from ..documents import RowColumns, split_document
from ..encoders import load
from ..errors import DataError, counted
from ..runtime.pooling import Precision
from .options import ModelOption, Threads, arg, more, opt
from .output import Row, prints_rows, say, watched

_PATHS = "Files and folders with their sub-folders; - is stdin, one text per line."


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
    text: Annotated[str | None, more("The column or field with the text.")] = None,
    id: Annotated[str | None, more("The column or field with the id.", "--id")] = None,
    field: Annotated[
        list[str] | None, more("A column to keep as metadata; all when left out.")
    ] = None,
    precision: Annotated[
        Precision, more("What a value is stored as (a new corpus only).")
    ] = "float32",
    dim: Annotated[int | None, more("Keep the first dimensions only (a new corpus only).")] = None,
    words: Annotated[
        Literal["word-morphemes", "morphemes", "bigrams"] | None,
        more("What keyword search counts (a new corpus only)."),
    ] = None,
    engine: Annotated[Literal["auto", "flat", "hnsw"], more("How vectors are searched.")] = "auto",
    check: Annotated[
        bool, more("Print how many of the true nearest a search finds.", "--check")
    ] = False,
    queries: Annotated[int, more("How many searches --check makes.", min=1)] = 100,
    threads: Threads = None,
) -> Iterable[Row]:
    """Add, update and remove documents so that a corpus matches files and folders."""
    # long because every option has a line of its own
    if not paths and not check:
        raise BadParameter("name files or folders to put in, or --check to measure what is there")
    named = RowColumns((text,) if text else None, None, id, tuple(field) if field else None)
    columns = named if text or id or field else None
    for path in paths or []:
        if "://" in path:
            raise DataError(
                f"{path.partition('://')[0]}:// is an address; expected files or folders, nothing "
                "is downloaded. Save the page or file first, as with: curl -O ADDRESS"
            )
    if watch and all(has_rows(path, lines=lines, columns=columns) for path in paths or []):
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
        options: dict[str, Any] = {
            "lines": lines,
            "columns": columns,
            "include": include or (),
            "exclude": exclude or (),
            "keep_missing": keep_missing,
            "progress": watched(),
        }
        if paths and watch:
            for report in watch_files(opened, paths, **options):
                _say_report(report, corpus, opened)
        elif paths:
            report = index_files(opened, paths, **options)
            _say_report(report, corpus, opened)
            # A table of which all rows were read by an earlier run gives nothing new.
            resumed = any(has_rows(path, lines=lines, columns=columns) for path in paths)
            if not (report.written or report.unchanged or report.removed or resumed):
                raise DataError(
                    f"no document was found in {', '.join(paths)}; expected files with text. Check "
                    "the names, and the messages above."
                )
        return [check_recall(opened, queries=queries)] if check else []


def _say_report(report: IngestReport, corpus: Path, opened: Corpus) -> None:
    empty = counted(report.empty, "without text was", "without text were")
    passed = f", {empty} passed over" if report.empty else ""
    failed = f"; {counted(len(report.failed), 'file')} not read" if report.failed else ""
    say(
        f"{counted(report.files, 'file')}: {counted(report.written, 'document')} written, "
        f"{report.unchanged:,} unchanged, {report.removed:,} removed{passed}{failed}; {corpus} has "
        f"{len(opened):,} in {counted(opened.store.passage_count(), 'passage')}"
    )
