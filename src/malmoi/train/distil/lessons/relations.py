"""Distillation among neighbours: the student also orders pairs of sentences as its teacher does.

A batch holds sentences with some of their nearest ones, so that it has near pairs as well as far
ones; every pair of the batch has a similarity by the teacher, at no cost beyond the batch itself.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import DataError, counted
from ....types import Ints
from ..distillation import DistillationTexts, bag_ids, contrast, distance
from ..recipe import LessonRecipe
from ..student import Student, embed_ids
from .base import Lesson, Matryoshka, cosent, normalize, pick_by


def nearest_rows(goals: NDArray[np.float32], count: int) -> Ints:
    """Give each row's nearest others by cosine, the nearest first: (n, count)."""
    if len(goals) <= count:
        raise DataError(
            f"{counted(len(goals), 'sentence is', 'sentences are')} too few for {count} neighbours "
            "each; expected more. Draw more of the parallel entries."
        )
    unit = normalize(torch.from_numpy(goals), dim=1)
    return nearest(unit, torch.arange(len(unit)), count)


def nearest(unit: Tensor, keys: Tensor, count: int, *, block: int = 512) -> Ints:
    """Give the nearest others of each row (n, dim), none of which has its key (n,): (n, count)."""
    found = []
    for begin in range(0, len(unit), block):
        scores = unit[begin : begin + block] @ unit.T
        scores[keys[begin : begin + block, None] == keys] = -torch.inf
        found.append(scores.topk(count, dim=1).indices.numpy())
    return np.concatenate(found)


@dataclass
class Neighbours(Lesson):
    """A batch of sentences with their neighbours: at the teacher's vectors, and in its order.

    `rows` are those of `data` that take part, `near` (n, k) the neighbours of each (numbers
    in `rows`). A batch has `size` sentences drawn by weight, and three neighbours of each: the
    nearest, one of the next few, one of all.
    """

    data: DistillationTexts
    rows: Ints
    near: Ints

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Take the distance to the goals, and the order of near and of random pairs."""
        rows = self._batch(rng)
        goal = self.data.goal_at(rows)
        side = self.data.source if rng.random() < self.task.source_share else self.data.target
        vectors = embed_ids(student, bag_ids(side, rows))
        return toward(vectors, goal, self.data.goal[rows], self.task, nested, rng)

    def _batch(self, rng: np.random.Generator) -> Ints:
        seeds = pick_by(self.data.weight[self.rows], self.size, rng)
        few, all_ = min(8, self.near.shape[1]), self.near.shape[1]
        picked = [seeds, self.near[seeds, 0]]
        for low, high in ((min(1, few - 1), few), (few - 1, all_)):
            picked.append(self.near[seeds, rng.integers(low, high, len(seeds))])
        rows: Ints = self.rows[np.unique(np.concatenate(picked))]
        rng.shuffle(rows)
        return rows


def toward(
    vectors: Tensor,
    goal: Tensor,
    keys: Ints,
    task: LessonRecipe,
    nested: Matryoshka,
    rng: np.random.Generator,
) -> Tensor:
    """Bring vectors to their goals, and pairs of them into the order that the goals' pairs have.

    The task's `contrast` weighs the finding of one's own goal among all (equal keys do not
    compete) and `relations` the order, among the vectors and between them and the goals.
    """
    one, two, alike = _ordered(goal, rng)

    def order(v: Tensor, g: Tensor) -> Tensor:
        within = cosent((v[one] * v[two]).sum(1), alike)
        across = cosent((v[one] * g[two]).sum(1), alike)
        return (within + across) / 2 / math.log(len(alike) + 1)

    near = task.contrast * contrast(vectors, goal, keys, 0.05)
    return 2.0 * distance(vectors, goal) + near + task.relations * nested(order, vectors, goal)


def _ordered(goal: Tensor, rng: np.random.Generator) -> tuple[Ints, Ints, Tensor]:
    """Choose pairs of a batch, the 200 nearest and 400 others, with the teacher's similarity."""
    one, two = np.triu_indices(len(goal), 1)
    alike = (goal @ goal.T).numpy()[one, two]
    others = rng.choice(len(alike), min(400, len(alike)), replace=False)
    kept = np.unique(np.concatenate([np.argsort(-alike)[:200], others]))
    return one[kept], two[kept], torch.from_numpy(alike[kept])
