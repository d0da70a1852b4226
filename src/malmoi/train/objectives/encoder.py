"""Encoders and rerankers: what a recipe prepares, which task trains it, how it is exported."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import by_number, counted
from ...export.source import ModelSource
from ..base_model import read_base
from ..data import (
    Measure,
    TrainingExamples,
    count_repeated,
    find_files,
    hash_files,
    learnt_files,
    read_examples,
    read_measure,
)
from ..run_dir import RunPaths, write_bundles
from .recipes import Recipe

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs that can be checked without torch.

    `hashes` are of all files, `learnt` of those that are trained on; `repeated` counts the pairs
    of each evaluation that are trained on too.
    """

    recipe: Recipe
    source: ModelSource
    examples: list[TrainingExamples]
    measures: list[Measure]
    hashes: dict[str, str]
    repeated: dict[str, int]

    @property
    def learnt(self) -> dict[str, str]:
        """The hashes of the files that are trained on."""
        return {name: self.hashes[name] for name in learnt_files(self.recipe)}


def prepare(recipe: Recipe, root: Path, *, strict: bool = False) -> Prepared:
    """Read and check everything but the weights."""
    files = find_files(recipe, root)
    reranker = recipe.kind == "reranker"
    source = read_base(
        recipe.base,
        max_tokens=recipe.max_tokens,
        clean=recipe.clean,
        pooling=recipe.pooling,
        layers=recipe.layers,
        rerankers=reranker,
    )
    examples = [
        read_examples(entry, root, seed=recipe.seed, strict=strict) for entry in recipe.data
    ]
    labels = examples[0].classes if reranker else None
    measures = [
        read_measure(entry, root, judges=labels, strict=strict) for entry in recipe.evaluation
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


def make_task(recipe: Recipe, prepared: Prepared, processes: Any) -> Any:
    """Load the model and tokenise the examples."""
    from .bi_encoder import BiEncoderTask
    from .cross_encoder import CrossEncoderTask

    kind = CrossEncoderTask if recipe.kind == "reranker" else BiEncoderTask
    task = kind(recipe, prepared.source, prepared.examples, prepared.measures, processes=processes)
    count = sum(p.numel() for p in task.module.parameters() if p.requires_grad)
    rows = sum(len(part) for part in prepared.examples)
    logger.info(f"training {count / 1e6:.1f} million weights on {counted(rows, 'example')}")
    if cut := sum(ids.cut for ids in task.ids):
        texts = sum(len(part.texts) for part in prepared.examples)
        some = counted(rows, "pair") if recipe.kind == "reranker" else counted(texts, "text")
        are = by_number(cut, "is", "are")
        logger.info(f"{cut:,} of {some} {are} longer than max_tokens and {are} cut")
    return task


def finish(
    recipe: Recipe, prepared: Prepared, task: Any, paths: RunPaths, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    """Export the best model in every precision."""
    from ...export.export import export
    from ...export.reranker import export_reranker
    from ..card import bundle_options, provenance, write_card

    training = provenance(
        recipe,
        prepared.hashes,
        state,
        examples=[len(part) for part in prepared.examples],
        repeated=prepared.repeated,
        processes=task.processes.world,
    )

    def write(folder: Path, precision: str) -> None:
        shared = bundle_options(recipe, prepared.source, training, precision)
        shared["scores"] = {name: round(score, 4) for name, score in state.best_scores.items()}
        if recipe.kind == "reranker":
            manifest = export_reranker(paths.best, folder, **shared)
        else:
            layers, sizes = recipe.output.layers, recipe.matryoshka
            manifest = export(paths.best, folder, layers=layers, matryoshka=sizes, **shared)
        (folder / "README.md").write_text(write_card(manifest, recipe), "utf-8")
        manifest.write(folder)  # again, with the hash of the card

    return tuple(write_bundles(paths, recipe.output.precision, write)), {}
