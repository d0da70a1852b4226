"""What a trained bundle says of itself: provenance for its manifest, a README for people."""

import importlib.metadata
import platform
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..bundle.manifest import Manifest
from ..errors import by_number, counted
from ..export.source import ModelSource
from .checkpoint import State
from .objectives.recipes import Recipe
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


def write_card(manifest: Manifest, recipe: Recipe) -> str:
    """Say in Markdown what the model is, what it was made from and how well it does."""
    training = manifest.training
    lines = [
        f"# {manifest.name}",
        "",
        f"{_what(manifest)} ({manifest.architecture}, up to {manifest.max_tokens} tokens, "
        f"{manifest.precision}), trained with malmoi from `{recipe.base}`.",
        "",
        "```python",
        "import malmoi",
        *_use(manifest),
        "```",
        "",
        "## Data",
        "",
        "| file | for | sha256 |",
        "|---|---|---|",
    ]
    lines += [f"| {file} | {use} | {training['data'][file][:16]}… |" for file, use in _uses(recipe)]
    lines += ["", "## Scores", ""]
    if manifest.scores:
        lines += score_table(manifest.scores)
        lines += ["", f"The best of {training['steps']:,} steps is step {training['best_step']:,}."]
    else:
        lines += [f"None was measured in the {training['steps']:,} steps of training."]
    for name, count in training["repeated"].items():
        if count:
            lines += [
                "",
                f"{counted(count, 'pair')} of {name} {by_number(count, 'stands', 'stand')} in the "
                "training data too.",
            ]
    if recipe.layers:
        lines += ["", f"It started as the base with {recipe.layers} of its layers."]
    return finish_card(lines, manifest, recipe.matryoshka)


def file_table(hashes: dict[str, str]) -> list[str]:
    """List files with the start of their sha256."""
    rows = (f"| {name} | {digest[:16]}… |" for name, digest in hashes.items())
    return ["| file | sha256 |", "|---|---|", *rows]


def score_table(scores: dict[str, float]) -> list[str]:
    """List scores by evaluation."""
    rows = (f"| {name} | {score:.4f} |" for name, score in scores.items())
    return ["| evaluation | score |", "|---|---|", *rows]


def finish_card(lines: list[str], manifest: Manifest, matryoshka: Sequence[int] = ()) -> str:
    """End a card with seed, steps, versions and licence, and give its text."""
    training = manifest.training
    several = f", {training['processes']} processes" if training.get("processes", 1) > 1 else ""
    steps = f", {training['steps']:,} steps" if "steps" in training else ""
    lines = [
        *lines,
        "",
        "## Training",
        "",
        f"Seed {training['seed']}{steps}{several}.",
        "",
        *(f"- {name} {version}" for name, version in training["versions"].items()),
    ]
    if matryoshka:
        sizes = ", ".join(map(str, matryoshka))
        lines += ["", f"The first {sizes} dimensions may be used alone."]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"


def _uses(recipe: Recipe) -> list[tuple[str, str]]:
    """List every file of a recipe with what it was used for."""
    found = []
    for entry in recipe.data:
        found += [(file, entry.objective) for file in entry.files]
        for negatives in entry.negatives:
            found += [(file, f"{entry.objective}, negatives") for file in negatives.files]
    for measure in recipe.evaluation:
        files = [measure.file, *([measure.dictionary] if measure.dictionary else [])]
        found += [(file, f"evaluation {measure.title}") for file in files]
    return found


def _what(manifest: Manifest) -> str:
    if manifest.kind == "reranker":
        labels = f"the labels {', '.join(manifest.labels)}" if manifest.labels else "one score"
        return f"A reranker with {labels}"
    return f"A sentence encoder of {manifest.dimension} dimensions with {manifest.pooling} pooling"


def _use(manifest: Manifest) -> list[str]:
    if manifest.kind == "reranker":
        call = "probabilities" if manifest.labels else "score"
        return [
            'reranker = malmoi.load_reranker("path/to/this/folder")',
            f'reranker.{call}([("배가 아프다", "복통이 있다")])',
        ]
    return [
        'encoder = malmoi.load("path/to/this/folder")',
        'encoder.similarity("배가 아프다", "복통이 있다")',
    ]
