"""Opens a model folder, and says what to do with a folder that cannot be opened."""

import logging
import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import BundleCorrupt, BundleError, BundleNotFound, OfflineError, OptionError, require
from ..io.fingerprint import is_inside
from . import sentence_transformers as foreign
from .manifest import KINDS, MANIFEST, POOLER, POOLINGS, Manifest
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
            "Check the name, or make a bundle with: malmoi model export"
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
                "Export the model again with: malmoi model export"
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
                f"Make one with: malmoi model export {folder} OUT"
            )
        raise BundleError(
            f"{folder} is a transformer without a pooling; expected a sentence encoder. "
            f"Make one with: malmoi model export {folder} OUT --pooling mean"
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
            f"Convert it once with: malmoi model export {folder} OUT"
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
                "graph is not opened: export the model again with: malmoi model export"
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


SHIPPED = Path(__file__).parents[1] / "models"
DEFAULT = "ko-en-small"

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.json", "*.txt", "*.model", "*_Dense/*"]
_TORCH_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_GRAPHS = ("onnx/model.onnx", "model.onnx")
GRAPH = "MALMOI_GRAPH"  # the environment variable with the graph to use of folders with several
POOLING = "MALMOI_POOLING"  # … and with the pooling of folders that do not say theirs

logger = logging.getLogger(__name__)


def shipped_models() -> list[str]:
    """Name the bundles that came with this installation."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/malmoi.json"))


def find_model(
    name_or_path: str | Path | None = None,
    *,
    weights: bool = False,
    graph: str | None = None,
) -> Path:
    """Find a model's folder; the network is asked only for a hub id that names no folder here.

    A folder on disk wins over a shipped model of the same name, and both over the hub. None is the
    shipped encoder. `weights` fetches what training needs from the hub instead of
    what running needs, which is one graph: the usual one, or the one that `graph` names.
    """
    if name_or_path is None and DEFAULT not in shipped_models():
        raise BundleNotFound(
            f"the model {DEFAULT} is not in this installation; expected it in {SHIPPED}. "
            "Name a model folder, or make one: malmoi model export"
        )
    if name_or_path is None:
        return SHIPPED / DEFAULT
    folder = Path(name_or_path).expanduser()
    if folder.exists():
        return folder
    name = str(name_or_path)
    if name in shipped_models():
        return SHIPPED / name
    if _HUB_ID.fullmatch(name) and not name.startswith("."):
        return _download(name, None if weights else graph or "")
    raise BundleNotFound(
        f"there is no folder {name} and no shipped model of that name; shipped are: "
        f"{', '.join(shipped_models()) or 'none'}. Name a folder, a shipped model or a hub id."
    )


def choose_graph(found: list[str], graph: str | None, *, where: str) -> str:
    """Choose one of a folder's graphs: by its path, its name or its name's stem, or the usual one.

    What MALMOI_GRAPH names is the usual one, if it is set.

    >>> choose_graph(["onnx/model.onnx", "onnx/model_int8.onnx"], "model_int8", where="x")
    'onnx/model_int8.onnx'
    """
    graph = graph or os.environ.get(GRAPH)
    if graph:
        fits = [name for name in found if graph in (name, Path(name).name, Path(name).stem)]
        if len(fits) == 1:
            return fits[0]
        raise OptionError(
            f"graph is {graph!r}; {where} has {', '.join(found) or 'none'}. Name one by its path."
        )
    usual = [name for name in _GRAPHS if name in found] or found
    if len(usual) == 1 or usual[0] in _GRAPHS:
        return usual[0]
    raise BundleError(
        f"{where} has the graphs {', '.join(found)}; expected one of {', '.join(_GRAPHS)}. "
        'Name the one you want: malmoi.load(path, graph="…"), malmoi --graph'
    )


def graph_files(files: list[str], graph: str) -> list[str]:
    """List a graph and the files in its folder that may hold weights of it.

    Those are all but other graphs and what belongs to them by name (model_fp16.onnx_data).

    >>> graph_files(["x/a.onnx", "x/a.onnx_data", "x/b.onnx", "x/b.onnx_data"], "x/b.onnx")
    ['x/b.onnx', 'x/b.onnx_data']
    """
    folder = Path(graph).parent
    near = [name for name in files if Path(name).parent == folder]
    others = tuple(name for name in near if name.endswith(".onnx") and name != graph)
    kept = [name for name in near if not name.startswith(others)] if others else near
    return kept if folder != Path() else [name for name in kept if name.startswith(graph)]


def _download(name: str, graph: str | None) -> Path:
    """Fetch a model: torch weights for None, else a graph, the usual one for an empty name."""
    hub = require("huggingface_hub", extra="hub", purpose=f"fetching {name} from the hub")
    try:
        if graph is None:
            return Path(hub.snapshot_download(name, allow_patterns=_TORCH_FILES))
        # Unlike list_repo_files this does not try for half a minute where there is no network.
        files = [str(file.rfilename) for file in hub.model_info(name).siblings or ()]
        if "malmoi.json" in files:  # a bundle, whose files are all listed with their hashes
            return Path(hub.snapshot_download(name))
        graphs = [file for file in files if file.endswith(".onnx")]
        if not graphs:
            raise BundleError(
                f"{name} on the hub has no ONNX graph; expected one, as onnx/model.onnx. Make a "
                f"bundle of its torch weights with: malmoi model export {name} OUT"
            )
        wanted = graph_files(files, choose_graph(graphs, graph, where=name))
        return Path(hub.snapshot_download(name, allow_patterns=[*_HUB_FILES, *wanted]))
    except (BundleError, OptionError):
        raise
    except Exception as error:  # dozens of kinds: HTTP, DNS, disk, a name that does not exist
        kept = _fetched_before(hub, name)
        if kept is not None:
            logger.warning(f"the hub does not answer; {name} is used as it was fetched before")
            return kept
        raise OfflineError(
            f"there is no folder {name}, and it could not be fetched from the hub "
            f"({type(error).__name__}). Check the name and the network, or name a folder."
        ) from error


def _fetched_before(hub: Any, name: str) -> Path | None:
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except Exception:  # none is there, or the cache cannot be read
        return None


def runner_of(kind: str) -> Any:
    """Import the class that runs bundles of a kind."""
    module, _, name = KINDS[kind].runner.partition(":")
    return getattr(import_module(module), name)
