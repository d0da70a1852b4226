"""A cross-encoder's folder, described: one of ours, or any sequence classifier.

Nothing of torch is needed to read it, and nothing in the folder is run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..bundle import foreign
from ..bundle.foreign import DenseSpec, read_json
from ..bundle.manifest import MANIFEST, Manifest
from ..errors import BundleError
from .source import Source, Step, read_source, read_transformer

_SHARED = "config_sentence_transformers.json"
_KEPT = ("name", "clean", "languages", "licence", "training")


def is_cross_encoder(folder: Path) -> bool:
    """Tell whether sentence-transformers saved a folder as a cross-encoder, with its head."""
    return folder.is_dir() and bool(_shared(folder).get("model_type") == "CrossEncoder")


def is_reranker(path: str | Path) -> bool:
    """Tell whether a folder holds a cross-encoder or another sequence classifier."""
    folder = Path(path)
    if is_cross_encoder(folder):
        return True
    if foreign.is_foreign(folder):  # an encoder, whatever its transformer was made from
        return False
    return foreign.is_classifier(folder)


def read_reranker(path: str | Path, *, max_tokens: int | None = None) -> Source:
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


def _manifest(source: Source, folder: Path) -> Manifest:
    """Add what a reranker's manifest says beside an encoder's; an older one's story is kept."""
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
        activation="softmax" if labels else _activation(folder, config),
        **kept,
    )


def _labels(config: dict[str, Any], steps: Sequence[Step]) -> tuple[str, ...]:
    named = config.get("id2label") or {}
    if steps and isinstance(steps[-1], DenseSpec):
        count = int(read_json(steps[-1].weights.parent / "config.json")["out_features"])
    else:
        # transformers leaves two labels without names of their own out of config.json.
        count = len(named) or int(config.get("num_labels") or 2)
    if count == 1:
        return ()
    return tuple(str(named.get(str(i), f"LABEL_{i}")) for i in range(count))


def _activation(folder: Path, config: dict[str, Any]) -> str:
    """Find what follows a lone score: named in three places over the years, a sigmoid if not."""
    stated = (
        _shared(folder).get("activation_fn")
        or (config.get("sentence_transformers") or {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
        or "Sigmoid"
    )
    name = str(stated).rsplit(".", 1)[-1].lower()
    if name not in ("identity", "sigmoid"):
        raise BundleError(
            f"{folder} has the activation {name!r} after its score; known are identity and "
            "sigmoid. Such a model cannot be exported."
        )
    return name


def _shared(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(folder / _SHARED, missing={})
    return found
