"""The last stage: the trained weights as a model folder, its bundles, their scores and card."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...encoder import load
from ...files import writing_folder
from ..build import write_layout
from ..card import versions
from ..checkpoint import tensor_errors
from ..export import export
from ..source import Source
from ..student import save_folder
from .card import write_card
from .material import Material
from .run import bundle_folders
from .settings import Distillation
from .texts import Pair
from .workshop import Workshop

logger = logging.getLogger(__name__)


def write_model(shop: Workshop, source: Source, weights: Path) -> Path:
    """Write the student with the given weights as a sentence-transformers folder."""
    student = shop.student(shop.recipe.distil)
    student.load_checkpoint(weights, optimizer=False)
    # The student is trained with the mean of its states, whatever the base's pooling is.
    manifest = dataclasses.replace(source.manifest, pooling="mean", normalize=True)
    mean = dataclasses.replace(source, manifest=manifest, steps=("pool", "normalize"))
    folder = shop.folder / "model"
    with writing_folder(folder, replace=True) as half, tensor_errors():
        save_folder(student, source.root, shop.words.spec, half)
        write_layout(mean, half, student.table.shape[1])
    return folder


def write_bundles(
    recipe: Distillation, material: Material, model: Path, training: dict[str, Any], *, licence: str
) -> None:
    """Export the model in every precision asked for, each measured; `licence` is the base's."""
    for out, precision in zip(bundle_folders(recipe), recipe.output.precision, strict=True):
        with writing_folder(out, replace=True) as half, tensor_errors():
            manifest = export(
                model,
                half,
                precision=precision,
                layers=recipe.output.layers,
                name=recipe.name,
                licence=recipe.output.licence or licence,
                weights=recipe.output.weights,
                clean=recipe.clean,
                training=training,
                matryoshka=recipe.matryoshka,
            )
            scores = measure(half, material)
            manifest = dataclasses.replace(manifest, languages=recipe.languages, scores=scores)
            (half / "README.md").write_text(write_card(manifest, recipe), "utf-8")
            manifest.write(half)  # once more, with the card's hash
        shown = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
        logger.info(f"wrote {out}{': ' if shown else ''}{shown}")


def measure(bundle: Path, material: Material) -> dict[str, float]:
    """Score a bundle on the recipe's evaluations, and on finding the held-out translations."""
    encoder = load(bundle)
    scores = {m.title: round(m(encoder), 4) for m in material.measures}
    if material.held:
        there, back = translation_accuracy(encoder, material.held)
        scores |= {"held-out source>target @1": there, "held-out target>source @1": back}
    return scores


def translation_accuracy(encoder: Any, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Say how often a sentence's nearest is its own translation: from the source, to it."""
    source, target = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    likeness = source @ target.T
    own = np.arange(len(pairs))
    there, back = (likeness.argmax(1) == own).mean(), (likeness.argmax(0) == own).mean()
    return round(float(there), 4), round(float(back), 4)


def provenance(
    recipe: Distillation, material: Material, seconds: dict[str, float]
) -> dict[str, Any]:
    """Everything needed to make the model again, for the manifest's field "training"."""
    return {
        "recipe": recipe.to_json(),
        "seed": recipe.seed,
        "versions": versions(),
        "data": material.hashes,
        "pairs": {name: len(pairs) for name, pairs in material.chosen.items()},
        "held_out": len(material.held),
        "seconds": seconds,
    }
