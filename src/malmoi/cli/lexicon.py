"""`malmoi lexicon`: code tables made into a lexicon, added to, and looked into."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import counted
from ..lexicon import BuildReport, Lexicon, add_names, build_lexicon
from ..lexicon.manifest import find_lexicon
from ..lexicon.report import describe
from .evaluate import parse_columns
from .output import Csv, Table, choose, print_rows, say, watched

app = typer.Typer(
    help="Make a lexicon of code tables, add names to one, look into one.", no_args_is_help=True
)

Tables = Annotated[
    list[Path], typer.Argument(help="Tables: .tsv, .csv, .xlsx, .txt, MRCONSO.RRF, code||name.")
]
Place = Annotated[str, typer.Argument(help="A lexicon's folder, or sample.")]
FormOption = Annotated[
    str, typer.Option("--form", help="auto, table, kostom, mrconso, biosyn or lexicon.")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns by part, as code=상병코드,ko=한글명,en=영문명; see docs/terms.md."),
]
SourceOption = Annotated[
    str, typer.Option("--source", help="A name for where the names are from; the file's if not.")
]
Uncoded = Annotated[
    bool, typer.Option("--keep-uncoded", help="Give rows without a code one of their own.")
]
Raw = Annotated[bool, typer.Option("--as-is", help="Do not clean names.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def build(
    tables: Tables,
    out: Annotated[Path, typer.Option("--out", "-o", help="The lexicon's folder, kcd.lexicon.")],
    form: FormOption = "auto",
    columns: Columns = None,
    source: SourceOption = "",
    merges: Annotated[
        Path | None, typer.Option(help="A table of codes and the codes they became.")
    ] = None,
    keep_uncoded: Uncoded = False,
    as_is: Raw = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the lexicon that is there.")
    ] = False,
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
        progress=watched(),
    )
    _show(report, as_json)
    say(f"wrote {out}")


@app.command()
def add(
    lexicon: Annotated[Path, typer.Argument(help="The lexicon's folder.")],
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
def info(lexicon: Place, as_json: Json = False) -> None:
    """Show what a lexicon holds, how it was cleaned, and whether its files are whole."""
    opened = Lexicon.open(lexicon)
    opened.verify()
    data = opened.manifest.report
    if as_json:
        _print_json({**data, "names": len(opened), "concepts": len(opened.codes), **_parts(opened)})
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
def show(
    lexicon: Place,
    codes: Annotated[list[str], typer.Argument(help="Codes whose names to show.")],
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Show the names of codes."""
    form = choose(table=table, as_csv=as_csv)
    print_rows(_rows(Lexicon.open(lexicon), codes), form)


@app.command()
def ambiguous(lexicon: Place, table: Table = False, as_csv: Csv = False) -> None:
    """Show every name that stands for several codes."""
    form = choose(table=table, as_csv=as_csv)
    opened = Lexicon.open(lexicon)
    print_rows(({"name": name, "codes": codes} for name, codes in opened.ambiguous()), form)


def _rows(lexicon: Lexicon, codes: list[str]) -> Iterator[dict[str, object]]:
    for code in codes:
        for name in lexicon.concept(code).names:
            yield {
                "code": name.concept,
                "name": name.text,
                "language": name.language,
                "kind": name.kind,
                "source": name.source,
                "original": name.original,
            }


def _parts(lexicon: Lexicon) -> dict[str, Any]:
    return {"segments": [{"names": len(part), "id": part.identity} for part in lexicon.segments]}


def _show(report: BuildReport, as_json: bool) -> None:
    if as_json:
        _print_json(report.to_json())
    else:
        sys.stdout.write("\n".join(describe(report.to_json())) + "\n")


def _print_json(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
