"""Describes a model folder that is to be exported or trained: an encoder or a cross-encoder.

Torch is not needed to read it. Nothing in the folder is run and nothing is unpickled: weights must
be safetensors.
"""

import atexit
import dataclasses
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ..bundle import sentence_transformers as foreign
from ..bundle.manifest import MANIFEST, POOLER, POOLINGS, Manifest
from ..bundle.sentence_transformers import DenseSpec, read_json
from ..bundle.transformers import find_kind, is_language_model, read_activation, read_labels
from ..errors import BundleError, BundleNotFound, OptionError
from ..io.arrays import read_safetensors, tensor_names, write_safetensors
from ..text.cleanup import check_steps

GRAPH = "onnx/model.onnx"
_POOLER = ("pooler.dense.", "pooler.")  # ALBERT has no name between
_TANH = "torch.nn.modules.activation.Tanh"
_LAYER = re.compile(r"(?:^|\.)(?:layer|layers|h)\.(\d+)\.")

Step = str | DenseSpec


@dataclass(frozen=True)
class ModelSource:
    """A sentence encoder on disk.

    `root` holds the transformer and its tokenizer; `steps` are what follows its token states:
    "pool", "normalize" or a DenseSpec. The manifest's dimension is not known before a run.
    `layers` above 0 loads only so many of its layers, counted from the embeddings up. `bare` is a
    transformer's folder with nothing around it.
    """

    root: Path
    manifest: Manifest
    steps: tuple[Step, ...]
    layers: int = 0
    bare: bool = False

    @property
    def lower(self) -> bool:
        """Whether text is lower-cased before the tokenizer sees it."""
        return "lower" in self.manifest.clean


def read_source(
    path: str | Path,
    *,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_tokens: int | None = None,
) -> ModelSource:
    """Describe a sentence-transformers folder, or a transformer's folder plus a pooling.

    What is None stays as the folder has it; a folder without a pooling gets the mean and
    vectors of length 1.
    """
    folder = _folder(path)
    if pooling is not None:
        check_pooling(pooling)
    if foreign.is_foreign(folder):
        source = _from_sentence_transformers(folder)
    elif (folder / "config.json").is_file():
        source = _from_transformer(folder)
    else:
        raise BundleError(
            f"{folder} has neither {foreign.MODULES} nor config.json; expected a "
            "sentence-transformers folder or a transformer's. Name the folder that holds one."
        )
    plain = "cls" if pooling == POOLER else pooling
    source = _with_options(source, plain, normalize, max_tokens)
    _check_steps(source, folder)
    _check_weights(source)
    return _with_pooler(source) if pooling == POOLER else source


def _with_pooler(source: ModelSource) -> ModelSource:
    """Put a model's own pooler after [CLS], in a folder that is removed at exit."""
    found = {}
    for file in source.root.glob("*.safetensors"):
        for name, tensor in read_safetensors(file).items():
            start, _, kind = name.rpartition(".")
            if f"{start}.".endswith(_POOLER):
                found[f"linear.{kind}"] = np.ascontiguousarray(tensor, dtype=np.float32)
    if found.keys() != {"linear.weight", "linear.bias"}:
        raise BundleError(
            f"the weights in {source.root} have no pooler; expected one for the pooling pooler. "
            "Choose cls or mean: RoBERTa-like and sentence encoders have none."
        )
    made = Path(tempfile.mkdtemp(prefix="malmoi-pooler-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    width, hidden = found["linear.weight"].shape
    write_safetensors(made / "model.safetensors", found)
    settings = {"in_features": hidden, "out_features": width, "bias": True}
    foreign.write_json(made / "config.json", settings | {"activation_function": _TANH})
    step = DenseSpec(made / "model.safetensors", "tanh")
    last = ("normalize",) if source.manifest.normalize else ()
    return dataclasses.replace(source, steps=("pool", step, *last))


def read_transformer(path: str | Path, *, max_tokens: int | None = None) -> ModelSource:
    """Describe a transformer's folder alone, whatever modules are around it."""
    source = _with_options(_from_transformer(_folder(path)), None, None, max_tokens)
    _check_weights(source)
    return source


class BundleDetails(TypedDict, total=False):
    """What a bundle's manifest says and its model does not know; see `export`."""

    precision: str
    name: str | None
    licence: str
    clean: tuple[str, ...] | None
    training: dict[str, Any] | None
    scores: dict[str, Any] | None
    matryoshka: Sequence[int]


def with_details(
    read: ModelSource, out: str | Path, **details: Unpack[BundleDetails]
) -> ModelSource:
    """Put into a model's manifest what is known before its graph is made."""
    old, clean = read.manifest, details.get("clean")
    manifest = dataclasses.replace(
        old,
        name=details.get("name") or Path(out).name,
        licence=details.get("licence") or old.licence,
        clean=check_steps(clean) if clean is not None else old.clean,
        training=details.get("training") or old.training,
        scores=details.get("scores") or {},
        matryoshka=tuple(details.get("matryoshka") or ()) or old.matryoshka,
        precision=details.get("precision", "float32"),
    )
    return dataclasses.replace(read, manifest=manifest)


def check_pooling(pooling: str) -> None:
    """Raise an OptionError unless every part of a pooling's name is known."""
    for name in pooling.split("+") if pooling != POOLER else ():
        if name not in POOLINGS:
            raise OptionError(
                f'pooling "{name}" is not known; known are {", ".join(POOLINGS)}, and {POOLER} '
                "alone. Choose one of them: mean suits most encoders."
            )


def check_layers(source: ModelSource, layers: int) -> None:
    """Raise an OptionError unless the model has so many layers."""
    config = foreign.read_json(source.root / "config.json")
    most = int(config.get("num_hidden_layers") or config.get("n_layers") or 1)
    if not 1 <= layers <= most:
        raise OptionError(
            f"layers is {layers}; {source.root} has {most}. "
            f"Choose a number from 1 to {most}, or leave the option out."
        )


def head_of(path: str | Path) -> str:
    """Say which kind of bundle a model folder becomes, as `find_kind` does."""
    return find_kind(_folder(path))


def _folder(path: str | Path) -> Path:
    folder = Path(path).expanduser()
    if not folder.exists():
        raise BundleNotFound(f"there is no folder {folder}; expected a model's. Check the name.")
    if not folder.is_dir():
        raise BundleError(f"{folder} is a file; expected a model folder. Name the folder itself.")
    return folder


def _from_sentence_transformers(folder: Path) -> ModelSource:
    _refuse_pickles(folder)
    read = foreign.read_folder(folder, GRAPH)
    manifest = read.manifest
    if (folder / MANIFEST).is_file():
        # A bundle exported again keeps its history; scores belong to the graph they were made with.
        old = Manifest.read(folder)
        kept = ("name", "clean", "matryoshka", "languages", "licence", "training")
        manifest = dataclasses.replace(manifest, **{name: getattr(old, name) for name in kept})
    return ModelSource(read.root, manifest, read.steps)


def _from_transformer(folder: Path) -> ModelSource:
    config = foreign.read_json(folder / "config.json")
    manifest = Manifest(
        name=folder.name,
        architecture=str(config.get("model_type", "")),
        max_tokens=foreign.read_max_tokens(folder, config, {}),
        vocabulary=int(config.get("vocab_size", 0)),
        graph=GRAPH,
    )
    bare = not is_language_model(config)
    return ModelSource(folder, manifest, ("pool", "normalize"), bare=bare)


def _with_options(
    source: ModelSource, pooling: str | None, normalize: bool | None, max_tokens: int | None
) -> ModelSource:
    steps = source.steps
    if normalize is False:
        steps = tuple(step for step in steps if step != "normalize")
    elif normalize and steps[-1] != "normalize":
        steps = (*steps, "normalize")
    config = foreign.read_json(source.root / "config.json")
    longest = foreign.read_max_tokens(source.root, config, {"max_seq_length": 1 << 30})
    if max_tokens is not None and not 3 <= max_tokens <= longest:
        raise OptionError(
            f"max_tokens is {max_tokens}; the model reads from 3 to {longest}. "
            "Choose a number between them, or leave the option out."
        )
    manifest = dataclasses.replace(
        source.manifest,
        pooling=pooling or source.manifest.pooling,
        normalize="normalize" in steps,
        max_tokens=max_tokens or source.manifest.max_tokens,
    )
    return dataclasses.replace(source, manifest=manifest, steps=steps)


def _check_steps(source: ModelSource, folder: Path) -> None:
    # A Dense or Normalize module before the pooling works on tokens; no graph of ours does that.
    if source.steps[0] != "pool" or source.steps.count("pool") != 1:
        raise BundleError(
            f"{folder / foreign.MODULES} has modules before its pooling, or several poolings; "
            "expected Transformer, Pooling, then Dense and Normalize. Such a model cannot be "
            "exported."
        )


def _check_weights(source: ModelSource) -> None:
    files = sorted(source.root.glob("*.safetensors"))
    if files:
        _check_layers(source, [name for file in files for name in tensor_names(file)])
        return
    if any(source.root.glob("pytorch_model*.bin")):
        raise _pickled(source.root)
    if next(source.root.rglob("*.onnx"), None) is not None:
        raise BundleError(
            f"{source.root} has an ONNX graph and no torch weights; expected model.safetensors. "
            "Such a folder needs no export: name it as the model, as in malmoi model info FOLDER"
        )
    raise BundleError(
        f"{source.root} has no weights; expected model.safetensors. Copy the whole folder again."
    )


def _check_layers(source: ModelSource, names: list[str]) -> None:
    """Raise a BundleError where a layer has no weights at all: some would be drawn at random."""
    if source.manifest.architecture == "albert":  # its layers share their weights
        return
    config = foreign.read_json(source.root / "config.json")
    count = int(config.get("num_hidden_layers") or config.get("n_layers") or 0)
    found = {int(number) for name in names for number in _LAYER.findall(name)}
    lacking = [f"layer.{number}" for number in range(count) if number not in found]
    if found and lacking:
        what = ", ".join(lacking[:3])
        raise BundleError(
            f"the weights in {source.root} lack {what}; expected a whole encoder. Copy the whole "
            "folder again."
        )


def _refuse_pickles(folder: Path) -> None:
    for file in folder.glob("*/pytorch_model.bin"):
        if not any(file.parent.glob("*.safetensors")):
            raise _pickled(file.parent)


def _pickled(folder: Path) -> BundleError:
    return BundleError(
        f"{folder} has its weights only in pytorch_model.bin, a pickle, which can run code when "
        "it is opened; expected model.safetensors. If you trust its author, convert it where that "
        'does no harm, with: python -c "from sentence_transformers import SentenceTransformer as '
        "S; S('FOLDER').save_pretrained('NEW_FOLDER')\""
    )


_KEPT = ("name", "clean", "languages", "licence", "training")


def read_reranker(path: str | Path, *, max_tokens: int | None = None) -> ModelSource:
    """Describe a cross-encoder, as a reranker's manifest and what follows the token states.

    The steps are empty for a sequence classifier, whose head is the transformer's own.
    """
    folder = Path(path)
    if foreign.is_classifier(folder):
        source = dataclasses.replace(read_transformer(path, max_tokens=max_tokens), steps=())
        return dataclasses.replace(source, manifest=_manifest(source, folder))
    source = read_source(path, max_tokens=max_tokens)
    if not isinstance(source.steps[-1], DenseSpec):
        raise BundleError(
            f"{folder / foreign.MODULES} is not that of a cross-encoder; expected Transformer, "
            "Pooling and one Dense or more. Such a model cannot be exported."
        )
    return dataclasses.replace(source, manifest=_manifest(source, folder))


def _manifest(source: ModelSource, folder: Path) -> Manifest:
    """Add what a reranker's manifest says besides an encoder's; what an older one says is kept."""
    config = read_json(source.root / "config.json")
    labels = _labels(config, source.steps)
    kept: dict[str, Any] = {"name": folder.name}
    if (folder / MANIFEST).is_file():
        old = Manifest.read(folder)
        kept = {name: getattr(old, name) for name in _KEPT}
    return dataclasses.replace(
        source.manifest,
        kind="reranker",
        dimension=len(labels) or 1,
        labels=labels,
        activation="softmax" if labels else read_activation(folder, config),
        **kept,
    )


def _labels(config: dict[str, Any], steps: Sequence[Step]) -> tuple[str, ...]:
    if steps and isinstance(steps[-1], DenseSpec):
        written = read_json(steps[-1].weights.parent / "config.json")
        return read_labels(config, count=int(written["out_features"]))
    return read_labels(config)


# Real words of both languages: the rounding of int8 is judged on them, and a tokenizer that
# does not know its own model's words would show here.
SAMPLES = (
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "Café, naïve, ｆｕｌｌ width — ㅋㅋ 1,234.5",
    "서울의 봄은 짧고, 여름은 길다. 그래도 사람들은 강가를 걷는다.",
    "How do I reset my password?",
    "비밀번호를 잊어버렸어요",
    "a",
)
