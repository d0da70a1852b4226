"""`malmoi lexicon`: code tables made into a lexicon, added to, and looked into."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..encoders import load
from ..errors import DataError, counted
from ..io.tables import read_texts
from ..terms import Lexicon, Linker, add_names, build_lexicon
from ..terms import calibrate as fit_threshold
from ..terms.builder import describe
from ..terms.export import (
    NAME_COLUMNS,
    PAIR_COLUMNS,
    PAIRS,
    name_rows,
    pair_rows,
    write_rows,
)
from ..terms.linker import save_threshold
from ..terms.segment import find_lexicon
from .link import Spelling, model_of
from .options import Column, Json, ModelOption, Table, Threads, arg, more, opt, parse_columns
from .output import Row, choose, print_card, prints_rows, say, watched

_MANY = 2000  # fewer names are encoded in a second, by the first link

app = typer.Typer()

Tables = Annotated[list[Path], arg("Tables: .tsv, .csv, .xlsx, .txt, MRCONSO.RRF, code||name.")]
Folder = Annotated[str, arg("A lexicon's folder, or sample.")]
FormOption = Annotated[str, opt("auto, table, kostom, mrconso, biosyn or lexicon.", "--form")]
Columns = Annotated[
    str | None, opt("Columns by part, as code=상병코드,ko=한글명,en=영문명; see docs/terms.md.")
]
SourceOption = Annotated[
    str, more("A name for where the names are from; the file's if not.", "--source")
]
Uncoded = Annotated[bool, more("Give rows without a code one of their own.", "--keep-uncoded")]
Raw = Annotated[bool, more("Do not clean names.", "--as-is")]


@app.command()
def build(
    tables: Tables,
    out: Annotated[Path, opt("The lexicon's folder, kcd.lexicon.", "--out", "-o")],
    form: FormOption = "auto",
    columns: Columns = None,
    source: SourceOption = "",
    merges: Annotated[Path | None, more("A table of codes and the codes they became.")] = None,
    keep_uncoded: Uncoded = False,
    as_is: Raw = False,
    replace: Annotated[bool, opt("Replace the lexicon that is there.", "--replace")] = False,
    plain: Annotated[
        bool, more("Take no shipped lay and clinical names along when linking.", "--plain")
    ] = False,
    encode: Annotated[
        bool, opt("Encode the names now, so that the first link does not have to.")
    ] = True,
    model: ModelOption = None,
    threads: Threads = None,
    table: Table = False,
    as_json: Json = False,
) -> None:
    """Merge tables by code into a lexicon, and say what was read, cleaned and left out."""
    report = build_lexicon(
        tables,
        out,
        form=form,
        columns=parse_columns(columns),
        source=source,
        merges=merges,
        keep_uncoded=keep_uncoded,
        cleaning=not as_is,
        replace=replace,
        plain=plain,
        progress=watched(),
    )
    print_card(describe(report.to_json()), report.to_json(), choose(table=table, as_json=as_json))
    if encode and report.names >= _MANY:
        _encode(out, model, threads)
    say(f"wrote {out}")


@app.command()
def add(
    lexicon: Annotated[Path, arg("The lexicon's folder.")],
    tables: Tables,
    form: FormOption = "auto",
    columns: Columns = None,
    source: SourceOption = "",
    keep_uncoded: Uncoded = False,
    as_is: Raw = False,
    table: Table = False,
    as_json: Json = False,
) -> None:
    """Add names to a lexicon without building it again."""
    known = set(Lexicon.open(lexicon).codes)
    report = add_names(
        lexicon,
        tables,
        form=form,
        columns=parse_columns(columns),
        source=source,
        keep_uncoded=keep_uncoded,
        cleaning=not as_is,
        progress=watched(),
    )
    print_card(describe(report.to_json()), report.to_json(), choose(table=table, as_json=as_json))
    say(f"added {counted(report.names, 'name')} to {lexicon}")
    new = [code for code in Lexicon.open(lexicon).codes if code not in known]
    if new:
        shown = ", ".join(new[:5]) + (" …" if len(new) > 5 else "")
        say(f"{counted(len(new), 'code was', 'codes were')} not in the lexicon before: {shown}")


@app.command()
def info(lexicon: Folder, table: Table = False, as_json: Json = False) -> None:
    """Show what a lexicon holds, how it was cleaned, and whether its files are whole."""
    opened = Lexicon.open(lexicon)
    opened.verify()
    data = opened.manifest.report
    segments = [{"names": len(part), "id": part.identity} for part in opened.segments]
    counts = {"names": len(opened), "concepts": len(opened.codes), "segments": segments}
    files = find_lexicon(lexicon).rglob("*")
    size = sum(path.stat().st_size for path in files if path.is_file())
    lines = [f"{opened.label} ({opened.folder}, {size / 1e6:.1f} MB), all files whole"]
    added = len(opened.segments) - 1
    if added:
        first = len(opened.segments[0])
        lines.append(
            f"{counted(len(opened) - first, 'name was', 'names were')} added later, in "
            f"{counted(added, 'part')}"
        )
    form = choose(table=table, as_json=as_json)
    print_card([*lines, *describe(data)], {**data, **counts}, form)


@app.command()
@prints_rows
def show(
    lexicon: Folder, codes: Annotated[list[str], arg("Codes whose names to show.")]
) -> Iterable[Row]:
    """Show the names of codes."""
    opened = Lexicon.open(lexicon)
    for code in codes:
        for name in opened.concept(code).names:
            yield {
                "code": name.concept,
                "name": name.text,
                "language": name.language,
                "kind": name.kind,
                "source": name.source,
                "original": name.original,
            }


@app.command()
def export(
    lexicon: Annotated[Path, arg("A lexicon's folder, sample, or a code table (KOSTOM, …).")],
    pairs: Annotated[
        bool, opt("Pairs of names (sent0, sent1, label), or else all names.", "--pairs/--names")
    ] = False,
    most: Annotated[int, opt("--pairs: the most of a code.", min=1)] = PAIRS,
    out: Annotated[Path | None, opt("A .tsv file; stdout if left out.", "--out", "-o")] = None,
    seed: Annotated[int, opt("--pairs: the seed of the draw.", min=0)] = 1,
) -> None:
    """Write the names of a lexicon as training reads them: objective = "term-alignment"."""
    header = PAIR_COLUMNS if pairs else NAME_COLUMNS
    rows = pair_rows(lexicon, most=most, seed=seed) if pairs else name_rows(lexicon)
    if out is not None:
        count = write_rows(header, rows, out)
        say(f"wrote {counted(count, 'pair' if pairs else 'name')} to {out}")
        return
    for row in (header, *rows):
        sys.stdout.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")


@app.command()
@prints_rows
def ambiguous(lexicon: Folder) -> Iterable[Row]:
    """Show every name that stands for several codes."""
    for name, codes in Lexicon.open(lexicon).ambiguous():
        yield {"name": name, "codes": codes}


@app.command()
@prints_rows
def nearest(
    asked: Annotated[list[str], arg("One term or several.")],
    among: Annotated[
        str, opt("A lexicon, or a file of terms, one per line; - is stdin.")
    ] = "sample",
    column: Column = None,
    k: Annotated[int, opt("How many nearest terms.", "--k", "-k", min=1)] = 10,
    plot: Annotated[Path | None, opt("Draw a map (.png, .svg, .pdf).")] = None,
    project: Annotated[Literal["pca", "umap"], opt("How the map is made.")] = "pca",
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the terms whose vectors are nearest, the nearest first."""
    from ..mining.figures import check_figure, plot_terms
    from ..mining.texts import nearest_terms

    if plot is not None:
        check_figure(plot)
    known = (
        Lexicon.open(among).texts()
        if among == "sample" or Path(among).is_dir()
        else read_texts(among, column=column)
    )
    found = nearest_terms(load(model, threads=threads), asked, list(known), k=k)
    for one in found.found:
        yield {"term": one.term, "near": one.near, "score": round(one.score, 4)}
    if plot is not None:
        plot_terms(found, plot, method=project)


@app.command()
def calibrate(
    lexicon: Annotated[str, arg("The lexicon's folder.")],
    file: Annotated[Path, arg("A table of terms with their codes, - for none.")],
    spelling: Spelling = False,
    model: ModelOption = None,
    threads: Threads = None,
) -> None:
    """Choose the score below which a term has no concept in the lexicon (NIL)."""
    from ..evaluation.tasks.linking import judge, read_cases

    linker = Linker(
        Lexicon.open(lexicon),
        None if spelling else load(model, threads=threads),
        progress=watched(),
    )
    judged = judge(linker, read_cases(file).rows)
    found = fit_threshold(
        [one.linked for one in judged], [one.rank == 1 for one in judged], model=model_of(linker)
    )
    if linker.lexicon.folder is None:
        raise DataError("this lexicon is in memory only; expected a folder. Build one first.")
    save_threshold(found, linker.lexicon.folder)
    say(
        f"NIL is a score below {found.score}: it decides {found.accuracy:.1%} of "
        f"{counted(found.mentions, 'mention')} rightly and answers {found.answered:.1%}"
    )


def _encode(out: Path, model: str | None, threads: int | None) -> None:
    """Index and encode a lexicon's names; without a model that is left to the first link."""
    from ..errors import MalmoiError

    try:
        encoder = load(model, threads=threads)
    except MalmoiError as error:
        if model is not None:
            raise
        say(f"the names are not encoded, which the first link will do: {error}")
        return
    Linker(Lexicon.open(out), encoder, progress=watched())
