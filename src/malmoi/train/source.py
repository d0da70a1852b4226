"""What is to be exported: a model folder that is described here and loaded elsewhere.

Nothing in the folder is run and nothing is unpickled: weights must be safetensors.
"""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

from ..arrays import tensor_names
from ..bundle import foreign
from ..bundle.foreign import DenseSpec
from ..bundle.manifest import MANIFEST, POOLINGS, Manifest
from ..errors import BundleError, BundleNotFound, OptionError

ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "albert", "electra", "distilbert", "mpnet")
GRAPH = "onnx/model.onnx"
_LAYER = re.compile(r"(?:^|\.)layer\.(\d+)\.")

Step = str | DenseSpec


@dataclass(frozen=True)
class Source:
    """A sentence encoder on disk.

    `root` holds the transformer and its tokenizer; `steps` are what follows its token states:
    "pool", "normalize" or a DenseSpec. The manifest's dimension is not known before a run.
    `layers` above 0 loads only so many of its layers, counted from the embeddings up.
    """

    root: Path
    manifest: Manifest
    steps: tuple[Step, ...]
    layers: int = 0

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
) -> Source:
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
    source = _with_options(source, pooling, normalize, max_tokens)
    _check_architecture(source)
    _check_steps(source, folder)
    _check_weights(source)
    return source


def read_transformer(path: str | Path, *, max_tokens: int | None = None) -> Source:
    """Describe a transformer's folder alone, whatever modules stand around it."""
    source = _with_options(_from_transformer(_folder(path)), None, None, max_tokens)
    _check_architecture(source)
    _check_weights(source)
    return source


def check_pooling(pooling: str) -> None:
    """Raise an OptionError unless every part of a pooling's name is known."""
    for name in pooling.split("+"):
        if name not in POOLINGS:
            raise OptionError(
                f'pooling "{name}" is not known; known are {", ".join(POOLINGS)}. '
                "Choose one of them: mean suits most encoders."
            )


def check_layers(source: Source, layers: int) -> None:
    """Raise an OptionError unless the model has so many layers."""
    config = foreign.read_json(source.root / "config.json")
    most = int(config.get("num_hidden_layers") or config.get("n_layers") or 1)
    if not 1 <= layers <= most:
        raise OptionError(
            f"layers is {layers}; {source.root} has {most}. "
            f"Choose a number from 1 to {most}, or leave the option out."
        )


def _folder(path: str | Path) -> Path:
    folder = Path(path).expanduser()
    if not folder.exists():
        raise BundleNotFound(
            f"there is no folder {folder}; expected a model's. "
            "Check the name; a model on a hub must be downloaded first."
        )
    if not folder.is_dir():
        raise BundleError(f"{folder} is a file; expected a model folder. Name the folder itself.")
    return folder


def _from_sentence_transformers(folder: Path) -> Source:
    _refuse_pickles(folder)
    read = foreign.read_folder(folder, GRAPH)
    manifest = read.manifest
    if (folder / MANIFEST).is_file():
        # A bundle exported again keeps its story; scores belong to the graph they were made with.
        old = Manifest.read(folder)
        kept = ("name", "clean", "matryoshka", "languages", "licence", "training")
        manifest = dataclasses.replace(manifest, **{name: getattr(old, name) for name in kept})
    return Source(read.root, manifest, read.steps)


def _from_transformer(folder: Path) -> Source:
    config = foreign.read_json(folder / "config.json")
    manifest = Manifest(
        name=folder.name,
        architecture=str(config.get("model_type", "")),
        max_tokens=foreign.read_max_tokens(folder, config, {}),
        vocabulary=int(config.get("vocab_size", 0)),
        graph=GRAPH,
    )
    return Source(folder, manifest, ("pool", "normalize"))


def _with_options(
    source: Source, pooling: str | None, normalize: bool | None, max_tokens: int | None
) -> Source:
    steps = source.steps
    if normalize is False:
        steps = tuple(step for step in steps if step != "normalize")
    elif normalize and steps[-1] != "normalize":
        steps = (*steps, "normalize")
    longest = _longest(source.root)
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
    return Source(source.root, manifest, steps)


def _longest(root: Path) -> int:
    config = foreign.read_json(root / "config.json")
    return foreign.read_max_tokens(root, config, {"max_seq_length": 1 << 30})


def _check_architecture(source: Source) -> None:
    found = source.manifest.architecture
    if found not in ARCHITECTURES:
        raise BundleError(
            f'{source.root / "config.json"} says model_type "{found}"; known are '
            f"{', '.join(ARCHITECTURES)}. Choose an encoder of one of these kinds."
        )


def _check_steps(source: Source, folder: Path) -> None:
    # A Dense or Normalize module before the pooling works on tokens; no graph of ours does that.
    if source.steps[0] != "pool" or source.steps.count("pool") != 1:
        raise BundleError(
            f"{folder / foreign.MODULES} has modules before its pooling, or several poolings; "
            "expected Transformer, Pooling, then Dense and Normalize. Such a model cannot be "
            "exported."
        )


def _check_weights(source: Source) -> None:
    files = sorted(source.root.glob("*.safetensors"))
    if files:
        _check_layers(source, [name for file in files for name in tensor_names(file)])
        return
    if any(source.root.glob("pytorch_model*.bin")):
        raise _pickled(source.root)
    raise BundleError(
        f"{source.root} has no weights; expected model.safetensors. Copy the whole folder again."
    )


def _check_layers(source: Source, names: list[str]) -> None:
    """Raise a BundleError where a layer has no weights at all: some would be drawn at random."""
    if source.manifest.architecture == "albert":  # its layers share their weights
        return
    config = foreign.read_json(source.root / "config.json")
    count = int(config.get("num_hidden_layers") or config.get("n_layers") or 0)
    found = {int(number) for name in names for number in _LAYER.findall(name)}
    lacking = [f"layer.{number}" for number in range(count) if number not in found]
    if lacking or not any(name.endswith("word_embeddings.weight") for name in names):
        what = ", ".join(lacking[:3]) or "word_embeddings"
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
