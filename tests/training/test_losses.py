"""Every objective's loss and gradient against a plain reference written here."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from malmoi.training.losses import Loss, build_loss
from malmoi.training.objectives.pairs import find_pairs

DIM, ROWS = 12, 7


def columns(count: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(3)
    made = [torch.randn(ROWS, DIM, generator=random) for _ in range(count)]
    return [column.requires_grad_() for column in made]


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=1, keepdim=True)


def softmax(loss: Loss, u: Tensor, v: Tensor, labels: Tensor) -> Tensor:
    head = loss.parts[0].classifier
    logits = torch.cat([u, v, (u - v).abs()], dim=1) @ head.weight.T + head.bias
    picked = logits[torch.arange(ROWS), labels]
    return (logits.exp().sum(dim=1).log() - picked).mean()


def cosine(loss: Loss, u: Tensor, v: Tensor, labels: Tensor) -> Tensor:
    return (((unit(u) * unit(v)).sum(dim=1) - labels) ** 2).mean()


def triplet(loss: Loss, a: Tensor, b: Tensor, negative: Tensor, labels: None) -> Tensor:
    near, far = (a - b).norm(dim=1), (a - negative).norm(dim=1)
    return (near - far + 1.5).clamp(min=0).mean()


def in_batch(loss: Loss, a: Tensor, b: Tensor, labels: None) -> Tensor:
    return cross_entropy(unit(a) @ unit(b).T * 20, torch.arange(ROWS))


def with_negatives(loss: Loss, a: Tensor, b: Tensor, negative: Tensor, labels: None) -> Tensor:
    return cross_entropy(unit(a) @ unit(torch.cat([b, negative])).T * 20, torch.arange(ROWS))


def symmetric(loss: Loss, a: Tensor, b: Tensor, labels: None) -> Tensor:
    scores, own = unit(a) @ unit(b).T * 20, torch.arange(ROWS)
    return (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2


def ordered(scores: Tensor, labels: Tensor) -> Tensor:
    total = torch.ones(())
    for i in range(ROWS):
        for j in range(ROWS):
            if labels[i] > labels[j]:
                total = total + (20 * (scores[j] - scores[i])).exp()
    return total.log()


def cosent(loss: Loss, u: Tensor, v: Tensor, labels: Tensor) -> Tensor:
    return ordered((unit(u) * unit(v)).sum(dim=1), labels)


def angle(loss: Loss, u: Tensor, v: Tensor, labels: Tensor) -> Tensor:
    """The difference of two complex vectors' angles: the real and imaginary parts of z / w."""
    half = u.shape[1] // 2
    a, b = unit(u)[:, :half], unit(u)[:, half:]
    c, d = unit(v)[:, :half], unit(v)[:, half:]
    real, imaginary = a * c + b * d, b * c - a * d
    return ordered((real + imaginary).sum(dim=1).abs(), labels)


def margin_mse(loss: Loss, a: Tensor, b: Tensor, negative: Tensor, labels: Tensor) -> Tensor:
    margin = (unit(a) * (unit(b) - unit(negative))).sum(dim=1)
    return ((margin - labels) ** 2).mean()


SCORES = torch.tensor([0.1, 0.9, 0.5, 0.5, 0.0, 1.0, 0.3])
CLASSES = torch.tensor([0, 2, 1, 1, 0, 2, 2])
CASES: dict[str, tuple[str, dict[str, object], int, Tensor | None, Callable[..., Tensor]]] = {
    "softmax": ("softmax", {}, 2, CLASSES, softmax),
    "cosine": ("cosine", {}, 2, SCORES, cosine),
    "triplet": ("triplet", {"margin": 1.5}, 3, None, triplet),
    "contrastive": ("contrastive", {}, 2, None, in_batch),
    "in-batch with negatives": ("contrastive", {}, 3, None, with_negatives),
    "in-batch symmetric": ("contrastive", {"symmetric": True}, 2, None, symmetric),
    "cosent": ("cosent", {}, 2, SCORES, cosent),
    "angle": ("angle", {}, 2, SCORES, angle),
    "margin-mse": ("margin-mse", {}, 3, SCORES, margin_mse),
}


def make(name: str, options: dict[str, object], matryoshka: tuple[int, ...] = ()) -> Loss:
    torch.manual_seed(0)
    objective = find_pairs(name)
    return build_loss(
        objective.build(),
        dimension=DIM,
        classes=3,
        options=objective.loss_options(objective.settle(options, where="here")),
        matryoshka=matryoshka,
    )


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_equal_the_reference(case: str) -> None:
    name, options, count, labels, reference = CASES[case]
    loss = make(name, options)
    ours, theirs = columns(count), columns(count)
    found = loss(ours, labels)
    expected = reference(loss, *theirs, labels)
    assert math.isclose(found.item(), expected.item(), abs_tol=1e-5)
    heads = list(loss.parameters())
    for one, two in zip(
        torch.autograd.grad(found, [*ours, *heads]),
        torch.autograd.grad(expected, [*theirs, *heads]),
        strict=True,
    ):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_matryoshka_is_the_sum_over_shorter_unit_vectors(case: str) -> None:
    name, options, count, labels, reference = CASES[case]
    loss = make(name, options, matryoshka=(DIM, 6))
    found = loss(columns(count), labels)
    expected = torch.zeros(())
    for part, dim in zip(loss.parts, (DIM, 6), strict=True):
        cut = [unit(column[:, :dim]) for column in columns(count)]
        expected = expected + reference(Loss([part]), *cut, labels)
    assert math.isclose(found.item(), expected.item(), rel_tol=1e-5)


def test_gist_leaves_out_negatives_that_the_guide_finds_nearer_than_the_positive() -> None:
    a, b = columns(2)
    guides = [column.detach().roll(1, dims=1) for column in (a, b)]
    found = make("gist", {"guide": "any"})([a, b], None, guides)
    ga, gb = (unit(guide) for guide in guides)
    own = (ga * gb).sum(dim=1, keepdim=True)
    parts = []
    for left, right, judged in ((a, b, ga @ gb.T), (a, a, ga @ ga.T), (b, b, gb @ gb.T)):
        nearer = judged > own
        if left is a and right is b:
            nearer = nearer & ~torch.eye(ROWS, dtype=torch.bool)
        parts.append((unit(left) @ unit(right).T).masked_fill(nearer, -math.inf))
    expected = cross_entropy(torch.cat(parts, dim=1) * 100, torch.arange(ROWS))
    assert math.isclose(found.item(), expected.item(), abs_tol=1e-4)
    assert (
        torch.isinf(torch.cat(parts, dim=1)).sum() > 2 * ROWS
    )  # some besides the texts themselves
