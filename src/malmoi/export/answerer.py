"""A question answerer, trained here or elsewhere → its bundle."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor
from transformers import AutoModelForQuestionAnswering

from ..bundle.manifest import Manifest
from ..heads.answerer import OUTPUTS, SETTINGS, AnswerSettings
from ..io.files import writing_folder
from ..io.fingerprint import write_json
from ..text.cleanup import check_steps
from .build import load_and_write, write_graph
from .module import WITH_TYPES, GraphModule
from .source import BundleDetails, read_transformer, with_details


class AnswerModule(GraphModule):
    """What the graph computes: ids and masks in, logits (n, length, 2) of start and end out."""

    output = "logits"
    axes: ClassVar[dict[int, str]] = {0: "batch", 1: "length"}

    def __init__(self, transformer: Any) -> None:
        config = transformer.config
        rows = getattr(config, "type_vocab_size", None) or 0
        super().__init__(transformer, types=config.model_type in WITH_TYPES and rows > 1)

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into logits."""
        found = self.transformer(**self.named(arrays), return_dict=True)
        return (torch.stack([found.start_logits, found.end_logits], dim=-1).float(),)


def export_answerer(
    best: Path, folder: Path, manifest: Manifest, settings: AnswerSettings, *, weights: bool
) -> Manifest:
    """Write the bundle of a trained answerer into an empty folder.

    `manifest` brings the name, the clean-up, the precision and what a person wants to know.
    """
    read = read_transformer(best, max_tokens=manifest.max_tokens)
    source = dataclasses.replace(read, manifest=manifest)
    check_steps(manifest.clean)
    transformer = load_and_write(source, folder, AutoModelForQuestionAnswering, weights=weights)
    write_settings(folder, settings)
    write_graph(source, AnswerModule(transformer), folder, pairs=True, kernels=False)
    return manifest.write(folder)


def export_question_answering(
    source: str | Path,
    out: str | Path,
    *,
    max_tokens: int | None = None,
    weights: bool = True,
    **details: Unpack[BundleDetails],
) -> Manifest:
    """Write a question answering model's folder of transformers as an answerer's bundle at `out`.

    It always gives an answer: a threshold is found by training (docs/answers.md). The options are
    those of `export`.
    """
    with writing_folder(out) as partial:
        read = with_details(read_transformer(source, max_tokens=max_tokens), out, **details)
        manifest = dataclasses.replace(
            read.manifest,
            kind="answerer",
            dimension=len(OUTPUTS),
            labels=OUTPUTS,
            normalize=False,
        )
        return export_answerer(Path(source), partial, manifest, AnswerSettings(), weights=weights)


def write_settings(folder: Path, settings: AnswerSettings) -> None:
    """Write how a bundle reads next to its graph."""
    write_json(folder / SETTINGS, dataclasses.asdict(settings))
