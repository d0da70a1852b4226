"""A model's name → its folder (shipped, on this disk, or on the hub); its kind → its class."""

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import BundleNotFound, OfflineError, require

SHIPPED = Path(__file__).parents[1] / "models"
DEFAULT = "ko-en-small"
RERANKER = "ko-en-reranker"

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.json", "*.onnx", "*.txt", "*.model", "*_Dense/*", "onnx/model.onnx*"]
_TORCH_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def shipped_models() -> list[str]:
    """Name the bundles that came with this installation."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/malmoi.json"))


def find_model(
    name_or_path: str | Path | None = None, *, default: str = DEFAULT, weights: bool = False
) -> Path:
    """Find a model's folder; the network is asked only for a hub id that names no folder here.

    A folder on disk wins over a shipped model of the same name, and both over the hub. `default`
    is the shipped model for None. `weights` fetches what training needs from the hub instead of
    what running needs.
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
        return _download(name, _TORCH_FILES if weights else _HUB_FILES)
    raise BundleNotFound(
        f"there is no folder {name} and no shipped model of that name; shipped are: "
        f"{', '.join(shipped_models()) or 'none'}. Name a folder, a shipped model or a hub id."
    )


def _download(name: str, files: list[str]) -> Path:
    hub = require("huggingface_hub", extra="hub", purpose=f"fetching {name} from the hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=files))
    except Exception as error:  # dozens of kinds: HTTP, DNS, disk, a name that does not exist
        raise OfflineError(
            f"there is no folder {name}, and it could not be fetched from the hub "
            f"({type(error).__name__}). Check the name and the network, or name a folder."
        ) from error


@dataclass(frozen=True)
class Kind:
    """One kind of bundle; its class, "module:class", is imported when a bundle is opened."""

    runner: str
    hint: str


KINDS: dict[str, Kind] = {
    "encoder": Kind("malmoi.encoder.transformer:Encoder", "malmoi.load"),
    "static": Kind("malmoi.static.encoder:StaticEncoder", "malmoi.load"),
    "reranker": Kind("malmoi.reranker.reranker:Reranker", "malmoi.load_reranker or malmoi rerank"),
    "tagger": Kind("malmoi.tagger.tagger:Tagger", "malmoi.load_tagger or malmoi tag"),
    "classifier": Kind(
        "malmoi.classifier.classifier:NoteClassifier", "malmoi.load_classifier or malmoi classify"
    ),
    "answerer": Kind("malmoi.answerer.answerer:Answerer", "malmoi.load_answerer or malmoi answer"),
}


def runner_of(kind: str) -> Any:
    """Import the class that runs bundles of a kind."""
    module, _, name = KINDS[kind].runner.partition(":")
    return getattr(import_module(module), name)
