"""Names of one concept come together: the last lesson, of terms, beside those of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...losses import mine, multi_similarity
from ..student import Student
from .base import Matryoshka, encode, pick


@dataclass
class AlignedNames:
    """Two names of each concept in a batch, by multi-similarity, with look-alikes beside them.

    Concepts are sorted so that neighbours are easily confused; `run` of them are drawn together.
    """

    name: str
    concepts: Sequence[Sequence[str]]
    weight: float = 1.0
    size: int = 64
    run: int = 8
    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.6
    epsilon: float = 0.1

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> Tensor:
        """Pull names of a concept above `base`, push those of the others below it."""
        starts = pick(max(1, len(self.concepts) // self.run), -(-self.size // self.run), rng)
        chosen = [
            self.concepts[row]
            for start in starts
            for row in range(start * self.run, min((start + 1) * self.run, len(self.concepts)))
        ]
        drawn = [[names[i] for i in pick(len(names), 2, rng)] for names in chosen]
        labels = torch.tensor([i for i, names in enumerate(drawn) for _ in names])

        def loss(vectors: Tensor) -> Tensor:
            cosines = vectors @ vectors.T
            with torch.no_grad():
                mined = mine(cosines, labels, epsilon=self.epsilon)
            return multi_similarity(
                cosines, mined, alpha=self.alpha, beta=self.beta, base=self.base
            )

        return nested(loss, encode(student, [name for names in drawn for name in names]))
