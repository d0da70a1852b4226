"""A described model → the files of its bundle, all but the manifest.

Encoders, rerankers, taggers and classifiers share everything here but their module: weights,
notices, and one function that traces, fuses, rewrites and checks the graph.
"""

import contextlib
import ctypes
import dataclasses
import gc
import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModel, PreTrainedModel

from ..bundle import sentence_transformers as foreign
from ..bundle.sentence_transformers import DenseSpec
from ..errors import BundleError
from ..io.arrays import count_values
from ..runtime.pooling import normalize
from ..runtime.session import Session, asked_device, free_memory
from ..runtime.tokenizer import Batch, TextTokenizer
from ..types import Ints
from .constants import load_graph, write_graph_file
from .graph import (
    APART,
    HALF_APART,
    Arrays,
    difference,
    fuse,
    least_cosine,
    probes,
    rounding,
    run_graph,
    run_torch,
    trace,
)
from .int8 import calibration_batches, quantise
from .module import TOKEN_HEAD, GraphModule, SentenceModule, halve, load_transformer
from .rewrite_float import rewrite_float
from .silence import silenced_libraries
from .source import ModelSource
from .tokenizer import write_tokenizer

logger = logging.getLogger(__name__)

_NOTICES = ("LICENSE*", "LICENCE*", "NOTICE*")
# int8 may move a vector by this share of the distance between two sentences, not more. Sound
# models stay near a tenth; a graph whose scales are mixed up is beyond one.
_ROUNDING = 0.5
# The least cosine of a vector in float16 to itself in float32; sound models are above 0.99999.
_HALF_COSINE = 0.999
# An export takes this many times its weights in float32, and what the libraries themselves do.
_MEMORY = 2.2
_LIBRARIES = 600_000_000


@dataclass(frozen=True)
class Built:
    """What is known of a model only after it has run: its outputs' size, its hidden states."""

    dimension: int
    layers: int
    drift: dict[str, float] = field(default_factory=dict)  # of an encoder in 8 bits


def build(source: ModelSource, folder: Path, *, layers: bool, weights: bool) -> Built:
    """Write an encoder's tokenizer, layout, weights and graph into an empty folder."""
    transformer = load_and_write(source, folder, weights=weights, whole=source.bare)
    write_layout(source, folder, transformer.config.hidden_size)
    if hasattr(transformer, "pooler"):
        # No pooling of ours reads it.
        transformer.pooler = None  # type: ignore[assignment]
    if (source.root / TOKEN_HEAD).is_file():  # kept, so that the bundle can be exported again
        (folder / TOKEN_HEAD).parent.mkdir()
        shutil.copyfile(source.root / TOKEN_HEAD, folder / TOKEN_HEAD)
    unpooled = bool(source.manifest.unpooled)
    module = SentenceModule(source, transformer, layers=layers, unpooled=unpooled)
    return write_graph(source, module, folder)


def load_and_write(
    source: ModelSource,
    folder: Path,
    loader: Any = AutoModel,
    *,
    weights: bool,
    whole: bool = False,
) -> PreTrainedModel:
    """Load the transformer; write its tokenizer, configuration and, if asked for, its weights.

    `whole` is that of `load_transformer`.
    """
    logger.info(f"reading {source.manifest.architecture} from {source.root}")
    _check_memory(source)
    write_tokenizer(source, folder)
    transformer = load_transformer(source, loader, whole=whole)
    with silenced_libraries():
        transformer.config.save_pretrained(folder)
        if weights:
            transformer.save_pretrained(folder)
    make_readable(folder)
    _copy_notices(source, folder)
    return transformer


def _check_memory(source: ModelSource) -> None:
    """Raise a BundleError where an export would need more memory than there is."""
    values = sum(count_values(file) for file in source.root.glob("*.safetensors"))
    needed, free = int(_MEMORY * values * 4) + _LIBRARIES, free_memory()
    if free is not None and needed > free:
        raise BundleError(
            f"exporting {source.root} takes about {needed / 1e9:.1f} GB of memory "
            f"({values / 1e6:,.0f} million values), and {free / 1e9:.1f} GB are free; expected "
            "enough. Export it on a larger machine: the bundle runs here in less."
        )


def make_readable(folder: Path) -> None:
    """Let others read the weights: safetensors writes them as 0600."""
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o644)


def _copy_notices(source: ModelSource, folder: Path) -> None:
    for pattern in _NOTICES:
        for file in source.root.glob(pattern):
            shutil.copyfile(file, folder / file.name)


def write_layout(source: ModelSource, folder: Path, hidden: int) -> None:
    """Write the small files of a sentence-transformers folder, its Dense modules and notices."""
    names = ["dense" if isinstance(step, DenseSpec) else step for step in source.steps]
    manifest = source.manifest
    folders = foreign.write_layout(
        folder,
        pooling=manifest.pooling,
        hidden=hidden,
        max_tokens=manifest.max_tokens,
        steps=names,
        prompts=manifest.prompts,
        default_prompt=manifest.default_prompt,
        lower=source.lower,
        pool_prompts=not manifest.unpooled,
    )
    for step, inner in zip(source.steps, folders, strict=True):
        if isinstance(step, DenseSpec):
            for name in ("config.json", "model.safetensors"):
                shutil.copyfile(step.weights.parent / name, inner / name)
    _copy_notices(source, folder)


def write_graph(
    source: ModelSource,
    module: GraphModule,
    folder: Path,
    *,
    pairs: bool = False,
    kernels: bool = True,
) -> Built:
    """Write a model's graph: traced and fused, then quantised to int8 or rewritten in float32.

    A graph in float16 keeps the fused kernels, which are those that GPUs run fastest.

    All is done in a folder apart, and only a graph that computes the same as torch leaves it.

    pairs: the model reads two texts at once; it is tried and calibrated on pairs.
    kernels: write float32 graphs in the kernels that a processor runs fastest, unless the device
        asked for is another: OpenVINO knows the fused kernels, and not these.
    """
    module.eval()
    tokens = TextTokenizer.from_file(
        folder / "tokenizer.json", max_tokens=source.manifest.max_tokens
    )
    window = int(getattr(module.transformer.config, "sliding_window", None) or 0)
    batches = probes(tokens, source.manifest.vocabulary, pairs=pairs, window=window)
    if source.manifest.unpooled:
        batches = [dataclasses.replace(batch, pooled=_without_first(batch)) for batch in batches]
    try:
        expected = run_torch(module, batches)
    except RuntimeError as error:  # a Dense module of another width, for one
        said = (str(error).splitlines() or [""])[0][:200]
        raise BundleError(
            f"the modules of {source.root} do not run one after another ({said}); expected modules "
            "whose sizes fit. Correct their configurations, or copy the whole folder again."
        ) from error
    target = folder / source.manifest.graph
    target.parent.mkdir()
    precision = source.manifest.precision
    drift: dict[str, float] = {}
    if precision == "float16":
        halve(module)
    # In the folder itself: it may take twice as much as the weights, and /tmp may be in memory.
    with tempfile.TemporaryDirectory(prefix="malmoi-graph-", dir=folder) as scratch:
        logger.info("writing the graph")
        apart = HALF_APART if precision == "float16" else APART
        path = _float_graph(module, Path(scratch), batches, expected, apart)
        if precision == "int8":
            logger.info("rounding weights to 8 bits")
            small = path.with_name("int8.onnx")
            calibration = calibration_batches(tokens, pairs=pairs)
            quantise(path, small, calibration)
            _check_int8(module, run_graph(small, batches), expected)
            if module.output == SentenceModule.output:
                drift = measure_drift(path, small, calibration)
            path = small
        elif kernels and precision == "float32" and asked_device() == "cpu":
            chosen = path.with_name("chosen.onnx")
            rewrite_float(path, chosen)
            path = chosen if _apart(chosen, batches, expected) <= APART else path
        if precision == "float16":
            _check_float16(module, run_graph(path, batches), expected, batches)
        write_graph_file(load_graph(path), path.parent, target)
    return Built(expected[0][0].shape[-1], len(expected[0]) - 1 - len(module.extras), drift)


_LEAST_MEAN = 0.98  # below this mean cosine 8 bits are warned about


def measure_drift(exact: Path, rounded: Path, batches: Sequence[Batch]) -> dict[str, float]:
    """Give the mean and the least cosine of vectors in 8 bits to those in float32, and log it."""
    sessions = [Session(path, device="cpu") for path in (exact, rounded)]
    found = []
    for batch in batches:
        one, other = (session.run(batch, [SentenceModule.output])[0] for session in sessions)
        found.append((normalize(one) * normalize(other)).sum(axis=1))
    cosines = np.concatenate(found)
    mean, least = float(cosines.mean()), float(cosines.min())
    said = (
        f"8 bits: mean cosine to float32 {mean:.4f}, least {least:.4f}, on {len(cosines):,} texts"
    )
    if mean < _LEAST_MEAN:
        logger.warning(f"{said}; expected {_LEAST_MEAN} or more. Use --precision float32")
    else:
        logger.info(said)
    return {"mean_cosine": round(mean, 4), "least_cosine": round(least, 4)}


def _without_first(batch: Batch) -> Ints:
    """A mask that leaves out the first tokens of longer texts, as if they were a prompt."""
    mask = batch.mask.copy()
    mask[mask.sum(axis=1) > 4, :3] = 0
    return mask


def _float_graph(
    module: GraphModule,
    scratch: Path,
    batches: list[Batch],
    expected: list[Arrays],
    most: float,
) -> Path:
    """Trace and fuse; the plain graph is kept if the fused one does not compute the same.

    `most` is by how much outputs may differ from what torch gives in float32.
    """
    plain, fused = scratch / "plain.onnx", scratch / "fused.onnx"
    config = module.transformer.config
    try:
        trace(module, plain)
    except Exception as error:  # the tracer meets what it cannot write in many ways
        said = (str(error).strip().splitlines() or [""])[0][:200]
        raise BundleError(
            f"{config.model_type} cannot be written as an ONNX graph ({type(error).__name__}: "
            f"{said}); expected a model that torch can trace. Try other versions of torch and "
            "transformers, or use an ONNX graph of the model's own."
        ) from error
    module.to("meta")  # the weights are on disk now, and in memory no more
    _give_back()
    apart = _apart(plain, batches, expected)
    if apart > most:
        remedy = (
            f"{config.model_type} cannot be exported with the torch and onnxruntime installed here."
            if most == APART
            else "Its values may be too large for float16: export it with --precision float32."
        )
        raise BundleError(
            f"the ONNX graph gives other outputs than the torch model: they differ by {apart:.2g} "
            f"of the largest value; expected at most {most}. {remedy}"
        )
    if _fuses(module, plain, fused) and _apart(fused, batches, expected) <= most:
        return fused
    logger.info("the fused graph differs from torch; keeping the plain one, which is slower")
    return plain


def _give_back() -> None:
    """Let the system have the memory that was freed: glibc keeps blocks of a few megabytes."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another system, another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _fuses(module: GraphModule, plain: Path, fused: Path) -> bool:
    config = module.transformer.config
    heads, hidden = (getattr(config, name, 0) for name in ("num_attention_heads", "hidden_size"))
    try:
        fuse(plain, fused, heads=heads, hidden=hidden)
    except Exception:  # the fuser meets a shape it does not know in many ways; speed is all we lose
        return False
    return True


def _apart(path: Path, batches: list[Batch], expected: list[Arrays]) -> float:
    try:
        found = run_graph(path, batches)
    except BundleError:  # it cannot be opened, or fails on a batch
        return float("inf")
    return difference(found, expected, batches)


def _check_float16(
    module: GraphModule, found: list[Arrays], expected: list[Arrays], batches: list[Batch]
) -> None:
    """Raise a BundleError where float16 turns a sentence vector."""
    if module.output != SentenceModule.output:
        return
    cosine = least_cosine(found, expected, batches)
    if cosine < _HALF_COSINE:
        raise BundleError(
            f"float16 leaves this model's vectors a cosine of {cosine:.4f} to those of float32; "
            f"expected at least {_HALF_COSINE}. Export it with --precision float32."
        )


def _check_int8(module: GraphModule, found: list[Arrays], expected: list[Arrays]) -> None:
    """Raise a BundleError for a graph that 8 bits have spoilt; log by how much scores move."""
    remedy = 'Export it with --precision float32 (in a recipe: output.precision = ["float32"]).'
    if not all(np.isfinite(array).all() for batch in found for array in batch):
        raise BundleError(
            f"int8 makes outputs of this model that are no numbers; expected numbers. {remedy}"
        )
    if isinstance(module, SentenceModule) and module.output == SentenceModule.output:
        moved = rounding(found, expected)
        if moved > _ROUNDING:
            raise BundleError(
                f"int8 moves this model's vectors by {moved:.2f} of the distance between two "
                f"sentences; expected at most {_ROUNDING}. {remedy}"
            )
        return
    moved, spread = np.abs(found[0][0] - expected[0][0]).max(), np.ptp(expected[0][0])
    logger.info(
        f"8 bits move a raw score by {moved:.3f} at most; the samples' range is {spread:.3f}"
    )
