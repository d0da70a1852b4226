"""AdamW with an embedding table whose rows move alone, its average, and the clipping before it."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from malmoi.training import checkpoint  # noqa: E402
from malmoi.training.checkpoint import State  # noqa: E402
from malmoi.training.optimizer import TableAdamW, clip_gradients  # noqa: E402


class Small(nn.Module):
    """A table with sparse gradients, and a dense layer on it."""

    def __init__(self, width: int = 4, *, sparse: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(6, width, sparse=sparse)
        self.dense = nn.Linear(width, 3)

    def move(self, optimizer: torch.optim.Optimizer, rows: list[int], target: float) -> None:
        """Take one step toward a target."""
        found = self.dense(self.table(torch.tensor(rows)))
        (found - target).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def make(module: Small, **options: object) -> TableAdamW:
    groups = [{"params": list(module.dense.parameters()), "weight_decay": 0.01, "scale": 1.0}]
    return TableAdamW(groups, table=module.table.weight, learning_rate=0.01, **options)  # type: ignore[arg-type]


def test_only_the_rows_of_a_step_move_and_the_others_do_not_forget() -> None:
    module = Small()
    optimizer = make(module)
    module.move(optimizer, [1, 2, 2], 1.0)
    before = module.table.weight.detach().clone()
    moments = optimizer.state[module.table.weight]["first"].clone()
    module.move(optimizer, [2], 1.0)
    changed = (module.table.weight != before).any(1).nonzero().flatten().tolist()
    assert changed == [2]
    assert torch.equal(optimizer.state[module.table.weight]["first"][1], moments[1])
    assert optimizer.state[module.table.weight]["count"].tolist() == [0, 1, 2, 0, 0, 0]


def test_it_equals_adamw_where_all_is_dense() -> None:
    # With vectors of one number, the one second moment of a row is that of its number.
    one, two = Small(1), Small(1, sparse=False)
    ours = make(one)
    theirs = torch.optim.AdamW(
        [{"params": list(two.dense.parameters()), "weight_decay": 0.01},
         {"params": [two.table.weight], "weight_decay": 0.0, "eps": 1e-10}],
        lr=0.01, betas=(0.9, 0.98),
    )  # fmt: skip
    for step in range(7):
        for module, optimizer in ((one, ours), (two, theirs)):
            module.move(optimizer, list(range(6)), step / 3)
    for name, value in one.named_parameters():
        torch.testing.assert_close(value, two.state_dict()[name], rtol=1e-5, atol=1e-6)


def test_dense_gradients_of_the_table_are_read_by_row_too() -> None:
    # As several processes have them, after their gradients were added.
    one, two = Small(), Small(sparse=False)
    for module in (one, two):
        optimizer = make(module)
        for rows in ([0, 3], [3], [5]):
            module.move(optimizer, rows, 1.0)
    torch.testing.assert_close(one.table.weight, two.table.weight)


def test_rows_have_rates_of_their_own() -> None:
    plain, scaled = Small(), Small()
    start = plain.table.weight.detach().clone()
    for module, scales in ((plain, None), (scaled, torch.tensor([1.0, 4.0, 0.0, 1.0, 1.0, 1.0]))):
        module.move(make(module, row_scales=scales), [0, 1, 2], 1.0)
    step, own = plain.table.weight - start, scaled.table.weight - start
    torch.testing.assert_close(own[0], step[0])
    torch.testing.assert_close(own[1], 4 * step[1])
    assert torch.equal(own[2], torch.zeros(4))


def test_the_average_follows_every_ten_steps_and_is_given_back() -> None:
    module = Small()
    optimizer = make(module, average=0.99)
    at: dict[int, torch.Tensor] = {}
    for step in range(1, 26):
        module.move(optimizer, [0, 1], step / 5)
        at[step] = module.dense.weight.detach().clone()
    mean = at[10].lerp(at[20], 1 - 20 / 120)  # a young average forgets faster
    with pytest.raises(ValueError), optimizer.averaged():
        torch.testing.assert_close(module.dense.weight.detach(), mean)
        raise ValueError
    assert torch.equal(module.dense.weight, at[25])
    rows = module.table.weight.detach().clone()
    with optimizer.averaged():
        moved = (module.table.weight != rows).any(1).nonzero().flatten().tolist()
    assert moved == [0, 1]


def test_a_checkpoint_holds_all_of_it(tmp_path: Path) -> None:
    one, two = Small(), Small()
    first, second = make(one, average=0.9), make(two, average=0.9)
    for step in range(12):
        one.move(first, [0, step % 5], 1.0)
    checkpoint.save(tmp_path, one, first, State(step=12), keep=1)
    found = checkpoint.load_newest(tmp_path, two, second)
    assert found is not None and found.step == 12
    for step in range(10):
        for module, optimizer in ((one, first), (two, second)):
            module.move(optimizer, [1, step % 5], 2.0)
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name
    with first.averaged(), second.averaged():
        for name, value in one.state_dict().items():
            assert torch.equal(value, two.state_dict()[name]), name


def test_sparse_gradients_are_scaled_with_the_dense_ones() -> None:
    dense, sparse = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(4, 1))

    def clip(largest: float) -> tuple[list[float], list[float]]:
        dense.grad = torch.tensor([3.0, 4.0])
        sparse.grad = torch.sparse_coo_tensor(
            [[0, 2]], [[100.0], [50.0]], (4, 1), check_invariants=True
        )
        clip_gradients([dense, sparse], largest)
        return dense.grad.tolist(), sparse.grad.to_dense()[[0, 2], 0].tolist()

    # The norm is that of the dense ones, and the rows keep their share.
    assert clip(1.0) == (pytest.approx([0.6, 0.8], rel=1e-5), pytest.approx([20, 10], rel=1e-5))
    assert clip(10.0) == ([3.0, 4.0], [100.0, 50.0])
    dense.grad = None
    clip_gradients([dense, sparse], 1.0)
    assert sparse.grad.to_dense()[0, 0] == 100.0
