"""Multilingual distillation: a student learns the teacher's vector of a sentence in two languages.

Batches of similar length go down the squared distance to their goals, with an in-batch contrastive
term if asked for. The best student is exported and measured, also on the held-out translations.
"""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...bundle.manifest import Manifest
from ...encoders import TextEncoder, load
from ...errors import counted
from ...export.export import export
from ...export.source import ModelSource
from ...types import Ints
from ..batching import Step, token_batches
from ..data import Measure
from ..distributed import Processes
from ..loop import best_precision, check_bfloat16
from ..objective import FinishedRun, PreparedData, WrittenBundle
from ..run_dir import bundle_options, file_table, provenance, score_table, write_card
from .goals import DistillationTexts, open_teachers, read_texts
from .recipe import Distillation, DistillationData, Pair
from .student import Student, open_model

logger = logging.getLogger(__name__)

_DRAWN = 100_000  # rows that are drawn at once, and then sorted into batches


def distance(vectors: Tensor, goal: Tensor) -> Tensor:
    """Squared distance of unit vectors, summed over dimensions: 2 − 2 cos."""
    goal = torch.nn.functional.normalize(goal, dim=1)
    return (vectors - goal).square().sum(1).mean()


def contrast(vectors: Tensor, goal: Tensor, key: Ints, temperature: float) -> Tensor:
    """Cross-entropy of finding one's own goal in the batch; equal goals do not compete."""
    goal = torch.nn.functional.normalize(goal, dim=1)
    return find_own(vectors @ goal.T / temperature, key)


def find_own(scores: Tensor, keys: NDArray[Any] | None = None) -> Tensor:
    """Cross-entropy of column i for row i, (n, n or more); equal keys (n,) do not compete."""
    if keys is not None:
        same = torch.from_numpy(keys[:, None] == keys[None, :])
        same.fill_diagonal_(False)
        scores[:, : len(keys)] = scores[:, : len(keys)].masked_fill(same, float("-inf"))
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def draw(
    data: DistillationTexts,
    rng: np.random.Generator,
    *,
    tokens: int,
    source_share: float,
    count: int = _DRAWN,
) -> list[Step]:
    """Draw rows by weight and lay them into batches; a step's `data` is 1 for the source side."""
    chance = data.weight.astype(np.float64)
    chance /= chance.sum()  # summed in float32, a hundred thousand of them would not make 1
    drawn = rng.choice(len(chance), count, p=chance)
    on_source = rng.random(count) < source_share
    plan = []
    for source, side in ((True, data.source), (False, data.target)):
        rows = np.unique(drawn[on_source == source])  # twice in a batch teaches nothing
        if len(rows):
            lengths = side.sizes_at(rows)
            plan += [Step(int(source), rows[b]) for b in token_batches(lengths, tokens, rng)]
    return [plan[i] for i in rng.permutation(len(plan))]


class DistilTask:
    """A distillation for the training loop: batches of rows, and their distance to the goals."""

    def __init__(
        self,
        recipe: Distillation,
        source: ModelSource,
        student: Student,
        data: DistillationTexts,
        measures: Sequence[Measure] = (),
        *,
        share: slice = slice(None),
    ) -> None:
        """Take the texts; `share` are the rows of each batch that this process reads."""
        self.stage, self.seed, self.source = recipe.distil, recipe.seed, source
        self.student, self.data, self.measures, self.share = student, data, measures, share
        self.module: torch.nn.Module = student.model

    def optimizer(self, schedule: object) -> torch.optim.Optimizer:
        """Make the student's own optimizer, with a rate for the embedding rows."""
        return self.student.optimizer(self.stage)

    def plan(self, epoch: int) -> list[Step]:
        """Draw the batches of an epoch: the whole run where it is a number of steps."""
        rng, stage = np.random.default_rng((self.seed, epoch)), self.stage
        steps: list[Step] = []
        while len(steps) < (stage.steps or 1):
            share = stage.source_share
            steps += draw(self.data, rng, tokens=stage.tokens, source_share=share)
        return steps[: stage.steps or None]

    def loss(self, step: Step) -> Tensor:
        """Give the distance to the goals, and the finding of one's own among all."""
        rows = step.rows[self.share]
        if not len(rows):  # more processes than rows
            return torch.zeros((), requires_grad=True)
        side = self.data.source if step.data else self.data.target
        vectors = self.student.vectors(side.lists(rows))
        goal = self.data.goal_at(rows)
        far = distance(vectors, goal)
        if not self.stage.contrast or len(rows) < 2:
            return far
        near = contrast(vectors, goal, self.data.goal[rows], self.stage.temperature)
        return far + self.stage.contrast * near

    def evaluate(self) -> dict[str, float]:
        """Score the student on the recipe's evaluations."""
        return {one.title: round(one(self.student), 4) for one in self.measures}

    def save(self, folder: Path) -> None:
        """Write the student as a sentence-transformers folder."""
        self.student.save(self.source, folder)


def open_student(recipe: Distillation, root: Path) -> Student:
    """Open the base as the student, in the precision that this machine computes in."""
    if recipe.precision == "bfloat16":
        check_bfloat16("precision is bfloat16")
    precision = best_precision() if recipe.precision == "auto" else recipe.precision
    return Student(*open_model(root), precision=precision, longest=recipe.distil.longest)


def make_task(recipe: Distillation, prepared: PreparedData, processes: Processes) -> DistilTask:
    """Open the student and its teachers, and tokenize what it learns."""
    folder, data, rank = Path(recipe.output.folder), prepared.data, processes.rank
    # In turn: a teacher's cache, its exported bundle and the goals are written by one process.
    with processes.first_before_others():
        student = open_student(recipe, prepared.source.root)
        threads = torch.get_num_threads()
        teacher = open_teachers(recipe, data, student, folder, threads=threads)
        texts = read_texts(recipe, data, teacher, student, folder, rank=rank)
    student.embeddings.sparse = processes.world == 1  # gradients of several are added
    share = slice(rank, None, processes.world)
    return DistilTask(recipe, prepared.source, student, texts, data.measures, share=share)


def write_bundle(
    run: FinishedRun[Distillation, PreparedData], folder: Path, precision: str
) -> WrittenBundle:
    """Export the best student, and measure the bundle."""
    recipe, data = run.recipe, run.prepared.data
    pairs = {name: len(chosen) for name, chosen in data.chosen.items()}
    training = provenance(recipe, data.hashes, run.state, pairs=pairs, held_out=len(data.held))
    options = bundle_options(recipe, run.prepared.source, training, precision)
    manifest = export(run.paths.best, folder, layers=recipe.output.layers, **options)
    scores = measure(load(folder), data)
    for name, score in scores.items():
        logger.info(f"{name} {score:.4f} ({precision})")
    manifest = dataclasses.replace(manifest, languages=recipe.languages, scores=scores)
    return WrittenBundle(manifest, distil_card(manifest, recipe), scores=scores)


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
    names = [f"`{one.model}`" for one in recipe.teachers] or [f"`{recipe.teacher or recipe.base}`"]
    held = counted(training["held_out"], "sentence pair was", "sentence pairs were")
    body = [f"It learnt the vectors of {' and '.join(names)}.", "", "## Data", ""]
    body += [*file_table(training["data"]), "", f"{held} held out of all of it.", "", "## Scores"]
    body += ["", *(score_table(manifest.scores) if manifest.scores else ["None was measured."])]
    example = 'encoder.similarity("배가 아프다", "My stomach hurts.")'
    use = ['encoder = malmoi.load("path/to/this/folder")', example]
    return write_card(manifest, about, body, use=use)


def measure(encoder: TextEncoder, data: DistillationData) -> dict[str, float]:
    """Score a bundle on the recipe's evaluations, and on finding the held-out translations."""
    scores = {one.title: round(one(encoder), 4) for one in data.measures}
    if data.held:
        there, back = translation_accuracy(encoder, data.held)
        scores |= {"held-out source>target @1": there, "held-out target>source @1": back}
    return scores


def translation_accuracy(encoder: TextEncoder, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Say how often a sentence's nearest is its own translation: from the source, to it."""
    source, target = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    similarity = source @ target.T
    own = np.arange(len(pairs))
    there, back = (similarity.argmax(1) == own).mean(), (similarity.argmax(0) == own).mean()
    return round(float(there), 4), round(float(back), 4)
