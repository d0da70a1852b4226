"""Opens a model folder, and says what to do with a folder that cannot be opened."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import BundleError, BundleNotFound
from . import sentence_transformers as foreign
from .catalog import KINDS
from .manifest import MANIFEST, Manifest
from .sentence_transformers import DenseSpec

_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")


@dataclass(frozen=True)
class Bundle:
    """An opened model folder; nothing of the model itself is loaded yet.

    `steps` are what follows the token states where the graph does not pool them.
    """

    folder: Path
    manifest: Manifest
    steps: tuple[str | DenseSpec, ...] = ()

    @property
    def graph(self) -> Path:
        """The ONNX file; a static encoder's table of vectors."""
        return self.folder / self.manifest.graph

    @property
    def tokenizer(self) -> Path:
        """The tokenizer in the tokenizers library's own format."""
        return self.folder / "tokenizer.json"


def open_bundle(path: str | Path, *, kinds: tuple[str, ...] = ("encoder", "static")) -> Bundle:
    """Open a model folder and check it; `kinds` are those that the caller can use."""
    folder = Path(path)
    if not folder.exists():
        raise BundleNotFound(
            f"there is no folder {folder}; expected a model. "
            "Check the name, or make a bundle with: malmoi export"
        )
    if not folder.is_dir():
        raise BundleError(f"{folder} is a file; expected a model folder. Name the folder itself.")
    bundle = _open(folder)
    if bundle.manifest.kind not in kinds:
        raise BundleError(
            f"{folder} is of kind {bundle.manifest.kind!r}; expected {' or '.join(kinds)}. "
            f"Open it with {KINDS[bundle.manifest.kind].hint}."
        )
    for file in (bundle.graph, bundle.tokenizer):
        if not file.is_file():
            raise BundleError(
                f"{folder} has no {file.name}; expected {file.relative_to(folder)}. "
                "Export the model again with: malmoi export"
            )
    return bundle


def _open(folder: Path) -> Bundle:
    if (folder / MANIFEST).is_file():
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        steps = ("pool", "normalize") if manifest.normalize else ("pool",)
        return Bundle(folder, manifest, steps)
    if foreign.is_foreign(folder):
        read = foreign.read_folder(folder, _find_graph(folder))
        return Bundle(folder, read.manifest, read.steps)
    if (folder / "config.json").is_file():
        if foreign.is_classifier(folder):
            raise BundleError(
                f"{folder} is a cross-encoder without a manifest; expected a bundle. "
                f"Make one with: malmoi export {folder} OUT"
            )
        raise BundleError(
            f"{folder} is a transformer without a pooling; expected a sentence encoder. "
            f"Make one with: malmoi export {folder} OUT --pooling mean"
        )
    raise BundleError(
        f"{folder} is no model: it has neither {MANIFEST} nor {foreign.MODULES}. "
        "Name a bundle or a sentence-transformers folder."
    )


def _find_graph(folder: Path) -> str:
    for name in _GRAPHS:
        if (folder / name).is_file():
            return name
    others = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx"))
    if len(others) == 1:
        return others[0]
    if others:
        raise BundleError(
            f"{folder} has the graphs {', '.join(others)}; expected one of {', '.join(_GRAPHS)}. "
            f"Copy the one you want to {_GRAPHS[0]}."
        )
    if any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        raise BundleError(
            f"{folder} has only torch weights; expected an ONNX graph. "
            f"Convert it once with: malmoi export {folder} OUT"
        )
    raise BundleError(
        f"{folder} has neither an ONNX graph nor weights; expected onnx/model.onnx. "
        "Copy the whole folder again."
    )
