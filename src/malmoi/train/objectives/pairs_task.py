"""Encoders and rerankers in training: which task a recipe trains, how its bundles are written."""

import logging
from collections.abc import Iterator
from pathlib import Path

from ...bundle.manifest import Manifest
from ...errors import by_number, counted
from ...export.export import export
from ...export.reranker import export_reranker
from ...export.source import ModelSource
from ..card import bundle_options, provenance, rounded, score_table, write_card
from ..distributed import Processes
from ..objective import FinishedRun, WrittenBundle
from ..vocabulary import with_terms
from .bi_encoder import BiEncoderTask
from .cross_encoder import CrossEncoderTask
from .pairs import PreparedPairs, Recipe, named_files

logger = logging.getLogger(__name__)


def make_task(
    recipe: Recipe, prepared: PreparedPairs, processes: Processes
) -> BiEncoderTask | CrossEncoderTask:
    """Load the model and tokenise the examples."""
    kind = CrossEncoderTask if recipe.kind == "reranker" else BiEncoderTask
    source = _with_vocabulary(recipe, prepared, processes)
    task = kind(recipe, source, prepared.examples, prepared.measures, processes=processes)
    count = sum(p.numel() for p in task.module.parameters() if p.requires_grad)
    rows = sum(len(part) for part in prepared.examples)
    logger.info(f"training {count / 1e6:.1f} million weights on {counted(rows, 'example')}")
    if cut := sum(ids.cut for ids in task.ids):
        texts = sum(len(part.texts) for part in prepared.examples)
        some = counted(rows, "pair") if recipe.kind == "reranker" else counted(texts, "text")
        are = by_number(cut, "is", "are")
        logger.info(f"{cut:,} of {some} {are} longer than max_tokens and {are} cut")
    return task


def _with_vocabulary(recipe: Recipe, prepared: PreparedPairs, processes: Processes) -> ModelSource:
    """Give the base with the words that its tokenizer is to learn, written by the first process."""
    if recipe.vocabulary is None:
        return prepared.source
    start = Path(recipe.output.folder) / "start"
    if not processes.first:
        processes.wait()
    source = with_terms(
        prepared.source,
        start,
        prepared.terms,
        longest=recipe.vocabulary.longest,
        most=recipe.vocabulary.most,
        seed=recipe.seed,
    )
    if processes.first:
        processes.wait()
    return source


def write_bundle(
    run: FinishedRun[Recipe, PreparedPairs], folder: Path, precision: str
) -> WrittenBundle:
    """Export the best model."""
    recipe, prepared, state = run.recipe, run.prepared, run.state
    training = provenance(
        recipe,
        prepared.hashes,
        state,
        examples=[len(part) for part in prepared.examples],
        repeated=prepared.repeated,
        processes=run.task.processes.world,
    )
    shared = bundle_options(recipe, prepared.source, training, precision)
    shared["scores"] = rounded(state.best_scores)
    if recipe.kind == "reranker":
        manifest = export_reranker(run.paths.best, folder, **shared)
    else:
        layers, sizes = recipe.output.layers, recipe.matryoshka
        manifest = export(run.paths.best, folder, layers=layers, matryoshka=sizes, **shared)
    return WrittenBundle(manifest, pairs_card(manifest, recipe))


def pairs_card(manifest: Manifest, recipe: Recipe) -> str:
    """Say what an encoder or a reranker is, what it was made from and how well it does."""
    if manifest.kind == "reranker":
        labels = f"the labels {', '.join(manifest.labels)}" if manifest.labels else "one score"
        what = f"A reranker with {labels}"
        call = f"reranker.{'probabilities' if manifest.labels else 'score'}"
        example = f'{call}([("배가 아프다", "복통이 있다")])'
        use = ['reranker = malmoi.load_reranker("path/to/this/folder")', example]
    else:
        what = f"A sentence encoder of {manifest.dimension} dimensions"
        what += f" with {manifest.pooling} pooling"
        example = 'encoder.similarity("배가 아프다", "복통이 있다")'
        use = ['encoder = malmoi.load("path/to/this/folder")', example]
    about = (
        f"{what} ({manifest.architecture}, up to {manifest.max_tokens} tokens, "
        f"{manifest.precision}), trained with malmoi from `{recipe.base}`."
    )
    body = list(_body(manifest, recipe))
    return write_card(manifest, about, body, use=use, matryoshka=recipe.matryoshka)


def _body(manifest: Manifest, recipe: Recipe) -> Iterator[str]:
    training = manifest.training
    yield from ("## Data", "", "| file | for | sha256 |", "|---|---|---|")
    for file, use in named_files(recipe):
        yield f"| {file} | {use} | {training['data'][file][:16]}… |"
    yield from ("", "## Scores", "")
    if manifest.scores:
        yield from score_table(manifest.scores)
        steps, best = training["steps"], training["best_step"]
        yield from ("", f"The best of {steps:,} steps is step {best:,}.")
    else:
        yield f"None was measured in the {training['steps']:,} steps of training."
    for name, count in training["repeated"].items():
        if count:
            pairs, stand = counted(count, "pair"), by_number(count, "stands", "stand")
            yield from ("", f"{pairs} of {name} {stand} in the training data too.")
    if recipe.layers:
        yield from ("", f"It started as the base with {recipe.layers} of its layers.")
