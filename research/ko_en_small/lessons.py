"""What the student learns beside its goals: scored pairs, positive pairs, neighbours, replay.

Every task draws its own batch and gives a loss. Losses on vectors are taken at several lengths of
the vector (Matryoshka), so that a cut vector is a good one too.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from malmoi.errors import DataError, counted
from malmoi.export.module import set_dropout
from malmoi.training.distil.goals import DistillationTexts
from malmoi.training.distil.student import Student, embed_ids
from malmoi.training.distil.training import contrast, distance, draw, find_own
from malmoi.types import Floats, Ints

from .recipe import KINDS, TaskRecipe

normalize = torch.nn.functional.normalize
_SCALE = 20.0  # of cosines in losses that rank
# A score, and the two sentences in each of their languages.
Row = tuple[float, tuple[str, ...], tuple[str, ...]]


def cosent(scores: Tensor, labels: Tensor) -> Tensor:
    """Rank pairs as their labels do: log(1 + Σ exp(20 (s_j − s_i))) over label_i > label_j."""
    gaps = _SCALE * (scores[None, :] - scores[:, None])  # i must lie above j
    wrong = labels[:, None] > labels[None, :]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps[wrong]]), 0)


def in_batch(anchors: Tensor, others: Tensor, *, keys: Sequence[object] = ()) -> Tensor:
    """Cross-entropy of finding one's own positive; anchor i's is row i of `others`.

    `others` may hold further rows (hard negatives) after the positives. Rows whose key equals the
    anchor's do not compete.
    """
    return find_own(_SCALE * anchors @ others.T, np.array(keys, dtype=object) if keys else None)


@dataclass(frozen=True)
class Matryoshka:
    """Lengths of the vector at which a loss is taken, with the weight of each."""

    sizes: tuple[int, ...] = (384, 256, 128, 64)
    weights: tuple[float, ...] = (1.0, 0.3, 0.3, 0.3)

    def __call__(self, loss: Callable[..., Tensor], *vectors: Tensor) -> Tensor:
        """Add the loss at every length, each prefix made unit length again."""
        total = torch.zeros(())
        for size, weight in zip(self.sizes, self.weights, strict=True):
            total = total + weight * loss(*(normalize(v[:, :size], dim=1) for v in vectors))
        return total / sum(self.weights)


@dataclass
class Lesson:
    """Something that a student learns, as its [[task]] says: draws its batch, gives its loss."""

    task: TaskRecipe

    @property
    def name(self) -> str:
        """What the log calls it."""
        return self.task.title

    @property
    def size(self) -> int:
        """The examples of a batch."""
        return self.task.size or KINDS[self.task.kind].size

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Draw a batch and give the loss, with gradients."""
        raise NotImplementedError


def pick(count: int, size: int, rng: np.random.Generator) -> list[int]:
    """Draw `size` different rows of `count`, or all of them."""
    drawn: list[int] = rng.choice(count, min(count, size), replace=False).tolist()
    return drawn


def pick_runs(count: int, runs: int, length: int, rng: np.random.Generator) -> list[int]:
    """Draw `runs` stretches of `length` neighbouring rows of `count`."""
    starts = [length * i for i in pick(max(1, count // length), runs, rng)]
    return [row for start in starts for row in range(start, min(start + length, count))]


def pick_by(weights: Floats, size: int, rng: np.random.Generator) -> Ints:
    """Draw `size` different rows, or all of them, each as often as its weight says."""
    chance = weights.astype(np.float64)
    size = min(size, len(chance))
    drawn: Ints = rng.choice(len(chance), size, replace=False, p=chance / chance.sum())
    return drawn


@dataclass
class ScoredPairs(Lesson):
    """Sentence pairs with a score, in one or several languages, ranked by CoSENT.

    A row is (score, left, right); left and right hold the same sentence in each language, and
    every language of the left is compared with every one of the right.
    """

    rows: Sequence[Row]

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Rank every language's left against every language's right."""
        chosen = [self.rows[i] for i in pick(len(self.rows), self.size, rng)]
        lefts, rights = len(chosen[0][1]), len(chosen[0][2])
        texts = [t for _, left, right in chosen for t in (*left, *right)]
        vectors = student.embed(texts).view(len(chosen), lefts + rights, -1)
        # Ranks are learnt within a pair of languages: across them, similarities have another level,
        # and evening that out is not what the scores are for.
        one = vectors[:, :lefts].repeat_interleave(rights, 1).transpose(0, 1).flatten(0, 1)
        two = vectors[:, lefts:].repeat(1, lefts, 1).transpose(0, 1).flatten(0, 1)
        labels = torch.tensor([row[0] for row in chosen])
        kinds = lefts * rights

        def ranked(a: Tensor, b: Tensor) -> Tensor:
            scores = (a * b).sum(1).view(kinds, -1)
            return torch.stack([cosent(each, labels) for each in scores]).mean()

        # Near 1 at the start, whatever the size of the batch.
        return nested(ranked, one, two) / math.log(len(labels) + 1)


def blend_scores(
    rows: Sequence[Row], similarities: Floats, *, share: float, highest: float
) -> list[Row]:
    """Mix gold scores (0 to `highest`) with a teacher's similarities of the same pairs."""
    return [
        ((1 - share) * score / highest + share * float(alike), left, right)
        for (score, left, right), alike in zip(rows, similarities, strict=True)
    ]


@dataclass
class PositivePairs(Lesson):
    """Groups of texts that mean the same; two are drawn, the other groups are the negatives.

    `hard[i]` are texts near group i that mean something else. A task's `run` > 1 draws stretches
    of neighbouring groups, for data sorted so that neighbours are hard to distinguish.
    """

    groups: Sequence[Sequence[str]]
    hard: Sequence[Sequence[str]] = ()
    keys: Sequence[object] = ()

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Find the other member of one's group among all, both ways."""
        run = self.task.run
        rows = pick_runs(len(self.groups), self.size // run, run, rng)
        drawn = [[self.groups[r][i] for i in pick(len(self.groups[r]), 2, rng)] for r in rows]
        hard = [h[int(rng.integers(len(h)))] for r in rows if self.hard and (h := self.hard[r])]
        texts = [d[0] for d in drawn] + [d[1] for d in drawn] + hard
        keys = [self.keys[r] for r in rows] if self.keys else ()
        n = len(rows)

        def both(v: Tensor) -> Tensor:
            there, back = (
                in_batch(v[:n], v[n:], keys=keys),
                in_batch(v[n : 2 * n], v[:n], keys=keys),
            )
            return (there + back) / 2

        return nested(both, student.embed(texts))


@dataclass
class TeacherReplay(Lesson):
    """Keeps the student at its teacher's vectors while it learns other things.

    `alter` may change the ids of a translation, given those of its source, before it is read.
    """

    data: DistillationTexts
    alter: Callable[[list[int], list[int], np.random.Generator], list[int]] | None = None

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Take one more batch of the distillation."""
        share = self.task.source_share
        step = draw(self.data, rng, tokens=self.task.tokens, source_share=share, count=4000)[0]
        rows, source = step.rows, bool(step.data)
        ids = (self.data.source if source else self.data.target).lists(rows)
        if self.alter and not source:
            pairs = zip(ids, self.data.source.lists(rows), strict=True)
            ids = [self.alter(target, other, rng) for target, other in pairs]
        vectors = student.vectors(ids)
        goal = self.data.goal_at(rows)
        near = contrast(vectors, goal, self.data.goal[rows], 0.05)
        return distance(vectors, goal) + self.task.contrast * near


def nearest_rows(goals: Floats, count: int) -> Ints:
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

    So it has near pairs as well as far ones, each with a similarity by the teacher at no cost.

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
        vectors = embed_ids(student, side.lists(rows))
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
    task: TaskRecipe,
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


@contextlib.contextmanager
def dropout(student: Student, share: float, *, seed: int) -> Iterator[None]:
    """Let the student forget a share of its states for a while, the same ones for a seed."""
    modules = [m for m in student.model.modules() if isinstance(m, torch.nn.Dropout)]
    before = [module.p for module in modules]
    set_dropout(student.model, share)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        for module, p in zip(modules, before, strict=True):
            module.p = p
