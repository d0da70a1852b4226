"""Opens a model folder, and says what to do with a folder that cannot be opened."""

import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BundleCorrupt, BundleError, BundleNotFound, OptionError
from ..io.fingerprint import is_inside
from . import sentence_transformers as foreign
from .catalog import KINDS, POOLING, choose_graph
from .manifest import MANIFEST, POOLER, POOLINGS, Manifest
from .sentence_transformers import DenseSpec
from .transformers import find_kind, read_transformers_folder

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
# How a graph names a file with weights: the field "location" of a tensor's external data.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])", re.DOTALL)


@dataclass(frozen=True)
class Bundle:
    """An opened model folder; nothing of the model itself is loaded yet.

    `steps` are what follows the token states where the graph does not pool them. `columns` are the
    places of a tagger's labels in what its graph gives, where they are others than the labels'.
    """

    folder: Path
    manifest: Manifest
    steps: tuple[str | DenseSpec, ...] = ()
    columns: tuple[int, ...] = ()

    @property
    def graph(self) -> Path:
        """The ONNX file; a static encoder's table of vectors."""
        return self.folder / self.manifest.graph

    @property
    def tokenizer(self) -> Path:
        """The tokenizer in the tokenizers library's own format."""
        return self.folder / "tokenizer.json"


def open_bundle(
    path: str | Path,
    *,
    kinds: tuple[str, ...] = ("encoder", "static"),
    graph: str | None = None,
    pooling: str | None = None,
) -> Bundle:
    """Open a model folder and check it; `kinds` are those that the caller can use.

    - `graph`: which ONNX graph to use of a folder with several: its path there, or its name. The
      graph's file itself may be the path instead.
    - `pooling`: how to make a vector of token states, for a folder that does not say; of encoders
      what MALMOI_POOLING names, if it is set.
    """
    folder = Path(path)
    if pooling is None and "encoder" in kinds:
        pooling = os.environ.get(POOLING)
    if graph is None and folder.suffix == ".onnx" and folder.is_file():
        folder, graph = _home_of(folder)
    known = (*POOLINGS, POOLER)
    if pooling is not None and not set(pooling.split("+")) <= set(known):
        raise OptionError(f"pooling is {pooling!r}; known are {', '.join(known)}. Choose one.")
    if not folder.exists():
        raise BundleNotFound(
            f"there is no folder {folder}; expected a model. "
            "Check the name, or make a bundle with: malmoi export"
        )
    if not folder.is_dir():
        raise BundleError(f"{folder} is a file; expected a model folder. Name the folder itself.")
    bundle = _open(folder, graph, pooling)
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
    if not bundle.manifest.files:  # a bundle's own files are known by their hashes
        _check_weights(bundle.graph)
    return bundle


def _home_of(graph: Path) -> tuple[Path, str | None]:
    """Find the model folder of a graph's file, and the graph's path in it."""
    for folder in (graph.parent, graph.parent.parent):
        if any((folder / name).is_file() for name in (MANIFEST, foreign.MODULES, "config.json")):
            return folder, graph.relative_to(folder).as_posix()
    return graph, None


def _open(folder: Path, graph: str | None, pooling: str | None) -> Bundle:
    if (folder / MANIFEST).is_file():
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        if graph not in (None, manifest.graph) or pooling not in (None, manifest.pooling):
            raise OptionError(
                f"{folder} is a bundle with the graph {manifest.graph} and the pooling "
                f"{manifest.pooling}; expected no other. Leave graph and pooling out."
            )
        steps = ("pool", "normalize") if manifest.normalize else ("pool",)
        return Bundle(folder, manifest, steps)
    if foreign.is_foreign(folder):
        if find_kind(folder) == "encoder":
            foreign.read_folder(folder, "")  # what cannot be used at all is refused first
        read = foreign.read_folder(folder, _find_graph(folder, graph))
        if pooling not in (None, read.manifest.pooling):
            raise OptionError(
                f"{folder} says that it pools by {read.manifest.pooling}, and pooling is "
                f"{pooling!r}; expected one of them. Leave pooling out."
            )
        return Bundle(folder, read.manifest, read.steps)
    if (folder / "config.json").is_file():
        if next(folder.rglob("*.onnx"), None) is not None:
            found = _find_graph(folder, graph)
            read, columns = read_transformers_folder(folder, found, pooling=pooling)
            return Bundle(folder, read.manifest, read.steps, tuple(columns))
        if find_kind(folder) != "encoder":
            raise BundleError(
                f"{folder} has a head, torch weights and no ONNX graph; expected a bundle. "
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


def _find_graph(folder: Path, graph: str | None) -> str:
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx"))
    if found:
        return choose_graph(found, graph, where=str(folder))
    if any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        raise BundleError(
            f"{folder} has only torch weights; expected an ONNX graph. "
            f"Convert it once with: malmoi export {folder} OUT"
        )
    raise BundleError(
        f"{folder} has neither an ONNX graph nor weights; expected onnx/model.onnx. "
        "Copy the whole folder again."
    )


def _check_weights(graph: Path) -> None:
    """Raise where a graph names files of weights that are missing, or outside its own folder."""
    for name in outside_files(graph):
        if not is_inside(name):
            raise BundleCorrupt(
                f"{graph} reads its weights from {name!r}; expected a file next to it. Such a "
                "graph is not opened: export the model again with: malmoi export"
            )
        if not (graph.parent / name).is_file():
            raise BundleCorrupt(
                f"{graph} has its weights in {name}, which is missing next to it; expected all "
                "files of the graph. Copy the whole folder again."
            )


def outside_files(graph: Path) -> Sequence[str]:
    """Name the files next to a graph that hold weights of it, without reading the graph."""
    if not graph.stat().st_size:
        return []
    names: dict[str, None] = {}
    with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in _LOCATION.finditer(data):
            # The length, in seven bits a byte, the lowest first.
            length = sum((byte & 127) << 7 * place for place, byte in enumerate(match[1]))
            name = data[match.end() : match.end() + length]
            names[name.decode("utf-8", errors="replace")] = None
    return list(names)
