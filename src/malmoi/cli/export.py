"""`malmoi export`: a torch model in, a bundle out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .output import say


def export(
    source: Annotated[
        Path, typer.Argument(help="A sentence-transformers folder, or a transformer's.")
    ],
    out: Annotated[Path, typer.Argument(help="The bundle's folder; it must not exist yet.")],
    pooling: Annotated[
        Literal["cls", "mean", "max"] | None,
        typer.Option(help="How token states become one vector; mean for a bare transformer."),
    ] = None,
    precision: Annotated[
        Literal["float32", "int8"], typer.Option(help="What the graph's weights are stored as.")
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
) -> None:
    """Turn a torch model into a bundle that runs without torch.

    SOURCE may be a BERT, RoBERTa, XLM-RoBERTa, ALBERT, ELECTRA, DistilBERT or MPNet encoder, or a
    cross-encoder on one of these, which becomes a reranker. The bundle is also a
    sentence-transformers folder.
    """
    from ..train import export as bundles  # training code, loaded only when asked for
    from ..train.reranker_source import is_reranker

    if is_reranker(source):
        if pooling is not None or layers != "none":
            raise typer.BadParameter("--pooling and --layers are for encoders; this is a reranker")
        bundles.require_packages()
        from ..train.export_reranker import export_reranker

        export_reranker(
            source,
            out,
            precision=precision,
            name=name,
            licence=licence,
            max_tokens=max_tokens,
            tell=say,
        )
        return
    bundles.export(
        source,
        out,
        pooling=pooling,
        precision=precision,
        layers=layers,
        name=name,
        licence=licence,
        max_tokens=max_tokens,
        tell=say,
    )
