"""A tagger: an encoder with a linear layer over each token, loaded for training and exported."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor
from transformers import AutoModelForTokenClassification, PreTrainedModel

from ..bundle.manifest import Manifest
from ..tagger.tagger import SETTINGS
from ..text.cleanup import check_steps
from .build import load_and_write, write_graph
from .module import GraphModule, check_whole, from_pretrained, set_dropout, use_fused_attention
from .source import ModelSource, read_transformer


def load_token_classifier(
    source: ModelSource, labels: Sequence[str], *, dropout: float
) -> PreTrainedModel:
    """Load an encoder's weights below a new linear layer, with this dropout everywhere."""
    names = dict(enumerate(labels))
    check_whole(source)
    model: PreTrainedModel = from_pretrained(
        source,
        AutoModelForTokenClassification,
        id2label=names,
        label2id={label: i for i, label in names.items()},
        ignore_mismatched_sizes=True,
    )
    use_fused_attention(model)
    set_dropout(model, dropout)
    return model


class TagModule(GraphModule):
    """What the graph computes: ids and masks in, logits (n, length, labels) out."""

    output = "logits"
    axes: ClassVar[dict[int, str]] = {0: "batch", 1: "length"}

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits."""
        return (self.transformer(**self.named(arrays), return_dict=True).logits,)


def write_settings(folder: Path, unit: str) -> None:
    """Write what a tagger must know besides its graph."""
    (folder / SETTINGS).write_text(json.dumps({"unit": unit}) + "\n", "utf-8")


def export_tagger(best: Path, folder: Path, manifest: Manifest, *, weights: bool) -> Manifest:
    """Write the bundle of a trained token classifier into an empty folder.

    `manifest` brings the name, the clean-up, the precision and what a person wants to know.
    """
    read = read_transformer(best, max_tokens=manifest.max_tokens)
    source = dataclasses.replace(read, manifest=manifest)
    check_steps(manifest.clean)
    transformer = load_and_write(source, folder, AutoModelForTokenClassification, weights=weights)
    shutil.copyfile(best / SETTINGS, folder / SETTINGS)
    write_graph(source, TagModule(transformer, manifest.architecture), folder, kernels=False)
    return manifest.write(folder)
