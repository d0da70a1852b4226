"""Rerankers, taggers and answerers: a head over an encoder → a graph → a bundle."""

import dataclasses
import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from ..bundle.manifest import Manifest
from ..bundle.sentence_transformers import MODULES, read_json, write_json
from ..bundle.transformers import check_exclusive, read_tags
from ..errors import BundleError, check_choice, counted
from ..heads.answerer import OUTPUTS, AnswerSettings
from ..heads.answerer import SETTINGS as ANSWERER_SETTINGS
from ..heads.tagger import SETTINGS as TAGGER_SETTINGS
from ..heads.windows import UNITS
from ..io.files import writing_folder
from ..io.fingerprint import write_json as write_stamp
from ..text.cleanup import check_steps
from .build import load_and_write, make_readable, write_graph
from .module import WITH_TYPES, GraphModule, SentenceModule
from .source import BundleDetails, ModelSource, read_reranker, read_transformer, with_details
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
    **details: Unpack[BundleDetails],
) -> Manifest:
    """Write a sequence classifier's folder as a bundle at `out`, and give its manifest.

    `kind` is "reranker" for a model of pairs, and "classifier" for one of single texts, which has
    labels. The other options are those of `export`.
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
            module = ScoreModule(read, transformer, layers=False, types=types)
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
        return read.manifest.write(partial)


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


def export_tagger(
    best: Path,
    folder: Path,
    manifest: Manifest,
    *,
    unit: str,
    weights: bool,
    order: Sequence[int] = (),
) -> Manifest:
    """Write the bundle of a token classifier into an empty folder.

    `manifest` brings the name, the clean-up, the precision and what a person wants to know;
    `order` is that of `TagModule`.
    """
    read = read_transformer(best, max_tokens=manifest.max_tokens)
    source = dataclasses.replace(read, manifest=manifest)
    check_steps(manifest.clean)
    transformer = load_and_write(source, folder, AutoModelForTokenClassification, weights=weights)
    (folder / TAGGER_SETTINGS).write_text(json.dumps({"unit": unit}) + "\n", "utf-8")
    write_graph(source, TagModule(transformer, order), folder, kernels=False)
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
        return export_tagger(read.root, partial, manifest, unit=unit, weights=weights, order=order)


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
    write_stamp(folder / ANSWERER_SETTINGS, dataclasses.asdict(settings))
