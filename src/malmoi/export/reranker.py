"""A cross-encoder or a classifier → a bundle of kind "reranker" or "classifier".

What is exported is one of ours (train/objectives/cross_encoder.py), or any transformer with the
head of a sequence classifier, as sentence-transformers' CrossEncoder and transformers save them.
With its weights the bundle opens in sentence_transformers.CrossEncoder too.
"""

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Unpack

from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification

from ..bundle.manifest import Manifest
from ..bundle.sentence_transformers import MODULES, read_json, write_json
from ..bundle.transformers import check_exclusive
from ..errors import BundleError, counted
from ..io.files import writing_folder
from .build import load_and_write, make_readable, write_graph
from .module import GraphModule, SentenceModule
from .source import BundleDetails, ModelSource, read_reranker, with_details
from .tokenizer import load_tokenizer, reads_types

logger = logging.getLogger(__name__)

_LOGITS = "logits"


class ScoreModule(SentenceModule):
    """A transformer, [CLS] and the head's layers."""

    output = _LOGITS


class ClassifierModule(GraphModule):
    """A transformer with a head of its own."""

    output = _LOGITS

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits (n, labels)."""
        return (self.transformer(**self.named(arrays), return_dict=True).logits.float(),)


def export_reranker(
    source: str | Path,
    out: str | Path,
    *,
    kind: str = "reranker",
    max_tokens: int | None = None,
    weights: bool = True,
    layers: bool = False,
    **details: Unpack[BundleDetails],
) -> Manifest:
    """Write a sequence classifier's folder as a bundle at `out`, and give its manifest.

    `kind` is "reranker" for a model of pairs, and "classifier" for one of single texts, which has
    labels. The other options are those of `export`; `layers` needs a head with modules of its own.
    """
    with writing_folder(out) as partial:
        read = with_details(read_reranker(source, max_tokens=max_tokens), out, **details)
        read = dataclasses.replace(read, manifest=dataclasses.replace(read.manifest, kind=kind))
        if kind == "classifier":
            check_exclusive(read.root, read_json(read.root / "config.json"))
        loader = AutoModel if read.steps else AutoModelForSequenceClassification
        transformer = load_and_write(read, partial, loader, weights=weights)
        _copy_modules(read, partial)
        types = reads_types(load_tokenizer(read.root), transformer.config)
        module: GraphModule
        if read.steps:
            module = ScoreModule(read, transformer, layers=layers, types=types)
        else:
            module = ClassifierModule(transformer, types=types)
        built = write_graph(read, module, partial, pairs=kind == "reranker")
        outputs, expected = built.dimension, read.manifest.dimension
        if outputs != expected:
            raise BundleError(
                f"{read.root} gives {counted(outputs, 'score')} a pair and its config.json names "
                f"{expected} labels; expected the same. Name as many in id2label of config.json."
            )
        logger.debug(f"writing {out}")
        return dataclasses.replace(read.manifest, layers=built.layers).write(partial)


def _copy_modules(source: ModelSource, folder: Path) -> None:
    """Copy the modules around the transformer, which then stands in the folder itself."""
    settings = read_json(folder / "tokenizer_config.json", missing={})
    longest = {"model_max_length": source.manifest.max_tokens}
    write_json(folder / "tokenizer_config.json", settings | longest)
    for name in ("config_sentence_transformers.json", "sentence_bert_config.json"):
        if (source.root / name).is_file():
            shutil.copyfile(source.root / name, folder / name)
    if not (source.root / MODULES).is_file():
        return
    modules = read_json(source.root / MODULES)
    write_json(folder / MODULES, modules)
    for path in (str(module.get("path", "")) for module in modules):
        if path and (source.root / path).is_dir():
            shutil.copytree(source.root / path, folder / path)
    make_readable(folder)
