"""What tasks over one transformer share: its tokenizer, frozen parts, batches, each process's rows.

A task of a new objective has `module` (what learns), `_plan`, `loss`, `evaluate` and `save`.
"""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import OptionError
from ...export.source import ModelSource
from ...export.tokenizer import write_tokenizer
from ...runtime.tokenizer import TextTokenizer
from ...types import Ints
from ..batching import Sizes, Step, plan_epoch
from ..distributed import Processes
from ..sampler import BatchClusters


class ModelTask:
    """A model in training; the loop asks for steps, losses, scores, and for the model's folder."""

    module: nn.Module
    recipe: Any

    def __init__(self, recipe: Any, source: ModelSource, processes: Processes | None) -> None:
        self.recipe, self.source = recipe, source
        self.processes = processes or Processes()
        self.tokens = read_tokens(source)
        # Asked for twice an epoch, once to count the steps; a plan of a million rows takes a while.
        self.plan = functools.lru_cache(maxsize=2)(self._plan)

    def _plan(self, epoch: int) -> list[Step]:
        raise NotImplementedError

    def loss(self, step: Step) -> Tensor:
        """Give the loss of the whole step, the same in every process."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Give scores that grow with quality, by name."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write the model as a folder that can be loaded and exported."""
        raise NotImplementedError

    def batches(
        self,
        lengths: Sequence[Ints],
        epoch: int,
        *,
        weights: Sequence[float] | None = None,
        texts: Sequence[NDArray[Any] | None] | None = None,
        clusters: Sequence[BatchClusters | None] | None = None,
        least: int = 2,
    ) -> list[Step]:
        """Plan an epoch over data sets whose rows have these lengths, as the schedule says."""
        return plan_epoch(
            lengths,
            weights or [1.0] * len(lengths),
            texts or [None] * len(lengths),
            Sizes.of(self.recipe.schedule, self.processes.world, least=least),
            seed=self.recipe.seed,
            epoch=epoch,
            clusters=clusters,
        )

    def shares(self, rows: Ints) -> list[Ints]:
        """Divide the rows of a step among the processes."""
        return [rows[rank :: self.processes.world] for rank in range(self.processes.world)]


def read_tokens(source: ModelSource) -> TextTokenizer:
    """Read the tokenizer as the exported model will."""
    with tempfile.TemporaryDirectory(prefix="malmoi-tokens-") as folder:
        write_tokenizer(source, Path(folder))
        path = Path(folder) / "tokenizer.json"
        return TextTokenizer.from_file(path, max_tokens=source.manifest.max_tokens)


def freeze(transformer: nn.Module, names: Sequence[str]) -> None:
    """Keep the parameters under these names (e.g. "embeddings") as they are."""
    for name in names:
        found = [p for key, p in transformer.named_parameters() if key.startswith(name)]
        if not found:
            known = sorted({key.split(".")[0] for key, _ in transformer.named_parameters()})
            raise OptionError(
                f"schedule.freeze has {name}, and no parameter's name starts so; they start with "
                f"{', '.join(known)}. Use one of these."
            )
        for parameter in found:
            parameter.requires_grad_(False)
