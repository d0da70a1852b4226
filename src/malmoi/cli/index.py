"""`malmoi index`: files into a corpus that can be searched."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..corpus import Columns, Corpus, IngestReport, index_files
from ..corpus.recall import check_recall
from ..encoder import TextEncoder, load
from ..errors import counted
from .output import Csv, ModelOption, Table, Threads, choose, print_rows, say, watched


def index(
    corpus: Annotated[Path, typer.Argument(help="The corpus file; made if it is not there.")],
    files: Annotated[
        list[str] | None, typer.Argument(help=".txt, .jsonl, .tsv or .csv; - is stdin.")
    ] = None,
    model: ModelOption = None,
    text: Annotated[str | None, typer.Option(help="The column or field with the text.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="The column or field with the id.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="A column to keep as metadata; all when left out.")
    ] = None,
    precision: Annotated[
        Literal["float32", "int8", "binary"],
        typer.Option(help="What a value is stored as (a new corpus only)."),
    ] = "float32",
    dim: Annotated[
        int | None, typer.Option(help="Keep the first dimensions only (a new corpus only).")
    ] = None,
    words: Annotated[
        Literal["word-morphemes", "morphemes", "bigrams"] | None,
        typer.Option(help="What keyword search counts (a new corpus only)."),
    ] = None,
    engine: Annotated[
        Literal["auto", "flat", "hnsw"], typer.Option(help="How vectors are searched.")
    ] = "auto",
    check: Annotated[
        bool, typer.Option("--check", help="Print how many of the true nearest a search finds.")
    ] = False,
    queries: Annotated[int, typer.Option(min=1, help="How many searches --check makes.")] = 100,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Put the texts of files into a corpus; what is there already is not encoded again."""
    form = choose(table=table, as_csv=as_csv)
    if not files and not check:
        raise typer.BadParameter("name files to put in, or --check to measure what is there")
    encoder = _encoder(corpus, model, threads)
    with Corpus.open(
        corpus, encoder, precision=precision, dim=dim, words=words, engine=engine
    ) as opened:
        if files:
            columns = Columns(id, text, tuple(field) if field else None)
            taken = index_files(opened, files, columns=columns, progress=watched())
            _report(taken, opened, corpus)
        if check:
            print_rows(check_recall(opened, queries=queries), form)


def _encoder(corpus: Path, model: str | None, threads: int | None) -> TextEncoder | None:
    """The model that was named, or for a new corpus the shipped one."""
    if model is None and corpus.exists():
        return None  # the corpus knows which
    return load(model, threads=threads)


def _report(taken: IngestReport, opened: Corpus, path: Path) -> None:
    empty = (
        f", {counted(taken.empty, 'without text was', 'without text were')} passed over"
        if taken.empty
        else ""
    )
    say(
        f"{counted(taken.written, 'document')} written, {taken.unchanged:,} unchanged{empty}; "
        f"{path} has {len(opened):,}"
    )
