"""`malmoi model`: what a bundle is, a torch model made into one, and the tokens it knows."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from typer import BadParameter

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..bundle.manifest import KINDS, MANIFEST
from ..encoders import load
from ..encoders.scale import QUANTILES, ScoreScale, score_scale
from ..runtime.session import Session, choose_device, usable_devices
from ..runtime.tokenizer import read_tokenizer
from .options import Json, Table, arg, opt
from .output import Format, Row, choose, print_card, prints_rows

app = typer.Typer()


_SKIPPED = ("files", "training", "scores", "format")


@app.command()
def info(
    bundle: Annotated[
        str | None, arg("A bundle or model folder; the shipped one if left out.")
    ] = None,
    table: Table = False,
    as_json: Json = False,
) -> None:
    """Show what a model is: kind, size, licence, scores, its files, and what its cosines mean."""
    opened = open_bundle(find_model(bundle), kinds=tuple(KINDS))
    form = choose(table=table, as_json=as_json)
    lines = describe(opened) if form is Format.PEOPLE else []
    if form is Format.PEOPLE and opened.manifest.kind in ("encoder", "static"):
        lines += describe_scale(score_scale(load(opened.folder, device="cpu")))
    print_card(lines, opened.manifest.to_json(), form)


def describe(bundle: Bundle) -> list[str]:
    """Describe a bundle in lines of text."""
    data = bundle.manifest.to_json()
    size = sum(path.stat().st_size for path in bundle.folder.rglob("*") if path.is_file())
    lines = [f"{bundle.manifest.name} ({bundle.folder}, {size / 1e6:.1f} MB)"]
    for key, value in data.items():
        if key not in _SKIPPED and key != "name":
            lines.append(f"  {key:<13} {_shown(value)}")
    for title in ("training", "scores"):
        if data.get(title):
            lines.append(f"  {title}")
            lines += [f"    {key:<24} {_shown(value)}" for key, value in data[title].items()]
    if bundle.manifest.kind != "static":
        lines.append(f"  runs on       {_where(bundle.graph)}")
    files = data.get("files", {})
    state = "all as their sha256 says" if files else "no manifest, so nothing to check them by"
    lines.append(f"  files         {len(files)}: {state}" if files else f"  files         {state}")
    lines += [f"    {digest[:16]}…  {name}" for name, digest in files.items()]
    return lines


def _where(graph: Path) -> str:
    """Say which device runs a graph, and which else there are."""
    asked = choose_device()
    found = asked if asked == "cpu" else Session(graph).device  # what it falls back to
    others = [name for name in usable_devices() if name not in (asked, found)]
    notes = [f"{asked} cannot run this graph"] * (asked != found)
    notes += [f"{', '.join(others)} too: malmoi --device"] * bool(others)
    return f"{found} ({'; '.join(notes)})" if notes else found


def describe_scale(scale: ScoreScale) -> list[str]:
    """Describe the cosines of pairs in lines of text."""
    shares = "".join(f"{share:>7.0%}" for share in QUANTILES)
    lines = [f"  cosines of pairs, below which so many are {shares}"]
    for name, values in scale.quantiles().items():
        lines.append(f"    {name:<39}" + "".join(f"{value:>7.2f}" for value in values))
    grid = np.linspace(-1, 1, 201, dtype=np.float32)
    even = float(grid[int(np.argmax(scale.calibrated(grid) >= 0.5))])
    lines.append(f"    half-way between the two is {even:.2f}: malmoi similarity --calibrated")
    return lines


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


@app.command()
def export(
    source: Annotated[str, arg("A sentence-transformers folder, a transformer's, or a hub id.")],
    out: Annotated[Path, arg("The bundle's folder; it must not exist yet.")],
    kind: Annotated[
        Literal["encoder", "static", "reranker", "classifier", "tagger", "answerer"] | None,
        opt("What to make of it; what its head says if left out."),
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "lasttoken", "pooler"] | None,
        opt("How token states become one vector; mean for a bare transformer."),
    ] = None,
    precision: Annotated[
        Literal["float32", "float16", "int8"],
        opt("What the graph's weights are stored as; float16 is for GPUs, int8 for processors."),
    ] = "float32",
    layers: Annotated[
        Literal["all", "none"], opt("Keep every layer's states, for word vectors.")
    ] = "none",
    name: Annotated[str | None, opt("The bundle's name; OUT's if left out.")] = None,
    licence: Annotated[str, opt("The licence of the weights, as in Apache-2.0.")] = "",
    max_tokens: Annotated[
        int | None, opt("The longest input; the model's own if left out.")
    ] = None,
    torch: Annotated[
        bool,
        opt(
            "Keep torch weights in an int8 bundle; of a bundle: make them from its graph.",
            "--torch",
        ),
    ] = False,
    static: Annotated[
        bool, opt("Make a static twin: a vector a piece, no graph.", "--static")
    ] = False,
    dim: Annotated[int | None, opt("A static twin's dimensions, 192.")] = None,
    texts: Annotated[
        list[Path] | None,
        opt("Texts that a static twin learns from, one per line; may be repeated."),
    ] = None,
    column: Annotated[
        list[str] | None,
        opt("The column of such a .tsv, .csv or .jsonl; may be repeated."),
    ] = None,
) -> None:
    """Turn a torch model into a bundle that runs without torch.

    SOURCE may be an encoder of any architecture that transformers has and torch can trace; a
    cross-encoder becomes a reranker, a sequence classifier a classifier, a token classifier a
    tagger, a question answering model an answerer. Its graph is compared with torch before it is
    kept. With --static and --torch, SOURCE is an encoder's bundle instead.
    """
    # long because every option has a line of its own
    others = (pooling, precision != "float32", layers != "none", max_tokens, kind)
    if torch and _is_bundle(source):
        if static or any(others) or name or licence or dim is not None or texts or column:
            raise typer.BadParameter("--torch takes no other options with a bundle")
        from ..export.weights_from_graph import export_torch

        export_torch(source, out)
        return
    if static:
        if any(others):
            raise typer.BadParameter(
                "--kind, --pooling, --precision, --layers and --max-tokens are not for --static"
            )
        from ..export.static import export_static

        export_static(
            source,
            out,
            dim=dim or 192,
            texts=texts or (),
            columns=column or (),
            name=name,
            licence=licence,
        )
        return
    if dim is not None or texts or column:
        raise typer.BadParameter("--dim, --texts and --column are for --static")
    from ..bundle.bundle import find_model
    from ..export import export as bundles  # training code, loaded only when asked for
    from ..export.source import head_of

    folder = find_model(source, weights=True)
    chosen = kind or head_of(folder)
    if chosen != "encoder" and (pooling is not None or layers != "none"):
        raise typer.BadParameter(f"--pooling and --layers are for encoders; this is a {chosen}")
    bundles.export(
        folder,
        out,
        kind=kind,
        pooling=pooling,
        precision=precision,
        layers=layers,
        name=name,
        licence=licence,
        max_tokens=max_tokens,
        weights=torch or precision != "int8",
    )


def _is_bundle(source: str) -> bool:
    """Whether a source is one of malmoi's bundles, by its manifest."""
    from ..errors import MalmoiError

    try:
        return (find_model(source) / MANIFEST).is_file()
    except MalmoiError:  # a hub id that is read later
        return False


@app.command()
@prints_rows
def vocabulary(
    model: Annotated[
        str | None, arg("A bundle, a model folder, a shipped name; ko-en-small if left out.")
    ] = None,
    grep: Annotated[str | None, opt("Only tokens with this regular expression in them.")] = None,
) -> Iterable[Row]:
    """Print a model's vocabulary, one token a row with its id."""
    try:
        wanted = re.compile(grep or "")
    except re.error as error:
        raise BadParameter(
            f"--grep is {grep!r}, which is no regular expression ({error}); expected letters, or "
            "a pattern such as ^배"
        ) from error
    bundle = open_bundle(find_model(model), kinds=tuple(KINDS))
    known = read_tokenizer(bundle.tokenizer).get_vocab(with_added_tokens=True)
    for token, number in sorted(known.items(), key=lambda item: (item[1], item[0])):
        if wanted.search(token):
            yield {"id": number, "token": token}
