"""One process or several under torchrun: who am I, gather vectors, share gradients.

Every process computes the loss of the whole step, from vectors gathered from all. So the loss
is, for any objective, that of one process with the larger batch; in-batch negatives come from
every process. Gradients are averaged with one all-reduce after the backward pass: models here
are small next to their activations, and nothing then depends on which heads a step has used.
"""

import contextlib
import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Processes:
    """This process among all; alone when torchrun did not start it."""

    rank: int = 0
    world: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and logs."""
        return self.rank == 0

    def gather(self, vectors: Tensor, counts: Sequence[int]) -> Tensor:
        """Join the rows of all processes, in their order; `counts` are each one's rows."""
        if self.world == 1:
            return vectors
        joined: Tensor = _Gather.apply(  # type: ignore[no-untyped-call]
            vectors, self.rank, tuple(counts)
        )
        return joined

    def average_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Give every process the mean of all gradients; a missing one counts as zeros."""
        if self.world == 1:
            return
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        distributed.all_reduce(flat)
        flat /= self.world
        for parameter, part in zip(
            parameters, torch.split(flat, [g.numel() for g in grads]), strict=True
        ):
            parameter.grad = part.view_as(parameter)

    def any(self, flag: bool) -> bool:
        """Whether any process says yes, so that all of them stop at the same step."""
        return bool(self.most(float(flag)))

    def most(self, number: float) -> float:
        """Give the largest number that any process has."""
        if self.world == 1:
            return number
        found = torch.tensor(number, dtype=torch.float64, device=self.device)
        distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
        return float(found.item())

    def agree(self, number: int) -> bool:
        """Whether every process has the same number."""
        return not self.any(self.most(number) != number)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.world > 1:
            distributed.barrier()

    @contextlib.contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Let the first process do the block; the others do it after that, with what it wrote."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()


@contextlib.contextmanager
def joining() -> Iterator[Processes]:
    """Join the processes that torchrun started; alone there is nothing to join."""
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = f"cuda:{local}" if cuda else "cpu"
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes(device=device)
        return
    # The others wait while the first one measures and exports, which may take a while.
    timeout = datetime.timedelta(hours=4)
    distributed.init_process_group("nccl" if cuda else "gloo", timeout=timeout)
    try:
        yield Processes(distributed.get_rank(), world, device)
    finally:
        distributed.destroy_process_group()


class _Gather(torch.autograd.Function):
    """All-gather whose gradient comes back to the process that gave the rows.

    Every process computes the same loss, so its own rows' gradient is whole already; it is
    multiplied by their number because gradients are averaged, not summed, afterwards.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, rank: int, counts: tuple[int, ...]) -> Tensor:
        ctx.rank, ctx.counts = rank, counts
        # All processes must give the same shape; the last batch of an epoch may be uneven.
        padded = vectors.new_zeros(max(counts), vectors.shape[1])
        padded[: len(vectors)] = vectors
        parts = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        start = sum(ctx.counts[: ctx.rank])
        own = grads[0][start : start + ctx.counts[ctx.rank]]
        return own * len(ctx.counts), None, None
