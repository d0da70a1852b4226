"""Multi-similarity loss and its miner, beside pytorch-metric-learning's on random batches."""

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner
from torch import Tensor
from torch.nn import functional

from malmoi.training.losses import (
    VECTORS,
    Given,
    build_loss,
    mine,
    multi_similarity,
    term_alignment,
)

SETTINGS = [
    (2.0, 50.0, 0.5, 0.1),
    (2.0, 50.0, 0.5, 0.2),
    (1.0, 10.0, 0.2, 0.0),
    (3.0, 60, 1.0, 0.4),
]


def batch(seed: int, count: int, concepts: int, dim: int = 6) -> tuple[Tensor, Tensor]:
    """Random vectors, some of them near each other, with random concepts."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(concepts, (count,), generator=rng)
    centres = torch.randn(concepts, dim, generator=rng)
    return centres[labels] + torch.randn(count, dim, generator=rng), labels


OPTIONS = {"alpha": 2.0, "beta": 50.0, "threshold": 0.5, "epsilon": 0.2}
BATCHES = [
    *((batch(seed, 24, 6)) for seed in range(12)),
    *((batch(seed, 40, 33)) for seed in range(6)),  # many anchors without a positive
    (batch(1, 8, 4)[0], torch.arange(8)),  # none has a positive
    (batch(2, 8, 4)[0], torch.zeros(8, dtype=torch.int64)),  # none has a negative
    (batch(3, 2, 4)[0], torch.tensor([0, 1])),
    (batch(4, 3, 4)[0], torch.tensor([0, 0, 1])),  # one anchor without a positive
    (torch.ones(4, 3), torch.tensor([0, 0, 1, 1])),  # all alike
]


def pairs(mask: Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in mask.nonzero()}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_loss_and_pairs_are_the_reference_s(
    number: int, settings: tuple[float, float, float, float]
) -> None:
    alpha, beta, base, epsilon = settings
    vectors, labels = BATCHES[number]
    ours, theirs = (vectors.clone().double().requires_grad_() for _ in range(2))

    a1, p, a2, n = MultiSimilarityMiner(epsilon=epsilon)(theirs, labels)
    reference = MultiSimilarityLoss(alpha, beta, base)(theirs, labels, (a1, p, a2, n))

    unit = functional.normalize(ours, dim=1)
    cosines = unit @ unit.T
    mined = mine(cosines.detach(), labels, epsilon=epsilon)
    loss = multi_similarity(cosines, mined, alpha=alpha, beta=beta, base=base)

    if not torch.equal(vectors, torch.ones_like(vectors)):  # there the last bit decides
        assert pairs(mined.positives) == set(zip(a1.tolist(), p.tolist(), strict=True))
        assert pairs(mined.negatives) == set(zip(a2.tolist(), n.tolist(), strict=True))
    assert loss.item() == pytest.approx(reference.item(), rel=1e-9, abs=1e-12)
    if reference.requires_grad:
        loss.backward()
        reference.backward()
        assert ours.grad is not None and theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-10)


def test_no_pair_at_all_is_no_loss_and_no_gradient() -> None:
    vectors = torch.randn(4, 3, requires_grad=True)
    loss = build_loss(term_alignment, dimension=3, options=OPTIONS)(
        [vectors[:2], vectors[2:]], torch.zeros(2, dtype=torch.int64)
    )
    loss.backward()
    assert loss.item() == 0
    assert vectors.grad is not None and not vectors.grad.any()


def test_columns_are_one_batch_and_matryoshka_sums() -> None:
    a, b = torch.randn(6, 8), torch.randn(6, 8)
    labels = torch.tensor(np.array([0, 0, 1, 2, 3, 3]))
    both = build_loss(term_alignment, dimension=8, options=OPTIONS, matryoshka=[8, 4])(
        [a, b], labels
    )
    parts = [
        term_alignment(Given(dim), dim, 0, **OPTIONS)([{VECTORS: a}, {VECTORS: b}], labels)
        for dim in (8, 4)
    ]
    assert both.item() == pytest.approx(sum(part.item() for part in parts), rel=1e-6)
