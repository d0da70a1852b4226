"""Training of the static twin: its losses do what they say, and what it writes opens."""

import torch

from research.ko_en_small.static import cosent, found_in_batch


def test_pairs_out_of_order_cost_more() -> None:
    gold = torch.tensor([0.0, 0.5, 1.0])
    right, wrong = (cosent(torch.tensor(one), gold) for one in ([0.1, 0.5, 0.9], [0.9, 0.5, 0.1]))
    assert right < 0.01 < 10 < wrong


def test_a_text_that_finds_its_own_costs_nothing() -> None:
    own = torch.eye(4)
    assert found_in_batch(own, own) < 1e-6
    assert found_in_batch(own, own.roll(1, 0)) > 10
