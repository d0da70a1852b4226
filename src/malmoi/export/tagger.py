"""An encoder with a linear layer over each piece's state, and its graph."""

import dataclasses
import json
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForTokenClassification, PreTrainedModel

from ..bundle.manifest import Manifest
from ..errors import BundleError
from ..runtime.tokenizer import TextTokenizer
from ..tagger.tagger import SETTINGS
from ..text.cleanup import check_steps
from .build import NOTICES, check_size, float_graph
from .graph import probes, run_graph, run_torch
from .int8 import calibration_batches, quantise
from .module import GraphModule, check_whole, load_transformer, set_dropout, use_fused_attention
from .silence import silenced_libraries
from .source import ModelSource, read_transformer
from .tokenizer import write_tokenizer

logger = logging.getLogger(__name__)


def load_token_classifier(
    source: ModelSource, labels: Sequence[str], *, dropout: float
) -> PreTrainedModel:
    """Load an encoder's weights below a new linear layer, with this dropout everywhere."""
    names = dict(enumerate(labels))
    check_whole(source)
    try:
        with silenced_libraries():
            model: Any = AutoModelForTokenClassification.from_pretrained(
                source.root,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                id2label=names,
                label2id={label: i for i, label in names.items()},
                ignore_mismatched_sizes=True,
            )
    except Exception as error:  # OSError, safetensors' own, or a RuntimeError for other shapes
        raise BundleError(
            f"the weights in {source.root} cannot be read ({type(error).__name__}); expected "
            "safetensors that fit config.json. Copy the whole folder again."
        ) from error
    use_fused_attention(model)
    set_dropout(model, dropout)
    loaded: PreTrainedModel = model
    return loaded


class TagModule(GraphModule):
    """What the graph computes: ids and masks in, logits (n, length, labels) out."""

    output = "logits"
    axes: ClassVar[dict[int, str]] = {0: "batch", 1: "length"}

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits."""
        return (self.transformer(**self.named(arrays), return_dict=True).logits,)


def write_settings(folder: Path, unit: str) -> None:
    """Write what a tagger must know beside its graph."""
    (folder / SETTINGS).write_text(json.dumps({"unit": unit}) + "\n", "utf-8")


def export_tagger(best: Path, folder: Path, manifest: Manifest, *, weights: bool) -> Manifest:
    """Write the bundle of a trained token classifier into an empty folder.

    `manifest` brings the name, the clean-up, the precision and what a person wants to know.
    """
    read = read_transformer(best, max_tokens=manifest.max_tokens)
    source = dataclasses.replace(read, manifest=manifest)
    transformer = load_transformer(source, AutoModelForTokenClassification)
    check_size(source, transformer)
    check_steps(manifest.clean)
    write_tokenizer(source, folder)
    with silenced_libraries():
        transformer.config.save_pretrained(folder)
        if weights:
            transformer.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # safetensors writes 0600; a model folder is read by others too
    for pattern in NOTICES:
        for file in best.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    shutil.copyfile(best / SETTINGS, folder / SETTINGS)
    module = TagModule(transformer, manifest.architecture).eval()
    _write_graph(source, module, folder)
    return manifest.write(folder)


def _write_graph(source: ModelSource, module: TagModule, folder: Path) -> None:
    tokens = TextTokenizer.from_file(
        folder / "tokenizer.json", max_tokens=source.manifest.max_tokens
    )
    batches = probes(tokens, source.manifest.vocabulary)
    expected = run_torch(module, batches)
    target = folder / source.manifest.graph
    target.parent.mkdir()
    with tempfile.TemporaryDirectory(prefix="malmoi-graph-") as scratch:
        logger.info("writing the graph")
        path = float_graph(module, Path(scratch), batches, expected)
        if source.manifest.precision == "int8":
            logger.info("rounding weights to 8 bits")
            small = path.with_name("int8.onnx")
            quantise(path, small, calibration_batches(tokens))
            found = run_graph(small, batches)
            if not all(np.isfinite(array).all() for batch in found for array in batch):
                raise BundleError(
                    "int8 makes scores of this model that are no numbers; expected numbers. "
                    'Export it with: --set output.precision=["float32"]'
                )
            path = small
        shutil.copyfile(path, target)
