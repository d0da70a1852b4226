"""A token classifier, trained here or elsewhere → the bundle of a tagger."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor
from transformers import AutoModelForTokenClassification

from ..bundle.manifest import Manifest
from ..bundle.transformers import read_tags
from ..errors import check_choice
from ..heads.tagger import SETTINGS
from ..heads.windows import UNITS
from ..io.files import writing_folder
from ..text.cleanup import check_steps
from .build import load_and_write, write_graph
from .module import GraphModule
from .source import BundleDetails, read_transformer, with_details


class TagModule(GraphModule):
    """What the graph computes: ids and masks in, logits (n, length, labels) out.

    `order` gives the labels' places in the model, where a tagger wants another order.
    """

    output = "logits"
    axes: ClassVar[dict[int, str]] = {0: "batch", 1: "length"}

    def __init__(self, transformer: Any, order: Sequence[int] = ()) -> None:
        super().__init__(transformer)
        own = list(order) == list(range(len(order)))
        self.order = None if own else torch.tensor(order)

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits."""
        logits = self.transformer(**self.named(arrays), return_dict=True).logits.float()
        return (logits if self.order is None else logits.index_select(2, self.order),)


def export_tagger(best: Path, folder: Path, manifest: Manifest, *, weights: bool) -> Manifest:
    """Write the bundle of a trained token classifier into an empty folder.

    `manifest` brings the name, the clean-up, the precision and what a person wants to know.
    """
    read = read_transformer(best, max_tokens=manifest.max_tokens)
    source = dataclasses.replace(read, manifest=manifest)
    check_steps(manifest.clean)
    transformer = load_and_write(source, folder, AutoModelForTokenClassification, weights=weights)
    shutil.copyfile(best / SETTINGS, folder / SETTINGS)
    write_graph(source, TagModule(transformer), folder, kernels=False)
    return manifest.write(folder)


def export_token_classifier(
    source: str | Path,
    out: str | Path,
    *,
    unit: str = "word",
    max_tokens: int | None = None,
    weights: bool = True,
    **details: Unpack[BundleDetails],
) -> Manifest:
    """Write a token classifier's folder of transformers as a tagger's bundle at `out`.

    `unit` is what has a label: a "word", which has that of its first token, as transformers' own
    training does it, or every "piece". The other options are those of `export`.
    """
    check_choice("unit", unit, UNITS)
    with writing_folder(out) as partial:
        read = with_details(read_transformer(source, max_tokens=max_tokens), out, **details)
        order, labels = read_tags(read.root / "config.json")
        manifest = dataclasses.replace(
            read.manifest,
            kind="tagger",
            labels=labels,
            dimension=len(labels),
            activation="softmax",
            normalize=False,
        )
        read = dataclasses.replace(read, manifest=manifest)
        transformer = load_and_write(
            read, partial, AutoModelForTokenClassification, weights=weights
        )
        (partial / SETTINGS).write_text(json.dumps({"unit": unit}) + "\n", "utf-8")
        write_graph(read, TagModule(transformer, order), partial, kernels=False)
        return manifest.write(partial)
