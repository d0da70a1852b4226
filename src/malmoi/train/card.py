"""What a trained bundle says of itself: provenance for its manifest, a README for people."""

import importlib.metadata
import math
import platform
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..bundle.manifest import Manifest
from ..export.source import ModelSource
from .checkpoint import State
from .schema import BaseRecipe

_PACKAGES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "onnxruntime")


def versions() -> dict[str, str]:
    """The versions that made a model."""
    found = {"malmoi": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def provenance(
    recipe: BaseRecipe, hashes: dict[str, str], state: State | None = None, **more: Any
) -> dict[str, Any]:
    """Everything needed to make the model again, for the manifest's field "training"."""
    table = recipe.to_json()
    made = {
        "recipe": table,
        "seed": table["seed"],
        "versions": versions(),
        "data": hashes,
        **more,
    }
    if state is not None:
        best = state.best_step or state.step
        made |= {"steps": state.step, "best_step": best, "seconds": round(state.seconds, 1)}
    return made


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """Round scores for a manifest, which is JSON: those that are undefined are left out."""
    return {name: round(score, 4) for name, score in scores.items() if math.isfinite(score)}


def bundle_options(
    recipe: Any, source: ModelSource, training: dict[str, Any], precision: str
) -> dict[str, Any]:
    """Give the options of an export that a recipe's [output] and its base decide."""
    return {
        "precision": precision,
        "name": recipe.name,
        "licence": recipe.output.licence or source.manifest.licence,
        "weights": recipe.output.weights,
        "clean": source.manifest.clean,
        "training": training,
    }


def write_card(
    manifest: Manifest,
    about: str,
    body: Sequence[str],
    *,
    use: Sequence[str] = (),
    matryoshka: Sequence[int] = (),
) -> str:
    """Say in Markdown what a model is, how to use it, what it was made from and how well it does.

    `use` are lines of Python; `body` is everything between them and the section on training.
    """
    training = manifest.training
    several = f", {training['processes']} processes" if training.get("processes", 1) > 1 else ""
    steps = f", {training['steps']:,} steps" if "steps" in training else ""
    code = ["```python", "import malmoi", *use, "```", ""] if use else []
    lines = [
        *(f"# {manifest.name}", "", about, "", *code, *body, "", "## Training", ""),
        *(f"Seed {training['seed']}{steps}{several}.", ""),
        *(f"- {name} {version}" for name, version in training["versions"].items()),
    ]
    if matryoshka:
        sizes = ", ".join(map(str, matryoshka))
        lines += ["", f"The first {sizes} dimensions may be used alone."]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"


def file_table(hashes: dict[str, str]) -> list[str]:
    """List files with the start of their sha256."""
    rows = (f"| {name} | {digest[:16]}… |" for name, digest in hashes.items())
    return ["| file | sha256 |", "|---|---|", *rows]


def score_table(scores: dict[str, float]) -> list[str]:
    """List scores by evaluation."""
    rows = (f"| {name} | {score:.4f} |" for name, score in scores.items())
    return ["| evaluation | score |", "|---|---|", *rows]
