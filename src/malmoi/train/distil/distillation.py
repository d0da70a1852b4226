"""Multilingual distillation: a student learns the teacher's vector of a sentence in two languages.

Sentences are tokenized once into memory-mapped bags (`prepare`); then batches of similar length go
down the squared distance to their goals, with an in-batch contrastive term if asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...types import Floats, Ints
from ..batching import Step, token_batches
from ..checkpoint import write_tensors
from ..data import Measure
from .alignment import SentenceBags
from .recipe import Distil, StageSchedule
from .student import HEAD, Student

WEIGHTS = "weights.safetensors"
_DRAWN = 100_000  # rows that are drawn at once, and then sorted into batches


@dataclass(frozen=True)
class ParallelText:
    """Sentences with their translations, and how often a sentence is drawn, relative to the others.

    `source` is what the teacher reads; `target` may be the same list (the student then learns the
    teacher's own language only).
    """

    name: str
    source: Sequence[str]
    target: Sequence[str]
    weight: float = 1.0


@dataclass(frozen=True)
class DistillationTexts:
    """Everything a run reads, row by row: ids of both sides, the goal's row, the drawing weight.

    Rows of the same goal mean the same; `goals` (n, width) are the vectors themselves.
    """

    source: SentenceBags
    target: SentenceBags
    goal: Ints
    weight: Floats
    goals: NDArray[np.float16]

    def goal_at(self, rows: Ints) -> Tensor:
        """Give the unit goals of the chosen rows: (n, width)."""
        found = torch.from_numpy(self.goals[self.goal[rows]].astype(np.float32))
        return torch.nn.functional.normalize(found, dim=1)


def prepare(
    texts: Sequence[ParallelText],
    student: Student,
    goal: Ints,
    goals: NDArray[np.float16],
    folder: Path,
) -> DistillationTexts:
    """Tokenize both sides, a chunk at a time, on disk; `goal` (n,) is the row of each goal."""
    folder.mkdir(parents=True, exist_ok=True)
    weight = np.concatenate([np.full(len(t.source), t.weight, np.float32) for t in texts])

    def ids(lists: Iterable[Sequence[str]]) -> Iterator[list[int]]:
        for part in lists:
            for begin in range(0, len(part), 8192):
                yield from student.ids(part[begin : begin + 8192])

    source = SentenceBags.write(folder / "source.i32", ids(t.source for t in texts))
    target = SentenceBags.write(folder / "target.i32", ids(t.target for t in texts))
    return DistillationTexts(source, target, goal, weight, goals)


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


def bag_ids(bags: SentenceBags, rows: Ints) -> list[list[int]]:
    """Give the ids of the chosen bags as lists."""
    flat, starts = bags.take(rows)
    return [part.tolist() for part in np.split(flat, starts[1:])]


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


class StageTask:
    """A stage in training: a student, the scores that measure it, the weights that it hands on."""

    measures: Sequence[Measure] = ()

    def __init__(self, student: Student, stage: StageSchedule, *, seed: int) -> None:
        self.student, self.seed = student, seed
        self.stage: Any = stage
        self.module: torch.nn.Module = student.model
        self.heads: list[Tensor] = []

    def optimizer(self, schedule: object) -> torch.optim.Optimizer:
        """Make the student's own optimizer, with rates for new and old rows."""
        return self.student.optimizer(self.stage, self.heads)

    def plan(self, epoch: int) -> list[Step]:
        """Give the steps of an epoch."""
        raise NotImplementedError

    def loss(self, step: Step) -> Tensor:
        """Give the loss of a step."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Score the student on the recipe's evaluations."""
        return {one.title: round(one(self.student), 4) for one in self.measures}

    def save(self, folder: Path) -> None:
        """Write the student's weights, which the next stage starts from."""
        write_tensors(self.student.weights(), folder / WEIGHTS)


class DistilTask(StageTask):
    """The stage [distil] for the training loop: batches of rows, and their distance to the goals.

    With goals that are wider than the student, its vectors go through a layer that is thrown away.
    """

    def __init__(
        self, student: Student, data: DistillationTexts, stage: Distil, *, seed: int, share: slice
    ) -> None:
        """Take the texts; `share` are the rows of each batch that this process reads."""
        super().__init__(student, stage, seed=seed)
        self.data, self.share = data, share
        width, wanted = student.table.shape[1], data.goals.shape[1]
        self.head: torch.nn.Linear | None = None
        if wanted != width:
            self.head = torch.nn.Linear(width, wanted, bias=False)
            torch.nn.init.orthogonal_(self.head.weight)
            student.model.add_module(HEAD, self.head)
            self.heads = [self.head.weight]

    def plan(self, epoch: int) -> list[Step]:
        """Draw the batches of an epoch: the whole stage where it is a number of steps."""
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
        vectors = self.student.vectors(bag_ids(side, rows))
        if self.head is not None:
            vectors = torch.nn.functional.normalize(self.head(vectors), dim=1)
        goal = self.data.goal_at(rows)
        far = distance(vectors, goal)
        if not self.stage.contrast or len(rows) < 2:
            return far
        near = contrast(vectors, goal, self.data.goal[rows], self.stage.temperature)
        total: Tensor = far + self.stage.contrast * near
        return total
