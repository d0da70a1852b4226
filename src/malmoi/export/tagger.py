"""A trained token classifier → the bundle of a tagger."""

import dataclasses
import shutil
from pathlib import Path
from typing import ClassVar

from torch import Tensor
from transformers import AutoModelForTokenClassification

from ..bundle.manifest import Manifest
from ..tagger.tagger import SETTINGS
from ..text.cleanup import check_steps
from .build import load_and_write, write_graph
from .module import GraphModule
from .source import read_transformer


class TagModule(GraphModule):
    """What the graph computes: ids and masks in, logits (n, length, labels) out."""

    output = "logits"
    axes: ClassVar[dict[int, str]] = {0: "batch", 1: "length"}

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits."""
        return (self.transformer(**self.named(arrays), return_dict=True).logits,)


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
