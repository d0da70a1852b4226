"""`malmoi evaluate`: how good a model is at a task, and whether it is better than another."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import BadParameter

from ..bundle.bundle import find_model, open_bundle
from ..bundle.manifest import KINDS
from ..encoders import load
from ..errors import DataError
from ..evaluation import TASKS, Report, Settings, WordVectors, load_baselines
from ..evaluation import evaluate as measure
from ..heads.answerer import load_answerer
from ..heads.classifier import load_classifier
from ..heads.reranker import load_reranker
from ..heads.tagger import load_tagger
from ..mining.figures import check_figure, plot_report
from .options import Sides, Strict, Threads, arg, more, opt, parse_columns
from .output import Format, print_json, print_rows, prints_rows, say

# The choices of --task are the names of the registry; a type checker cannot follow that.
if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(TASKS)]
_STATIC = "static:"
_LOADERS: dict[str, Callable[..., object]] = {
    "reranker": load_reranker,
    "tagger": load_tagger,
    "classifier": load_classifier,
    "answerer": load_answerer,
}


@prints_rows
def evaluate(
    task: Annotated[TaskName, opt("What to measure.")],
    data: Annotated[Path, opt("A .tsv, .csv, .jsonl or .json file of examples.")],
    model: Annotated[
        str | None, arg("An encoder or reranker; the shipped one if left out.")
    ] = None,
    columns: Annotated[str | None, opt("Columns by role, as a=ko1,b=ko2,score=score.")] = None,
    sides: Sides = None,
    against: Annotated[
        list[str] | None,
        opt("Another model, or static:FILE of word vectors; may be repeated."),
    ] = None,
    baselines: Annotated[
        str | None, opt("Compare with this raw encoder's CLS, mean and words.")
    ] = None,
    encoder: Annotated[str | None, more("rerank: the encoder that proposes documents.")] = None,
    top: Annotated[int, more("rerank: how many documents to rerank.", min=1)] = 50,
    k: Annotated[str, more("retrieval, rerank: cut-offs.")] = "1,5,10",
    documents: Annotated[
        Path | None, more("retrieval, rerank: more texts to search among, or a folder of files.")
    ] = None,
    query_prompt: Annotated[
        str | None, more("retrieval, rerank: the encoder's prompt for queries.")
    ] = None,
    document_prompt: Annotated[
        str | None, more("retrieval, rerank: the encoder's prompt for documents.")
    ] = None,
    train: Annotated[Path | None, more("nli, transfer, senses: fit on this file.")] = None,
    lexicon: Annotated[str | None, more("linking: the lexicon to link mentions to.")] = None,
    types: Annotated[str | None, more("linking: types of mentions to keep, with commas.")] = None,
    errors: Annotated[Path | None, more("linking: write what went wrong to this .tsv.")] = None,
    folds: Annotated[int, more("nli, transfer: cross-validation folds.", min=2)] = 10,
    rounds: Annotated[int, more("Bootstrap rounds; 0 leaves intervals out.", min=0)] = 1000,
    seed: Annotated[int, more("Seed of bootstrap and folds.", min=0)] = 0,
    strict: Strict = False,
    plot: Annotated[Path | None, opt("Draw the report (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, opt("Write the report as JSON.", "--out", "-o")] = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Measure a model on a file: values with 95 % intervals, and clear differences from others."""
    # long because every option has a line of its own
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
    """Open a model of the kind that its folder says, or a file of word vectors."""
    if name is not None and name.startswith(_STATIC):
        return WordVectors(name.removeprefix(_STATIC))
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
