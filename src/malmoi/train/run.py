"""`malmoi train` as a function: a recipe in, a bundle out.

The order is that of patience: the recipe is checked, then the files, then the model is loaded.
"""

import contextlib
import dataclasses
import functools
import importlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ..bundle.manifest import Manifest
from ..errors import OptionError, by_number, counted, require
from ..export.source import ModelSource
from ..io.files import writing_folder
from .base_model import read_base
from .data import (
    TrainingExamples,
    count_repeated,
    find_files,
    hash_files,
    learnt_files,
    read_examples,
)
from .distil import run as multilingual
from .distil.recipe import Distillation
from .evaluation import Measure, read_measure
from .objectives import classification as notes_run
from .objectives.classification_data import Classification
from .recipe import Recipe, Stage, load_recipe
from .run_dir import TrainedRun, check_data, check_new, check_recipe, opening_run

logger = logging.getLogger(__name__)

_PACKAGES = ("torch", "transformers", "sentence_transformers", "safetensors", "onnx")


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs that can be checked without torch."""

    recipe: Recipe
    source: ModelSource
    examples: list[TrainingExamples]
    measures: list[Measure]
    hashes: dict[str, str]
    repeated: dict[str, int]


def train(
    recipe: Recipe | Distillation | Classification | Stage | str | Path,
    *,
    data: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    threads: int | None = None,
) -> TrainedRun:
    """Train as a recipe says, and export the best model as a bundle.

    `data` is the folder that the recipe's files are under: MALMOI_DATA or the working directory
    when left out. `resume` goes on from the last checkpoint; `strict` stops at the first row
    that would be passed over. Raises KeyboardInterrupt when stopped, after saving.
    """
    first = not int(os.environ.get("RANK", "0"))
    if not first:
        logging.getLogger("malmoi").setLevel(logging.ERROR)  # one process speaks for all
    if isinstance(recipe, (str, Path)):
        recipe = cast(Recipe, load_recipe(recipe))
    if isinstance(recipe, Distillation):
        return _distil(recipe, data_root(data), resume, strict, threads)
    folder = Path(recipe.output.folder)
    # The first process alone looks at the folder: to the others it may be there already.
    going_on = first and check_new(folder, resume=resume)
    if going_on:
        check_recipe(recipe, folder)
    ready = _ready(recipe, data_root(data), strict)
    if going_on:
        check_data(ready.hashes, folder)
    for package in _PACKAGES:
        require(package, extra="train", purpose="malmoi train")
    with opening_run(recipe, ready.hashes, folder) if first else contextlib.nullcontext():
        return ready.run(resume=resume, threads=threads)


def prepare_stage(recipe: Stage, root: Path, *, strict: bool) -> Any:
    """Read and check everything but the weights."""
    return _stage(recipe.objective).prepare(recipe, root, strict=strict)


def run_stage(recipe: Stage, prepared: Any, *, resume: bool, threads: int | None) -> TrainedRun:
    """Train what was prepared."""
    done: TrainedRun = _stage(recipe.objective).run(
        recipe, prepared, resume=resume, threads=threads
    )
    return done


# Objectives with a run of their own.
STAGES = {"tag": "malmoi.train.objectives.tagging", "pretrain": "malmoi.train.objectives.masked_lm"}


def _stage(objective: str) -> Any:
    return importlib.import_module(STAGES[objective])


class _Run(Protocol):
    def __call__(self, *, resume: bool, threads: int | None) -> TrainedRun: ...


@dataclass(frozen=True)
class _Ready:
    """A run whose files are read: the hashes of those it learns from, and how to start it."""

    hashes: dict[str, str]
    run: _Run


def _ready(recipe: Recipe | Classification | Stage, root: Path, strict: bool) -> _Ready:
    if isinstance(recipe, Recipe):
        prepared = prepare(recipe, root, strict=strict)
        learnt = {name: prepared.hashes[name] for name in learnt_files(recipe)}
        return _Ready(learnt, functools.partial(_run, prepared))
    if isinstance(recipe, Classification):
        source, notes = notes_run.prepare(recipe, root, strict=strict)
        return _Ready(notes.hashes, functools.partial(notes_run.run, recipe, source, notes))
    stage = prepare_stage(recipe, root, strict=strict)
    return _Ready(stage.hashes, functools.partial(run_stage, recipe, stage))


def _distil(
    recipe: Distillation, root: Path, resume: bool, strict: bool, threads: int | None
) -> TrainedRun:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise OptionError(
            "a recipe with objective distil runs in one process; torchrun started several. "
            "Start it as: malmoi train"
        )
    check_new(Path(recipe.output.folder), resume=resume)
    source, material = multilingual.prepare(recipe, root, strict=strict)
    for package in _PACKAGES:
        require(package, extra="train", purpose="malmoi train")
    return multilingual.run(recipe, source, material, threads=threads)


def data_root(root: str | Path | None) -> Path:
    """Choose where data files are looked for."""
    return Path(root or os.environ.get("MALMOI_DATA") or ".").expanduser()


def prepare(recipe: Recipe, root: Path, *, strict: bool = False) -> Prepared:
    """Read and check everything but the weights."""
    files = find_files(recipe, root)
    source = read_base(recipe)
    if recipe.clean is not None:
        manifest = dataclasses.replace(source.manifest, clean=recipe.clean)
        source = dataclasses.replace(source, manifest=manifest)
    examples = [
        read_examples(entry, root, seed=recipe.seed, strict=strict) for entry in recipe.data
    ]
    judges = examples[0].classes if recipe.kind == "reranker" else None
    measures = [
        read_measure(entry, root, judges=judges, strict=strict) for entry in recipe.evaluation
    ]
    repeated: dict[str, int] = {}
    for entry, measure in zip(recipe.evaluation, measures, strict=True):
        count = count_repeated(measure.pairs, examples)
        # A file may be measured twice, in one language and across two.
        repeated[entry.file] = max(count, repeated.get(entry.file, 0))
        if count:
            logger.info(
                f"{count:,} of the {counted(len(measure.pairs), 'pair')} of {entry.file} "
                f"{by_number(count, 'is', 'are')} trained on too"
            )
    return Prepared(recipe, source, examples, measures, hash_files(files), repeated)


def _run(prepared: Prepared, *, resume: bool, threads: int | None) -> TrainedRun:
    import torch  # here, because everything above is checked without it

    from .distributed import joining
    from .loop import RunPaths, check_bfloat16
    from .loop import train as loop
    from .objectives.bi_encoder import BiEncoderTask
    from .objectives.cross_encoder import CrossEncoderTask

    if threads:
        torch.set_num_threads(threads)
    recipe = prepared.recipe
    if recipe.schedule.bf16 and not torch.cuda.is_available():
        check_bfloat16()
    with joining() as processes:
        kind = CrossEncoderTask if recipe.kind == "reranker" else BiEncoderTask
        task = kind(
            recipe, prepared.source, prepared.examples, prepared.measures, processes=processes
        )
        places = RunPaths(Path(recipe.output.folder))
        count = sum(p.numel() for p in task.module.parameters() if p.requires_grad)
        rows = sum(len(part) for part in prepared.examples)
        logger.info(f"training {count / 1e6:.1f} million weights on {counted(rows, 'example')}")
        if cut := sum(ids.cut for ids in task.ids):
            texts = sum(len(part.texts) for part in prepared.examples)
            some = counted(texts, "text")
            if recipe.kind == "reranker":
                some = counted(rows, "pair")
            are = by_number(cut, "is", "are")
            logger.info(f"{cut:,} of {some} {are} longer than max_tokens and {are} cut")
        state = loop(
            task,
            recipe.schedule,
            recipe.output,
            seed=recipe.seed,
            processes=processes,
            resume=resume,
        )
        bundles: tuple[Path, ...] = ()
        if processes.first:
            bundles = _finish(prepared, places, state, world=processes.world)
        processes.wait()
    return TrainedRun(places.folder, bundles, state.best_scores, state.step)


def _finish(prepared: Prepared, places: Any, state: Any, *, world: int) -> tuple[Path, ...]:
    from .card import provenance
    from .log import draw_log

    if not draw_log(places.log, places.folder / "training.png"):
        logger.info("no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')")
    training = provenance(
        prepared.recipe,
        prepared.hashes,
        prepared.examples,
        state,
        world=world,
        repeated=prepared.repeated,
    )
    bundles = []
    for i, precision in enumerate(prepared.recipe.output.precision):
        out = places.folder / ("bundle" if i == 0 else f"bundle-{precision}")
        _export(prepared, places.best, out, precision, training, state.best_scores)
        bundles.append(out)
        logger.info(f"wrote {out}")
    return tuple(bundles)


def _export(
    prepared: Prepared,
    best: Path,
    out: Path,
    precision: str,
    training: dict[str, Any],
    scores: dict[str, float],
) -> Manifest:
    from ..export.export import export
    from ..export.reranker import export_reranker
    from .card import write_card
    from .checkpoint import tensor_errors

    recipe = prepared.recipe
    with writing_folder(out, replace=True) as half, tensor_errors():
        shared: dict[str, Any] = {
            "precision": precision,
            "name": recipe.name,
            "licence": recipe.output.licence or prepared.source.manifest.licence,
            "weights": recipe.output.weights,
            "clean": prepared.source.manifest.clean,
            "training": training,
            "scores": {name: round(score, 4) for name, score in scores.items()},
        }
        if recipe.kind == "reranker":
            manifest = export_reranker(best, half, **shared)
        else:
            layers, sizes = recipe.output.layers, recipe.matryoshka
            manifest = export(best, half, layers=layers, matryoshka=sizes, **shared)
        card = write_card(manifest, recipe)
        (half / "README.md").write_text(card, "utf-8")
        return manifest.write(half)  # once more, with the card's hash
