"""An optimizer for big embedding tables: only the rows that a batch touched are moved."""

import torch
from torch import Tensor


class RowAdam:
    """Adam on the rows that were touched; the others do not even forget."""

    def __init__(self, table: Tensor) -> None:
        self.first = torch.zeros_like(table)
        self.second = torch.zeros(len(table), 1)  # one scale per row is enough, and half the memory
        self.count = torch.zeros(len(table))

    def move(self, table: Tensor, rows: Tensor, grad: Tensor, rate: Tensor) -> None:
        """Move the rows (n,) of the table down their gradients (n, dim), at a rate (n,) each."""
        self.count[rows] += 1
        count = self.count[rows, None]
        first = self.first[rows].lerp_(grad, 0.1)
        second = self.second[rows].lerp_(grad.square().mean(1, keepdim=True), 0.02)
        self.first[rows], self.second[rows] = first, second
        step = first / (1 - 0.9**count) / ((second / (1 - 0.98**count)).sqrt() + 1e-10)
        table[rows] -= rate[:, None] * step
