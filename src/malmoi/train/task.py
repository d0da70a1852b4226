"""What the training loop asks of anything that it trains."""

from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from .batching import Step


class Task(Protocol):
    """What is trained: the loop knows nothing of encoders, pairs or files.

    `module` holds everything that learns, heads too. `loss` is that of the whole step, the same
    in every process. `evaluate` gives scores that grow with quality, by name. `save` writes a
    model folder that can be loaded or exported.
    """

    module: nn.Module

    def plan(self, epoch: int) -> list[Step]: ...
    def loss(self, step: Step) -> Tensor: ...
    def evaluate(self) -> dict[str, float]: ...
    def save(self, folder: Path) -> None: ...
