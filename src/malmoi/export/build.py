"""A described model → the files of its bundle, all but the manifest."""

import logging
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from ..bundle import sentence_transformers as foreign
from ..bundle.sentence_transformers import DenseSpec
from ..errors import BundleError
from ..runtime.tokenizer import Batch, TextTokenizer
from .graph import Arrays, agree, fuse, probes, rounding, run_graph, run_torch, trace
from .int8 import calibration_batches, quantise
from .module import GraphModule, SentenceModule, load_transformer
from .rewrite_float import choose_kernels
from .silence import silenced_libraries
from .source import ModelSource
from .tokenizer import write_tokenizer

logger = logging.getLogger(__name__)

NOTICES = ("LICENSE*", "LICENCE*", "NOTICE*")
# A file of protocol buffers, which ONNX is, ends at 2 GiB.
_LARGEST = 2**31 - 2**22
# int8 may move a vector by this share of the distance between two sentences, not more. Sound
# models stay near a tenth; a graph whose scales are mixed up is beyond one.
_ROUNDING = 0.5


@dataclass(frozen=True)
class Built:
    """What is known of a model only after it has run."""

    dimension: int
    layers: int


def build(source: ModelSource, folder: Path, *, layers: bool, weights: bool) -> Built:
    """Write tokenizer, layout, weights and graph into an empty folder."""
    logger.info(f"reading {source.manifest.architecture} from {source.root}")
    transformer = load_transformer(source)
    check_size(source, transformer)
    write_tokenizer(source, folder)
    write_layout(source, folder, transformer.config.hidden_size)
    with silenced_libraries():
        transformer.config.save_pretrained(folder)
        if weights:
            transformer.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # safetensors writes 0600; a model folder is read by others too
    if hasattr(transformer, "pooler"):
        # No pooling of ours reads it.
        transformer.pooler = None  # type: ignore[assignment]
    module = SentenceModule(source, transformer, layers=layers).eval()
    # Without torch weights, training can only start from the graph's: they stay as they are.
    return _write_graph(source, module, folder, fold=weights)


def check_size(source: ModelSource, transformer: PreTrainedModel) -> None:
    size = sum(parameter.numel() for parameter in transformer.parameters()) * 4
    if size > _LARGEST:
        raise BundleError(
            f"the weights in {source.root} take {size / 2**30:.1f} GiB in float32; expected less "
            "than 2, the most that one ONNX file holds. Choose a smaller model, or distil it."
        )


def write_layout(source: ModelSource, folder: Path, hidden: int) -> None:
    """Write the small files of a sentence-transformers folder, its Dense modules and notices."""
    names = ["dense" if isinstance(step, DenseSpec) else step for step in source.steps]
    manifest = source.manifest
    places = foreign.write_layout(
        folder,
        pooling=manifest.pooling,
        hidden=hidden,
        max_tokens=manifest.max_tokens,
        steps=names,
        prompts=manifest.prompts,
        default_prompt=manifest.default_prompt,
        lower=source.lower,
    )
    for step, place in zip(source.steps, places, strict=True):
        if isinstance(step, DenseSpec):
            for name in ("config.json", "model.safetensors"):
                shutil.copyfile(step.weights.parent / name, place / name)
    for pattern in NOTICES:
        for file in source.root.glob(pattern):
            shutil.copyfile(file, folder / file.name)


def _write_graph(source: ModelSource, module: SentenceModule, folder: Path, *, fold: bool) -> Built:
    """Trace, fuse and quantise in a folder apart; only a graph that was checked leaves it."""
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
            path = _small_graph(path, tokens, batches, expected)
        else:
            path = quickest(path, batches, expected, fold=fold)
        shutil.copyfile(path, target)
    vectors = expected[0][0]  # (n, dim)
    return Built(dimension=vectors.shape[1], layers=len(expected[0]) - 1)


def float_graph(
    module: GraphModule, scratch: Path, batches: list[Batch], expected: list[Arrays]
) -> Path:
    """Trace and fuse; the plain graph is kept where the fused one is not the same."""
    plain, fused = scratch / "plain.onnx", scratch / "fused.onnx"
    trace(module, plain)
    if not _computes(plain, batches, expected):
        raise BundleError(
            "the ONNX graph gives other vectors than the torch model; expected the same. "
            "This model cannot be exported with the torch and onnxruntime installed here."
        )
    if _fused(module, plain, fused) and _computes(fused, batches, expected):
        return fused
    logger.info("the fused graph differs from torch; keeping the plain one, which is slower")
    return plain


def quickest(
    path: Path, batches: list[Batch], expected: list[Arrays], *, fold: bool = True
) -> Path:
    """Give the float32 graph in faster kernels, or as it is where they do not compute the same."""
    chosen = path.with_name("chosen.onnx")
    choose_kernels(path, chosen, fold=fold)
    return chosen if _computes(chosen, batches, expected) else path


def _fused(module: GraphModule, plain: Path, fused: Path) -> bool:
    config = module.transformer.config
    try:
        fuse(plain, fused, heads=config.num_attention_heads, hidden=config.hidden_size)
    except Exception:  # the fuser meets a shape it does not know in many ways; speed is all we lose
        return False
    return True


def _computes(path: Path, batches: list[Batch], expected: list[Arrays]) -> bool:
    try:
        found = run_graph(path, batches)
    except BundleError:  # it cannot be opened, or fails on a batch
        return False
    return agree(found, expected, batches)


def _small_graph(
    path: Path, tokens: TextTokenizer, batches: list[Batch], expected: list[Arrays]
) -> Path:
    small = path.with_name("int8.onnx")
    quantise(path, small, calibration_batches(tokens))
    moved = rounding(run_graph(small, batches), expected)
    if moved > _ROUNDING:
        raise BundleError(
            f"int8 moves this model's vectors by {moved:.2f} of the distance between two "
            f"sentences; expected at most {_ROUNDING}. Export it with: --precision float32"
        )
    return small
