"""A cross-encoder → a bundle of kind "reranker" that needs no torch.

What is exported is one of ours (see cross.py), or any transformer with a sequence classifier's
head, as sentence-transformers' CrossEncoder and transformers save them. With its weights the
bundle opens in sentence_transformers.CrossEncoder too.
"""

import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from ..bundle.manifest import Manifest
from ..bundle.sentence_transformers import MODULES, read_json, write_json
from ..errors import BundleError, counted
from ..io.files import writing_folder
from ..runtime.tokenizer import Batch, PairTokenizer, TextTokenizer, TokenizedText
from ..text.cleanup import check_steps
from .build import NOTICES, check_size, float_graph, quickest
from .graph import SAMPLES, Arrays, run_graph, run_torch
from .int8 import calibration_texts, quantise
from .module import GraphModule, SentenceModule, load_transformer
from .silence import silenced_libraries
from .source import ModelSource, read_reranker
from .tokenizer import load_tokenizer, reads_types, write_tokenizer

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
        return (self.transformer(**self.named(arrays), return_dict=True).logits,)


def export_reranker(
    source: str | Path,
    out: str | Path,
    *,
    precision: str = "float32",
    name: str | None = None,
    licence: str = "",
    max_tokens: int | None = None,
    weights: bool = True,
    clean: tuple[str, ...] | None = None,
    training: dict[str, Any] | None = None,
    scores: dict[str, Any] | None = None,
    layers: bool = False,
) -> Manifest:
    """Write a cross-encoder's folder as a bundle at `out`, and give its manifest.

    `malmoi.train.export.export` calls this for a folder that holds a cross-encoder; the options
    are those of it. `weights=False` leaves the torch weights out, and with them training on.
    `layers` keeps every hidden state as an output, for a head with modules of its own.
    """
    with writing_folder(out) as half:
        read = read_reranker(source, max_tokens=max_tokens)
        manifest = dataclasses.replace(
            read.manifest,
            name=name or Path(out).name,
            licence=licence or read.manifest.licence,
            clean=check_steps(clean) if clean is not None else read.manifest.clean,
            training=training or read.manifest.training,
            scores=scores or {},
            precision=precision,
        )
        described = dataclasses.replace(read, manifest=manifest)
        kept = _build(described, half, weights=weights, layers=layers)
        manifest = dataclasses.replace(manifest, layers=kept)
        logger.debug(f"writing {out}")
        return manifest.write(half)


def _build(source: ModelSource, folder: Path, *, weights: bool, layers: bool) -> int:
    """Write everything but the manifest; gives the number of hidden states in the graph."""
    logger.info(f"reading {source.manifest.architecture} from {source.root}")
    loader = AutoModel if source.steps else AutoModelForSequenceClassification
    transformer = load_transformer(source, loader)
    check_size(source, transformer)
    write_tokenizer(source, folder)
    _write_layout(source, folder)
    _write_weights(transformer, folder, weights=weights)
    types = reads_types(load_tokenizer(source.root), transformer.config)
    module: GraphModule
    if source.steps:
        module = ScoreModule(source, transformer, layers=layers, types=types).eval()
    else:
        module = ClassifierModule(transformer, source.manifest.architecture, types=types).eval()
    return _write_graph(source, module, folder)


def _write_layout(source: ModelSource, folder: Path) -> None:
    """Copy the modules around the transformer, which then stands in the folder itself."""
    settings = read_json(folder / "tokenizer_config.json", missing={})
    longest = {"model_max_length": source.manifest.max_tokens}
    write_json(folder / "tokenizer_config.json", settings | longest)
    for pattern in ("config_sentence_transformers.json", "sentence_bert_config.json", *NOTICES):
        for file in source.root.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    if not (source.root / MODULES).is_file():
        return
    modules = read_json(source.root / MODULES)
    write_json(folder / MODULES, modules)
    for place in (str(module.get("path", "")) for module in modules):
        if place and (source.root / place).is_dir():
            shutil.copytree(source.root / place, folder / place)


def _write_weights(transformer: PreTrainedModel, folder: Path, *, weights: bool) -> None:
    with silenced_libraries():
        transformer.config.save_pretrained(folder)
        if weights:
            transformer.save_pretrained(folder)
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o644)  # safetensors writes 0600; a model folder is read by others too


def _write_graph(source: ModelSource, module: GraphModule, folder: Path) -> int:
    tokens = TextTokenizer.from_file(
        folder / "tokenizer.json", max_tokens=source.manifest.max_tokens
    )
    batches = _probes(tokens, source.manifest.vocabulary)
    expected = run_torch(module, batches)
    _check_outputs(source, expected[0][0].shape[1])
    target = folder / source.manifest.graph
    target.parent.mkdir()
    with tempfile.TemporaryDirectory(prefix="malmoi-graph-") as scratch:
        logger.info("writing the graph")
        path = float_graph(module, Path(scratch), batches, expected)
        if source.manifest.precision == "int8":
            logger.info("rounding weights to 8 bits")
            path = _small_graph(path, tokens, batches, expected)
        else:
            path = quickest(path, batches, expected)
        shutil.copyfile(path, target)
    return len(expected[0]) - 1


def _neighbours(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each text with the next, and the last with the first."""
    return list(zip(texts, [*texts[1:], texts[0]], strict=True))


def _probes(tokens: TextTokenizer, vocabulary: int) -> list[Batch]:
    """Make batches of pairs: real words with padding, one alone, random ids with both segments."""
    pieces, _ = PairTokenizer(tokens).encode(_neighbours(SAMPLES))
    words = next(tokens.batches(pieces, budget=1 << 30))
    random = np.random.default_rng(0)
    types = sorted({kind for piece in pieces for kind in piece.types or ()})
    rows = []
    for i, length in enumerate((min(tokens.max_tokens, 64), 9, 3)):
        ids = random.integers(0, vocabulary, length).tolist()
        rows.append(TokenizedText(i, ids, random.choice(types, length).tolist()))
    return [words, next(tokens.batches(pieces[-1:])), next(tokens.batches(rows, budget=1 << 30))]


def _check_outputs(source: ModelSource, outputs: int) -> None:
    expected = source.manifest.dimension
    if outputs != expected:
        raise BundleError(
            f"{source.root} gives {counted(outputs, 'score')} a pair and its config.json names "
            f"{expected} labels; expected the same. Correct id2label in config.json."
        )


def _small_graph(
    path: Path, tokens: TextTokenizer, batches: list[Batch], expected: list[Arrays]
) -> Path:
    """Round the weights, and tell by how much that moves scores; it must not break them."""
    small = path.with_name("int8.onnx")
    pieces, _ = PairTokenizer(tokens).encode(_neighbours(calibration_texts()))
    quantise(path, small, list(tokens.batches(pieces)))
    found = run_graph(small, batches)[0][0]
    moved = float(np.abs(found - expected[0][0]).max())
    if not np.isfinite(moved):
        raise BundleError(
            "int8 makes scores of this model that are no numbers; expected numbers. "
            "Export it with: --precision float32"
        )
    spread = float(np.ptp(expected[0][0]))
    logger.info(
        f"8 bits move a raw score by {moved:.3f} at most; the samples' range is {spread:.3f}"
    )
    return small
