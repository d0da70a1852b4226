"""A sentence-transformers folder, or any encoder plus a pooling → a bundle that needs no torch."""

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bundle.bundle import find_model
from ..bundle.manifest import PRECISIONS, Manifest
from ..errors import OptionError, check_choice, require
from ..io.files import writing_folder
from .source import BundleDetails, ModelSource, head_of, read_source, with_details

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LAYERS = ("none", "all")
_PACKAGES = ("torch", "transformers", "safetensors", "onnx")


def export(
    source: "str | Path | SentenceTransformer",
    out: str | Path,
    *,
    kind: str | None = None,
    pooling: str | None = None,
    precision: str = "float32",
    layers: str = "none",
    normalize: bool | None = None,
    name: str | None = None,
    licence: str = "",
    max_tokens: int | None = None,
    weights: bool = True,
    clean: tuple[str, ...] | None = None,
    training: dict[str, Any] | None = None,
    scores: dict[str, Any] | None = None,
    matryoshka: Sequence[int] = (),
) -> Manifest:
    """Write a model as a bundle at `out`, and give its manifest.

    source: a sentence-transformers folder, a transformer's folder or hub id, or a
        SentenceTransformer.
    kind: the bundle's, "encoder", "static", "reranker", "classifier", "tagger" or "answerer"; what
        the folder says when left out. An encoder of a folder with another head has no head.
    pooling, normalize: replace the model's own; a transformer alone gets the mean and length 1.
    precision: of the graph's weights: float32, float16 (for GPUs) or int8 (for processors).
    layers: "all" keeps every hidden state as an output, for word vectors.
    name, licence, training, scores: what the manifest says; the name is that of `out` by default.
    max_tokens: the longest input; the model's own when left out.
    weights: keep the torch weights too; sentence-transformers cannot open a bundle without them.
    clean: text clean-up before the tokenizer; the model's own when left out.
    matryoshka: lengths to which a vector may be cut.

    Every graph is compared with torch before it is kept. Raises BundleError for a model that
    cannot be exported, OptionError for an unknown option, OutputError when `out` is taken.
    """
    # long because every option has a line of its own
    check_choice("precision", precision, PRECISIONS)
    check_choice("layers", layers, LAYERS)
    details = BundleDetails(
        precision=precision,
        name=name,
        licence=licence,
        clean=clean,
        training=training,
        scores=scores,
        matryoshka=matryoshka,
    )
    with _on_disk(source) as folder:
        chosen = kind or head_of(folder)
        if chosen == "static":
            from .static import export_table

            return export_table(folder, out, name=name, licence=licence)
        require_packages()
        if chosen != "encoder":
            check_choice("kind", chosen, ("encoder", "static", *_HEADS))
            _check_unused(chosen, pooling=pooling, normalize=normalize, layers=layers != "none")
            from . import heads  # here, because it imports torch

            own = {"kind": chosen} if chosen == "classifier" else {}
            export_head: Callable[..., Manifest] = getattr(heads, _HEADS[chosen])
            return export_head(
                folder, out, max_tokens=max_tokens, weights=weights, **details, **own
            )
        read = read_source(folder, pooling=pooling, normalize=normalize, max_tokens=max_tokens)
        if kind is not None:
            read = dataclasses.replace(read, bare=False)
        return _export_encoder(read, out, details, layers=layers, weights=weights)


def _export_encoder(
    source: ModelSource, out: str | Path, details: BundleDetails, *, layers: str, weights: bool
) -> Manifest:
    from .build import build  # here, because it imports torch

    with writing_folder(out) as folder:
        read = with_details(source, out, **details)
        built = build(read, folder, layers=layers == "all", weights=weights)
        size, count, sizes = built.dimension, built.layers, read.manifest.matryoshka
        if any(not 1 <= one <= size for one in sizes):
            raise OptionError(
                f"matryoshka is {', '.join(map(str, sizes))}; expected sizes from 1 to the "
                f"model's {size}. Name sizes it was trained for."
            )
        logger.debug(f"writing {out}")
        training = read.manifest.training | ({"int8": built.drift} if built.drift else {})
        made = dataclasses.replace(
            read.manifest, dimension=size, layers=count, training=training
        ).write(folder)
    total = sum(path.stat().st_size for path in Path(out).rglob("*") if path.is_file())
    logger.info(f"wrote {out}: {made.precision}, {size} dimensions, {total / 1e6:.1f} MB")
    return made


# The function of `heads` that exports a kind.
_HEADS = {
    "reranker": "export_reranker",
    "classifier": "export_reranker",
    "tagger": "export_token_classifier",
    "answerer": "export_question_answering",
}


def _check_unused(kind: str, **options: object) -> None:
    for name, value in options.items():
        if value:
            raise OptionError(f"{name} is set, and the model is a {kind}; expected an encoder.")


def require_packages() -> None:
    """Raise MissingExtra for the first package that an export needs and that is not here."""
    for package in _PACKAGES:
        require(package, extra="train", purpose="malmoi model export")


@contextlib.contextmanager
def _on_disk(source: "str | Path | SentenceTransformer") -> Iterator[str | Path]:
    """Give a folder for the model: its own, or one written for a model in memory."""
    if isinstance(source, (str, Path)):
        yield find_model(source, weights=True)
        return
    with tempfile.TemporaryDirectory(prefix="malmoi-export-") as folder:
        from .silence import silenced_libraries  # here, because it imports transformers

        with silenced_libraries():
            source.save_pretrained(folder, create_model_card=False)
        yield folder
