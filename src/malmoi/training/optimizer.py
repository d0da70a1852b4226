"""The optimizer: AdamW, embedding rows that move only when a step touched them, a moving average.

Everything it remembers stands in `state`, by parameter, so a checkpoint holds it without knowing.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_AVERAGED = 10  # steps between two updates of the average
_FIRST, _SECOND = 0.9, 0.98  # how much of the old moments a step keeps


class TableAdamW(torch.optim.AdamW):
    """AdamW on the dense weights, and Adam on the rows of an embedding table that were touched.

    The other rows of the table do not even forget. A row's rate is that of its parameter group
    times its own scale; one second moment a row is enough, and half the memory. With `average`
    above 0 a moving average of all weights is kept, for `averaged`.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        *,
        table: nn.Parameter | None = None,
        row_scales: Tensor | None = None,
        learning_rate: float,
        average: float = 0.0,
    ) -> None:
        own: list[dict[str, Any]] = list(groups)
        if table is not None:
            own.append({"params": [table], "weight_decay": 0.0, "scale": 1.0})
        super().__init__(own, lr=learning_rate, betas=(_FIRST, _SECOND), fused=True)
        self.table, self.row_scales, self.average = table, row_scales, average

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        grad = None
        if self.table is not None:
            grad, self.table.grad = self.table.grad, None
        super().step(closure)
        if grad is not None:
            self._move_rows(grad)
        if self.average:
            self._follow()

    def _move_rows(self, grad: Tensor) -> None:
        assert self.table is not None
        if grad.is_sparse:
            grad = grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
        else:
            rows = grad.abs().sum(1).nonzero()[:, 0]
            values = grad[rows]
        state = self.state[self.table]
        if not state:
            state["first"] = torch.zeros_like(self.table)
            state["second"] = torch.zeros(len(self.table), 1)
            state["count"] = torch.zeros(len(self.table))
        state["count"][rows] += 1
        count = state["count"][rows, None]
        first = state["first"][rows].lerp_(values, 1 - _FIRST)
        second = state["second"][rows].lerp_(values.square().mean(1, keepdim=True), 1 - _SECOND)
        state["first"][rows], state["second"][rows] = first, second
        step = first / (1 - _FIRST**count) / ((second / (1 - _SECOND**count)).sqrt() + 1e-10)
        rate = self.param_groups[-1]["lr"]
        if self.row_scales is not None:
            step *= self.row_scales[rows, None]
        self.table[rows] -= rate * step

    def _follow(self) -> None:
        """Bring the average nearer to the weights, every few steps."""
        dense = (p for group in self.param_groups for p in group["params"] if p is not self.table)
        steps = int(max((self.state[p]["step"].item() for p in dense if self.state[p]), default=0))
        if steps % _AVERAGED:
            return
        # A young average would still remember the start, so it forgets faster at first.
        keep = min(self.average**_AVERAGED, steps / (steps + 100))
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if state:  # one without has not moved
                    state.setdefault("mean", p.detach().clone()).lerp_(p, 1 - keep)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the averages in the place of the weights for a while."""
        means = [(p, state["mean"]) for p, state in self.state.items() if "mean" in state]
        kept = [p.detach().clone() for p, _ in means]
        with torch.no_grad():
            for p, mean in means:
                p.copy_(mean)
        try:
            yield
        finally:
            with torch.no_grad():
                for (p, _), old in zip(means, kept, strict=True):
                    p.copy_(old)


def clip_gradients(parameters: Sequence[nn.Parameter], largest: float) -> None:
    """Scale all gradients down until the norm of the dense ones is at most `largest`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    dense = [grad for grad in grads if not grad.is_sparse]
    norm = nn.utils.get_total_norm(dense)
    nn.utils.clip_grads_with_norm_([p for p in parameters if not _sparse(p)], largest, norm)
    factor = torch.clamp(largest / (norm + 1e-6), max=1.0)
    for grad in grads:
        if grad.is_sparse:
            grad.mul_(factor)


def _sparse(parameter: nn.Parameter) -> bool:
    return parameter.grad is not None and parameter.grad.is_sparse
