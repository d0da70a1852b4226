"""`malmoi evaluate`: how good a model is at a task, and whether it is better than another."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, BadParameter, Option

from ..bundle.bundle import open_bundle
from ..bundle.catalog import KINDS, find_model
from ..classifier import load_classifier
from ..encoder import load
from ..errors import DataError
from ..evaluate import TASKS, Report, Settings, load_baselines
from ..evaluate import evaluate as measure
from ..plots import check_figure, plot_report
from ..reranker.reranker import load_reranker
from ..tagger import load_tagger
from .output import (
    Format,
    Sides,
    Strict,
    Threads,
    parse_columns,
    print_json,
    print_rows,
    prints_rows,
    say,
)

# The choices of --task are the names of the registry; a type checker cannot follow that.
if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(TASKS)]
_LOADERS: dict[str, Callable[..., object]] = {
    "reranker": load_reranker,
    "tagger": load_tagger,
    "classifier": load_classifier,
}


@prints_rows
def evaluate(
    task: Annotated[TaskName, Option(help="What to measure.")],
    data: Annotated[Path, Option(help="A .tsv, .csv or .jsonl file of examples.")],
    model: Annotated[
        str | None, Argument(help="An encoder or reranker; the shipped one if left out.")
    ] = None,
    columns: Annotated[
        str | None, Option(help="Columns by role, as a=ko1,b=ko2,score=score.")
    ] = None,
    sides: Sides = None,
    against: Annotated[
        list[str] | None, Option(help="Another model to compare with; may be repeated.")
    ] = None,
    baselines: Annotated[
        str | None, Option(help="Compare with this raw encoder's CLS, mean and words.")
    ] = None,
    encoder: Annotated[
        str | None, Option(help="rerank: the encoder that proposes documents.")
    ] = None,
    top: Annotated[int, Option(min=1, help="rerank: how many documents to rerank.")] = 50,
    k: Annotated[str, Option(help="retrieval, rerank: cut-offs.")] = "1,5,10",
    documents: Annotated[
        Path | None, Option(help="retrieval, rerank: more texts to search among.")
    ] = None,
    query_prompt: Annotated[
        str | None, Option(help="retrieval, rerank: the encoder's prompt for queries.")
    ] = None,
    document_prompt: Annotated[
        str | None, Option(help="retrieval, rerank: the encoder's prompt for documents.")
    ] = None,
    train: Annotated[Path | None, Option(help="nli, transfer, senses: fit on this file.")] = None,
    lexicon: Annotated[str | None, Option(help="linking: the lexicon to link mentions to.")] = None,
    types: Annotated[
        str | None, Option(help="linking: types of mentions to keep, with commas.")
    ] = None,
    errors: Annotated[
        Path | None, Option(help="linking: write what went wrong to this .tsv.")
    ] = None,
    folds: Annotated[int, Option(min=2, help="nli, transfer: cross-validation folds.")] = 10,
    rounds: Annotated[int, Option(min=0, help="Bootstrap rounds; 0 leaves intervals out.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of bootstrap and folds.")] = 0,
    strict: Strict = False,
    plot: Annotated[Path | None, Option(help="Draw the report (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Write the report as JSON.")] = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Measure a model on a file: values with 95 % intervals, and clear differences from others."""
    if plot is not None:
        check_figure(plot)
    for file in (data, train, documents):  # before models are opened, which may take a while
        if file is not None and not file.exists():
            raise DataError(f"there is no file {file}; expected examples. Name a file that exists.")
    settings = Settings(
        columns=parse_columns(columns),
        sides=sides,
        strict=strict,
        ks=_parse_ks(k),
        documents=documents,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        encoder=load(encoder, threads=threads) if encoder else None,
        top=top,
        train=train,
        folds=folds,
        lexicon=lexicon,
        types=tuple(part.strip() for part in types.split(",")) if types else (),
        errors=errors,
        seed=seed,
    )
    judged = _open(model, threads)
    others = [_open(name, threads) for name in against or ()]
    if baselines is not None:
        others += load_baselines(baselines, threads=threads)
    report = measure(judged, task, data, against=others, settings=settings, rounds=rounds)
    _show(report, form, plot, out)


def _open(name: str | None, threads: int | None) -> object:
    """Open a model of the kind that its folder says."""
    kind = open_bundle(find_model(name), kinds=tuple(KINDS)).manifest.kind
    return _LOADERS.get(kind, load)(name, threads=threads)


def _parse_ks(k: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in k.split(","))
    except ValueError as error:
        raise BadParameter(f"--k {k}: expected numbers with commas between") from error


def _show(report: Report, form: Format, plot: Path | None, out: Path | None) -> None:
    # Printed first, so that a folder which cannot be written costs no numbers.
    if form is Format.JSON:
        print_json(report.to_json())
    else:
        print_rows(report.rows(), form)
    for verdict in report.verdicts():
        say(verdict)
    if out is not None:
        report.save(out)
        say(f"wrote {out}")
    if plot is not None:
        plot_report(report, plot)
        say(f"wrote {plot}")
