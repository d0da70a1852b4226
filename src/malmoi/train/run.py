"""`malmoi train` as a function: a recipe in, a bundle out.

What fails soonest is checked first: the recipe, then the files, then the weights of the base.
"""

import contextlib
import importlib
import logging
import os
from pathlib import Path
from typing import Any

from ..errors import OptionError, require
from .distil import run as distillation
from .objectives import classification, encoder, masked_lm, tagging
from .objectives.recipes import Classification, Pretraining, Recipe, Tagging
from .recipe import BaseRecipe, Distillation, load_recipe
from .run_dir import RunPaths, TrainedRun, check_data, check_new, check_recipe, opening_run

logger = logging.getLogger(__name__)

_PACKAGES = ("torch", "transformers", "sentence_transformers", "safetensors", "onnx")
# The module that prepares a recipe (reads its files, without torch), and the name of the one with
# make_task (what the loop trains) and finish (the bundles), which imports torch.
OBJECTIVE_MODULES: dict[type[BaseRecipe], tuple[Any, str]] = {
    Recipe: (encoder, "encoder"),
    Tagging: (tagging, "tagging_task"),
    Classification: (classification, "classification_task"),
    Pretraining: (masked_lm, "masked_lm_task"),
}


def train(
    recipe: BaseRecipe | str | Path,
    *,
    data: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    threads: int | None = None,
) -> TrainedRun:
    """Train as a recipe says, and export the best model as a bundle.

    data: the folder that the recipe's files are under; else MALMOI_DATA, or the working directory.
    resume: continue from the last checkpoint.
    strict: stop at the first row that would be skipped.
    threads: of the processor; torch's own choice when left out.

    Raises KeyboardInterrupt when stopped, after saving.
    """
    first = not int(os.environ.get("RANK", "0"))
    if not first:
        logging.getLogger("malmoi").setLevel(logging.ERROR)  # only one process logs
    if isinstance(recipe, (str, Path)):
        recipe = load_recipe(recipe)
    root = Path(data or os.environ.get("MALMOI_DATA") or ".").expanduser()
    if isinstance(recipe, Distillation):
        return _distil(recipe, root, resume, strict, threads)
    assert isinstance(recipe, Recipe | Tagging | Classification | Pretraining)
    folder = Path(recipe.output.folder)
    # Only the first process looks at the folder: for the others it may exist already.
    resumes = first and check_new(folder, resume=resume)
    if resumes:
        check_recipe(recipe, folder)
    prepared = prepare(recipe, root, strict=strict)
    if resumes:
        check_data(prepared.learnt, folder)
    _require_packages()
    with opening_run(recipe, prepared.learnt, folder) if first else contextlib.nullcontext():
        return _run(recipe, prepared, resume=resume, threads=threads)


def prepare(recipe: BaseRecipe, root: Path, *, strict: bool = False) -> Any:
    """Read and check everything but the weights; `learnt` holds the hashes of the files."""
    return OBJECTIVE_MODULES[type(recipe)][0].prepare(recipe, root, strict=strict)


def _run(
    recipe: Recipe | Tagging | Classification | Pretraining,
    prepared: Any,
    *,
    resume: bool,
    threads: int | None,
) -> TrainedRun:
    import torch  # here, because everything before is checked without it

    from .distributed import joining
    from .log import draw_log
    from .loop import check_bfloat16
    from .loop import train as loop

    if threads:
        torch.set_num_threads(threads)
    if recipe.schedule.bf16 and not torch.cuda.is_available():
        check_bfloat16()
    name = OBJECTIVE_MODULES[type(recipe)][1]
    module: Any = importlib.import_module(f".objectives.{name}", __package__)
    paths = RunPaths(Path(recipe.output.folder))
    with joining() as processes:
        task = module.make_task(recipe, prepared, processes)
        state = loop(
            task,
            recipe.schedule,
            recipe.output,
            seed=recipe.seed,
            processes=processes,
            resume=resume,
        )
        bundles: tuple[Path, ...] = ()
        scores = dict(state.best_scores)
        if processes.first:
            if not draw_log(paths.log, paths.folder / "training.png"):
                logger.info(
                    "no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')"
                )
            bundles, found = module.finish(recipe, prepared, task, paths, state)
            scores |= found
        processes.wait()
    return TrainedRun(paths.folder, bundles, scores, state.step)


def _distil(
    recipe: Distillation, root: Path, resume: bool, strict: bool, threads: int | None
) -> TrainedRun:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise OptionError(
            "a recipe with objective distil runs in one process; torchrun started several. "
            "Start it as: malmoi train"
        )
    check_new(Path(recipe.output.folder), resume=resume)
    source, texts = distillation.prepare(recipe, root, strict=strict)
    _require_packages()
    return distillation.run(recipe, source, texts, threads=threads)


def _require_packages() -> None:
    for package in _PACKAGES:
        require(package, extra="train", purpose="malmoi train")
