"""`malmoi index`: files into a corpus that can be searched."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from ..corpus import Columns, Corpus, index_files
from ..corpus.corpus import check_recall
from ..encoder import load
from ..errors import counted
from .output import ModelOption, Row, Threads, prints_rows, say, watched


@prints_rows
def index(
    corpus: Annotated[Path, Argument(help="The corpus file; made if it is not there.")],
    files: Annotated[
        list[str] | None, Argument(help=".txt, .jsonl, .tsv or .csv; - is stdin.")
    ] = None,
    model: ModelOption = None,
    text: Annotated[str | None, Option(help="The column or field with the text.")] = None,
    id: Annotated[str | None, Option("--id", help="The column or field with the id.")] = None,
    field: Annotated[
        list[str] | None, Option(help="A column to keep as metadata; all when left out.")
    ] = None,
    precision: Annotated[
        Literal["float32", "int8", "binary"],
        Option(help="What a value is stored as (a new corpus only)."),
    ] = "float32",
    dim: Annotated[
        int | None, Option(help="Keep the first dimensions only (a new corpus only).")
    ] = None,
    words: Annotated[
        Literal["word-morphemes", "morphemes", "bigrams"] | None,
        Option(help="What keyword search counts (a new corpus only)."),
    ] = None,
    engine: Annotated[
        Literal["auto", "flat", "hnsw"], Option(help="How vectors are searched.")
    ] = "auto",
    check: Annotated[
        bool, Option("--check", help="Print how many of the true nearest a search finds.")
    ] = False,
    queries: Annotated[int, Option(min=1, help="How many searches --check makes.")] = 100,
    threads: Threads = None,
) -> Iterable[Row]:
    """Put the texts of files into a corpus; what is there already is not encoded again."""
    if not files and not check:
        raise BadParameter("name files to put in, or --check to measure what is there")
    # A corpus knows its model; without a name, a new one gets the shipped model.
    encoder = load(model, threads=threads) if model is not None or not corpus.exists() else None
    with Corpus.open(
        corpus, encoder, precision=precision, dim=dim, words=words, engine=engine
    ) as opened:
        if files:
            columns = Columns(id, text, tuple(field) if field else None)
            report = index_files(opened, files, columns=columns, progress=watched())
            empty = counted(report.empty, "without text was", "without text were")
            say(
                f"{counted(report.written, 'document')} written, {report.unchanged:,} unchanged"
                f"{f', {empty} passed over' if report.empty else ''}; {corpus} has {len(opened):,}"
            )
        return [check_recall(opened, queries=queries)] if check else []
