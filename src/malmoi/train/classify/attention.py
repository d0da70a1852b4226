"""Attention over windows: one direction whose softmax says how much each window counts."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ...notes.classifier import Scored

_STEPS = 200
_RATE = 0.01
# A direction that is not needed stays near zero, where attention is the mean.
_DECAY = 1e-2


def fit_attention(scored: Sequence[Scored], gold: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Find the direction under which the documents' labels are likeliest; None without states."""
    if any(one.states is None for one in scored):
        return None
    states = torch.from_numpy(np.concatenate([one.states for one in scored]).astype(np.float32))
    shares = torch.from_numpy(np.concatenate([one.shares for one in scored]).astype(np.float32))
    owners = torch.from_numpy(np.repeat(np.arange(len(scored)), [len(o.shares) for o in scored]))
    targets = torch.from_numpy(gold)
    direction = torch.zeros(states.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([direction], lr=_RATE)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        found = _pooled(states @ direction, shares, owners, len(scored))
        right = found[torch.arange(len(targets)), targets].clamp(min=1e-6)
        loss = -right.log().mean() + _DECAY * direction.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    fitted: NDArray[np.float64] = direction.detach().numpy().astype(np.float64)
    return fitted


def _pooled(
    raw: torch.Tensor, shares: torch.Tensor, owners: torch.Tensor, count: int
) -> torch.Tensor:
    """Take the softmax of raw weights within each document, and average shares by it."""
    top = torch.full((count,), -torch.inf).scatter_reduce(0, owners, raw.detach(), "amax")
    raised = (raw - top[owners]).exp()
    total = torch.zeros(count).index_add(0, owners, raised)
    weights = raised / total[owners]
    return torch.zeros(count, shares.shape[1]).index_add(0, owners, weights[:, None] * shares)
