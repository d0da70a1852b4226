"""`malmoi train` as a function: a recipe in, a bundle out, whatever the objective.

What fails soonest is checked first: the recipe, then the files, then the weights of the base.
"""

import contextlib
import logging
import os
from pathlib import Path
from typing import Any

from ..errors import require
from .objective import objective_of
from .recipe import load_recipe
from .run_dir import Hooks, TrainedRun, check_data, check_new, check_recipe, opening_run
from .schema import BaseRecipe

__all__ = ["TrainedRun", "prepare", "train"]

_PACKAGES = ("torch", "transformers", "sentence_transformers", "safetensors", "onnx")


def train(
    recipe: BaseRecipe | str | Path,
    *,
    data: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    threads: int | None = None,
    hooks: Hooks | None = None,
) -> TrainedRun:
    """Train as a recipe says, and export the best model as a bundle.

    data: the folder that the recipe's files are under; else MALMOI_DATA, or the working directory.
    resume: continue from the last checkpoint.
    strict: stop at the first row that would be skipped.
    threads: of the processor; torch's own choice when left out.
    hooks: functions that are called after steps, evaluations and checkpoints.

    Raises KeyboardInterrupt when stopped, after saving.
    """
    first = not int(os.environ.get("RANK", "0"))
    if not first:
        logging.getLogger("malmoi").setLevel(logging.ERROR)  # only one process logs
    checked: Any = load_recipe(recipe) if isinstance(recipe, str | Path) else recipe
    objective, folder = objective_of(checked), Path(checked.output.folder)
    # Only the first process looks at the folder: for the others it may exist already.
    same = first and check_new(folder, resume=resume)
    if same:
        check_recipe(checked, folder)
    root = Path(data or os.environ.get("MALMOI_DATA") or ".").expanduser()
    prepared = objective.prepare(checked, root, strict=strict)
    if same:
        check_data(prepared.learnt, folder)
    for package in _PACKAGES:
        require(package, extra="train", purpose="malmoi train")
    for package in getattr(checked.output, "report", ()):
        require(package, purpose=f'report = ["{package}"]')
    if getattr(checked, "lora", None):
        require("peft", extra="lora", purpose="[lora]")
    with opening_run(checked, prepared.learnt, folder) if first else contextlib.nullcontext():
        return objective.run(
            checked, prepared, resume=resume, threads=threads, hooks=hooks or Hooks()
        )


def prepare(recipe: BaseRecipe, root: Path, *, strict: bool = False) -> Any:
    """Read and check everything but the weights, as a run does before it starts."""
    return objective_of(recipe).prepare(recipe, root, strict=strict)
