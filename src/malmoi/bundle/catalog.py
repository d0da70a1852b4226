"""A model's name → its folder (shipped, on this disk, or on the hub); its kind → its class."""

import logging
import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import BundleError, BundleNotFound, OfflineError, OptionError, require

SHIPPED = Path(__file__).parents[1] / "models"
DEFAULT = "ko-en-small"
RERANKER = "ko-en-reranker"

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
    default: str = DEFAULT,
    weights: bool = False,
    graph: str | None = None,
) -> Path:
    """Find a model's folder; the network is asked only for a hub id that names no folder here.

    A folder on disk wins over a shipped model of the same name, and both over the hub. `default`
    is the shipped model for None. `weights` fetches what training needs from the hub instead of
    what running needs, which is one graph: the usual one, or the one that `graph` names.
    """
    if name_or_path is None and default not in shipped_models():
        raise BundleNotFound(
            f"the model {default} is not in this installation; expected it in {SHIPPED}. "
            "Name a model folder, or make one with: malmoi export (malmoi train for a reranker)"
        )
    if name_or_path is None:
        return SHIPPED / default
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
                f"bundle of its torch weights with: malmoi export {name} OUT"
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


@dataclass(frozen=True)
class Kind:
    """One kind of bundle; its class, "module:class", is imported when a bundle is opened."""

    runner: str
    hint: str


KINDS: dict[str, Kind] = {
    "encoder": Kind("malmoi.encoders.transformer:Encoder", "malmoi.load"),
    "static": Kind("malmoi.encoders.static:StaticEncoder", "malmoi.load"),
    "reranker": Kind("malmoi.heads.reranker:Reranker", "malmoi.load_reranker or malmoi rerank"),
    "tagger": Kind("malmoi.heads.tagger:Tagger", "malmoi.load_tagger or malmoi tag"),
    "classifier": Kind(
        "malmoi.heads.classifier:NoteClassifier", "malmoi.load_classifier or malmoi classify"
    ),
    "answerer": Kind("malmoi.heads.answerer:Answerer", "malmoi.load_answerer or malmoi answer"),
}


def runner_of(kind: str) -> Any:
    """Import the class that runs bundles of a kind."""
    module, _, name = KINDS[kind].runner.partition(":")
    return getattr(import_module(module), name)
