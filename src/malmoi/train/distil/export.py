"""The last stages of a distillation: the model folder, its bundles, their scores and card."""

import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...bundle.manifest import Manifest
from ...encoders import load
from ...errors import counted
from ...export.build import write_layout
from ...export.export import export
from ...export.source import ModelSource
from ...export.static import export_static
from ...io.files import writing_folder
from ..card import file_table, provenance, score_table, write_card
from ..checkpoint import tensor_errors
from ..run_dir import RunPaths, write_bundles
from .data import DistillationData, Pair
from .recipe import Distillation, StaticTwin
from .student import save_folder
from .training import Context, Weights

logger = logging.getLogger(__name__)


def distil_card(manifest: Manifest, recipe: Distillation) -> str:
    """Say in Markdown what the model is, what it was made from and how well it does."""
    training = manifest.training
    about = (
        f"A sentence encoder of {manifest.dimension} dimensions with {manifest.pooling} pooling "
        f"({manifest.architecture}, up to {manifest.max_tokens} tokens, {manifest.precision}), "
        f"made with malmoi from `{recipe.base}` by distillation."
    )
    if recipe.languages:
        about += f"\nLanguages: {', '.join(recipe.languages)}."
    held = counted(training["held_out"], "sentence pair was", "sentence pairs were")
    body = ["## How it was made", "", *_stages(recipe), "", "## Data", ""]
    body += [*file_table(training["data"]), "", f"{held} held out of all of it.", "", "## Scores"]
    body += ["", *(score_table(manifest.scores) if manifest.scores else ["None was measured."])]
    example = 'encoder.similarity("배가 아프다", "My stomach hurts.")'
    use = ['encoder = malmoi.load("path/to/this/folder")', example]
    return write_card(manifest, about, body, use=use, matryoshka=recipe.matryoshka)


def _stages(recipe: Distillation) -> list[str]:
    lines = []
    if recipe.vocabulary:
        lines.append(f"1. {recipe.vocabulary.size:,} pieces were added to the tokenizer.")
        lines.append(f"1. Their rows started by `init = {recipe.vocabulary.init!r}`.")
    names = [f"`{one.model}`" for one in recipe.teachers] or [f"`{recipe.teacher or recipe.base}`"]
    lines.append(f"1. It learnt the vectors of {' and '.join(names)}.")
    if recipe.tune:
        titles = ", ".join(task.title for task in recipe.task)
        lines.append(f"1. It was tuned in {counted(len(recipe.tune), 'stage')} on: {titles}.")
    return lines


def write_model(context: Context, source: ModelSource, weights: Weights) -> Path:
    """Write the student with the given weights as a sentence-transformers folder."""
    student = context.student(context.recipe.distil)
    student.load(weights)
    # The student is trained with the mean of its states, whatever the base's pooling is.
    manifest = dataclasses.replace(source.manifest, pooling="mean", normalize=True)
    mean = dataclasses.replace(source, manifest=manifest, steps=("pool", "normalize"))
    folder = context.folder / "model"
    with writing_folder(folder, replace=True) as partial, tensor_errors():
        longest = context.recipe.max_tokens or source.manifest.max_tokens
        save_folder(student, source.root, context.words.spec, partial, longest=longest)
        write_layout(mean, partial, student.table.shape[1])
    return folder


def export_bundles(
    recipe: Distillation,
    data: DistillationData,
    model: Path,
    seconds: dict[str, float],
    *,
    licence: str,
) -> None:
    """Export the model in every precision asked for, each measured; `licence` is the base's."""
    pairs = {name: len(chosen) for name, chosen in data.chosen.items()}
    training = provenance(
        recipe, data.hashes, pairs=pairs, held_out=len(data.held), seconds=seconds
    )

    def write(folder: Path, precision: str) -> None:
        manifest = export(
            model,
            folder,
            precision=precision,
            layers=recipe.output.layers,
            name=recipe.name,
            licence=recipe.output.licence or licence,
            weights=recipe.output.weights,
            clean=recipe.clean,
            training=training,
            matryoshka=recipe.matryoshka,
        )
        scores = measure(folder, data)
        manifest = dataclasses.replace(manifest, languages=recipe.languages, scores=scores)
        (folder / "README.md").write_text(distil_card(manifest, recipe), "utf-8")
        manifest.write(folder)  # again, with the hash of the card
        for name, score in scores.items():
            logger.info(f"{name} {score:.4f} ({precision})")

    write_bundles(RunPaths(Path(recipe.output.folder)), recipe.output.precision, write)


def export_twin(
    twin: StaticTwin, data: DistillationData, bundle: Path, threads: int | None
) -> None:
    """Write the static twin of a bundle, which learns its vectors of all texts distilled on."""
    out = bundle.with_name("static")
    pairs = (text for pairs in data.chosen.values() for pair in pairs for text in pair)
    texts = dict.fromkeys([*pairs, *(text for texts in data.texts.values() for text in texts)])
    if out.exists():
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory(prefix="malmoi-texts-") as scratch:
        path = Path(scratch) / "texts/distilled.txt"
        path.parent.mkdir()
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
        export_static(bundle, out, dim=twin.dim, texts=[path], name=twin.name, threads=threads)


def measure(bundle: Path, data: DistillationData) -> dict[str, float]:
    """Score a bundle on the recipe's evaluations, and on finding the held-out translations."""
    encoder = load(bundle)
    scores = {m.title: round(m(encoder), 4) for m in data.measures}
    if data.held:
        there, back = translation_accuracy(encoder, data.held)
        scores |= {"held-out source>target @1": there, "held-out target>source @1": back}
    return scores


def translation_accuracy(encoder: Any, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Say how often a sentence's nearest is its own translation: from the source, to it."""
    source, target = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    similarity = source @ target.T
    own = np.arange(len(pairs))
    there, back = (similarity.argmax(1) == own).mean(), (similarity.argmax(0) == own).mean()
    return round(float(there), 4), round(float(back), 4)
