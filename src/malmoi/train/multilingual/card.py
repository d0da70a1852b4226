"""The README of a distilled model: what it is, what it was made from, how well it does."""

from ...bundle import Manifest
from ...errors import counted
from ..card import how_made
from .settings import Distillation


def write_card(manifest: Manifest, recipe: Distillation) -> str:
    """Say it in Markdown."""
    training = manifest.training
    lines = [
        f"# {manifest.name}",
        "",
        f"A sentence encoder of {manifest.dimension} dimensions with {manifest.pooling} pooling "
        f"({manifest.architecture}, up to {manifest.max_tokens} tokens, {manifest.precision}), "
        f"made with malmoi from `{recipe.base}` by distillation.",
        *([f"Languages: {', '.join(recipe.languages)}."] if recipe.languages else []),
        "",
        "```python",
        "import malmoi",
        'encoder = malmoi.load("path/to/this/folder")',
        'encoder.similarity("배가 아프다", "My stomach hurts.")',
        "```",
        "",
        "## How it was made",
        "",
        *_stages(recipe),
        "",
        "## Data",
        "",
        "| file | sha256 |",
        "|---|---|",
        *(f"| {file} | {digest[:16]}… |" for file, digest in training["data"].items()),
        "",
        f"{counted(training['held_out'], 'sentence pair was', 'sentence pairs were')} held out of "
        "all of it.",
        "",
        "## Scores",
        "",
    ]
    if manifest.scores:
        lines += ["| evaluation | score |", "|---|---|"]
        lines += [f"| {name} | {score:.4f} |" for name, score in manifest.scores.items()]
    else:
        lines += ["None was measured."]
    lines += how_made(training)
    if recipe.matryoshka:
        sizes = ", ".join(map(str, recipe.matryoshka))
        lines += ["", f"The first {sizes} dimensions may be used alone."]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"


def _stages(recipe: Distillation) -> list[str]:
    lines = []
    if recipe.vocabulary:
        lines.append(f"1. {recipe.vocabulary.size:,} pieces were added to the tokenizer.")
        lines.append(f"1. Their rows began by `init = {recipe.vocabulary.init!r}`.")
    teacher = recipe.teacher or recipe.base
    lines.append(f"1. It learnt the vectors of `{teacher}` on the parallel files.")
    if recipe.tune:
        titles = ", ".join(task.title for task in recipe.task)
        lines.append(f"1. It was tuned in {counted(len(recipe.tune), 'stage')} on: {titles}.")
    return lines
