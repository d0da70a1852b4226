"""`malmoi lexicon`: code tables made into a lexicon, added to, and looked into."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import DataError, counted
from ..terms import BuildReport, Lexicon, add_names, build_lexicon
from ..terms.builder import describe
from ..terms.export import (
    NAME_COLUMNS,
    PAIR_COLUMNS,
    PAIRS,
    name_rows,
    pair_rows,
    write_rows,
)
from ..terms.segment import find_lexicon
from .options import Json, ModelOption, Threads, arg, opt, parse_columns
from .output import Row, print_json, prints_rows, say, watched

_MANY = 2000  # fewer names are encoded in a second, by the first link

app = typer.Typer(
    help="Make a lexicon of code tables, add names to one, look into one.", no_args_is_help=True
)

Tables = Annotated[list[Path], arg("Tables: .tsv, .csv, .xlsx, .txt, MRCONSO.RRF, code||name.")]
Folder = Annotated[str, arg("A lexicon's folder, or sample.")]
FormOption = Annotated[str, opt("auto, table, kostom, mrconso, biosyn or lexicon.", "--form")]
Columns = Annotated[
    str | None, opt("Columns by part, as code=상병코드,ko=한글명,en=영문명; see docs/terms.md.")
]
SourceOption = Annotated[
    str, opt("A name for where the names are from; the file's if not.", "--source")
]
Uncoded = Annotated[bool, opt("Give rows without a code one of their own.", "--keep-uncoded")]
Raw = Annotated[bool, opt("Do not clean names.", "--as-is")]


@app.command()
def build(
    tables: Tables,
    out: Annotated[Path, opt("The lexicon's folder, kcd.lexicon.", "--out", "-o")],
    form: FormOption = "auto",
    columns: Columns = None,
    source: SourceOption = "",
    merges: Annotated[Path | None, opt("A table of codes and the codes they became.")] = None,
    keep_uncoded: Uncoded = False,
    as_is: Raw = False,
    replace: Annotated[bool, opt("Replace the lexicon that is there.", "--replace")] = False,
    plain: Annotated[
        bool, opt("Take no shipped lay and clinical names along when linking.", "--plain")
    ] = False,
    encode: Annotated[
        bool, opt("Encode the names now, so that the first link does not have to.")
    ] = True,
    model: ModelOption = None,
    threads: Threads = None,
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
    _show(report, as_json)
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
    as_json: Json = False,
) -> None:
    """Add names to a lexicon without building it again."""
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
    _show(report, as_json)
    say(f"added {counted(report.names, 'name')} to {lexicon}")


@app.command()
def info(lexicon: Folder, as_json: Json = False) -> None:
    """Show what a lexicon holds, how it was cleaned, and whether its files are whole."""
    opened = Lexicon.open(lexicon)
    opened.verify()
    data = opened.manifest.report
    if as_json:
        segments = [{"names": len(part), "id": part.identity} for part in opened.segments]
        counts = {"names": len(opened), "concepts": len(opened.codes), "segments": segments}
        print_json({**data, **counts})
        return
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
    sys.stdout.write("\n".join([*lines, *describe(data)]) + "\n")


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
def learn(
    lexicon: Annotated[str, arg("The lexicon's folder.")],
    corrections: Annotated[
        list[Path] | None, arg("Tables of decisions; those beside the lexicon if left out.")
    ] = None,
    keep_rows: Annotated[
        bool, opt("Keep the decisions beside the lexicon, so that they take effect.", "--keep")
    ] = False,
    spelling: Annotated[
        bool, opt("Link by spelling alone, without a model.", "--spelling")
    ] = False,
    model: ModelOption = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Fit the trust in evidence and the threshold to decisions, and say what that improves."""
    from ..clinical.corrections import FILE, read_corrections, save_corrections
    from ..clinical.corrections import learn as fit
    from ..clinical.reader import DEFAULT_THRESHOLD, EVIDENCE_PRECISION
    from ..encoders import load
    from ..terms import Linker

    opened = Lexicon.open(lexicon)
    own = find_lexicon(lexicon) / FILE
    rows = [row for path in corrections or [own] for row in read_corrections(path)]
    if keep_rows and corrections:
        say(f"kept {counted(len(rows), 'decision')} in {save_corrections(opened, rows)}")
    linker = Linker(opened, None if spelling else load(model, threads=threads))
    learnt, report = fit(rows, linker.link, EVIDENCE_PRECISION, threshold=DEFAULT_THRESHOLD)
    if as_json:
        print_json(asdict(report))
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    if report.worse:
        raise DataError(
            "what was learnt does worse on the decisions that were held back; expected it to do "
            "better. Nothing was stored: collect more decisions, and learn again."
        )
    say(f"wrote {learnt.save(opened)}")


def _encode(out: Path, model: str | None, threads: int | None) -> None:
    """Index and encode a lexicon's names; without a model that is left to the first link."""
    from ..encoders import load
    from ..errors import MalmoiError
    from ..terms import Linker

    try:
        encoder = load(model, threads=threads)
    except MalmoiError as error:
        if model is not None:
            raise
        say(f"the names are not encoded, which the first link will do: {error}")
        return
    Linker(Lexicon.open(out), encoder, progress=watched())


def _show(report: BuildReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
    else:
        sys.stdout.write("\n".join(describe(report.to_json())) + "\n")
