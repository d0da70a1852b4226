"""`malmoi export`: a torch model in, a bundle out."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def export(
    source: Annotated[
        str, typer.Argument(help="A sentence-transformers folder, a transformer's, or a hub id.")
    ],
    out: Annotated[Path, typer.Argument(help="The bundle's folder; it must not exist yet.")],
    kind: Annotated[
        Literal["encoder", "static", "reranker", "classifier", "tagger", "answerer"] | None,
        typer.Option(help="What to make of it; what its head says if left out."),
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "lasttoken", "pooler"] | None,
        typer.Option(help="How token states become one vector; mean for a bare transformer."),
    ] = None,
    precision: Annotated[
        Literal["float32", "float16", "int8"],
        typer.Option(
            help="What the graph's weights are stored as; float16 is for GPUs, int8 for processors."
        ),
    ] = "float32",
    layers: Annotated[
        Literal["all", "none"], typer.Option(help="Keep every layer's states, for word vectors.")
    ] = "none",
    name: Annotated[str | None, typer.Option(help="The bundle's name; OUT's if left out.")] = None,
    licence: Annotated[
        str, typer.Option(help="The licence of the weights, as in Apache-2.0.")
    ] = "",
    max_tokens: Annotated[
        int | None, typer.Option(help="The longest input; the model's own if left out.")
    ] = None,
    torch: Annotated[
        bool, typer.Option("--torch", help="Add torch weights to a bundle, made from its graph.")
    ] = False,
    static: Annotated[
        bool, typer.Option("--static", help="Make a static twin: a vector a piece, no graph.")
    ] = False,
    dim: Annotated[int | None, typer.Option(help="A static twin's dimensions, 192.")] = None,
    texts: Annotated[
        list[Path] | None,
        typer.Option(help="Texts that a static twin learns from, one per line; may be repeated."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The column of such a .tsv, .csv or .jsonl; may be repeated."),
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
    if torch:
        if static or any(others) or name or licence or dim is not None or texts or column:
            raise typer.BadParameter("--torch takes no other options")
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
    )
