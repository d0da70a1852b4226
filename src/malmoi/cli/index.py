"""`malmoi index`: files into a corpus that can be searched."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import BadParameter

from ..corpus import Columns, Corpus, index_files
from ..corpus.corpus import check_recall
from ..encoder import load
from ..errors import counted
from ..runtime.precision import Precision
from .options import ModelOption, Threads, arg, opt
from .output import Row, prints_rows, say, watched


@prints_rows
def index(
    corpus: Annotated[Path, arg("The corpus file; made if it is not there.")],
    files: Annotated[list[str] | None, arg(".txt, .jsonl, .tsv or .csv; - is stdin.")] = None,
    model: ModelOption = None,
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
