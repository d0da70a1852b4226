"""How long a run is, by steps or by the clock, and the rates of its steps."""

import csv
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from malmoi.training import loop  # noqa: E402
from malmoi.training.batching import Step  # noqa: E402
from malmoi.training.checkpoint import State  # noqa: E402
from malmoi.training.distributed import Processes  # noqa: E402
from malmoi.training.schema import Output, Schedule  # noqa: E402


class Toy:
    """A weight that goes to 1; epochs of four steps."""

    def __init__(self) -> None:
        self.module = torch.nn.Linear(1, 1)
        self.measured = 0

    def plan(self, epoch: int) -> list[Step]:
        return [Step(0, np.zeros(1, np.int64))] * 4

    def loss(self, step: Step) -> torch.Tensor:
        return (self.module(torch.ones(1, 1)) - 1).square().sum()

    def evaluate(self) -> dict[str, float]:
        self.measured += 1
        return {"score": float(self.measured)}

    def save(self, folder: Path) -> None:
        (folder / "model").write_text("x")


def go(task: Toy, folder: Path, *, resume: bool = False, **schedule: Any) -> State:
    output = Output(folder=str(folder), checkpoint_minutes=0, checkpoint_steps=0)
    made = Schedule(epochs=0, **schedule)
    return loop.train(task, made, output, seed=1, processes=Processes(), resume=resume)


def rates(folder: Path) -> list[float]:
    with (folder / "log.csv").open() as file:
        found = csv.DictReader(file)
        return [float(row["learning_rate"]) for row in found if row["learning_rate"]]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it a second later, so a step takes one second."""
    seconds = iter(range(10_000))
    clock = SimpleNamespace(perf_counter=lambda: float(next(seconds)), monotonic=time.monotonic)
    monkeypatch.setattr(loop, "time", clock)


@pytest.mark.usefixtures("slow_clock")
def test_a_run_of_minutes_ends_by_the_clock_and_is_measured_then(tmp_path: Path) -> None:
    task = Toy()
    state = go(task, tmp_path / "run", minutes=0.1, learning_rate=1.0, warmup=0.0)
    assert (
        state.step == 6 and task.measured == 3
    )  # before, after an epoch of four steps, at the end
    assert rates(tmp_path / "run") == pytest.approx(
        [left / 6 for left in range(6, 0, -1)], rel=1e-5
    )


@pytest.mark.usefixtures("slow_clock")
def test_the_shorter_of_steps_and_minutes_ends_a_run(tmp_path: Path) -> None:
    assert go(Toy(), tmp_path / "steps", steps=3, minutes=1.0).step == 3
    assert go(Toy(), tmp_path / "minutes", steps=300, minutes=0.1).step == 6


@pytest.mark.usefixtures("slow_clock")
def test_a_warm_up_in_steps_takes_so_many_steps_of_a_run_of_minutes(tmp_path: Path) -> None:
    go(Toy(), tmp_path / "run", minutes=0.1, learning_rate=1.0, warmup=3, decay="constant")
    assert rates(tmp_path / "run") == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1], rel=1e-5)


def test_rates_never_fall_below_the_floor(tmp_path: Path) -> None:
    go(Toy(), tmp_path / "run", steps=10, learning_rate=2.0, warmup=0.0, floor=0.25)
    found = rates(tmp_path / "run")
    assert found[:3] == pytest.approx([2.0, 1.8, 1.6]) and found[-3:] == [0.6, 0.5, 0.5]


def test_a_warm_up_never_overshoots(tmp_path: Path) -> None:
    # 0.05 of 33 steps are 1.65: the second step still belongs to it.
    go(Toy(), tmp_path / "run", steps=33, learning_rate=1.0, warmup=0.05)
    assert max(rates(tmp_path / "run")) == 1.0


def test_an_optimizer_of_the_tasks_own_is_used_and_its_average_measured(tmp_path: Path) -> None:
    seen: list[float] = []

    class Averaging(torch.optim.SGD):
        def averaged(self) -> Any:
            module = task.module

            class Swap:
                def __enter__(self) -> None:
                    self.kept = module.weight.detach().clone()
                    with torch.no_grad():
                        module.weight.fill_(7.0)

                def __exit__(self, *problem: object) -> None:
                    with torch.no_grad():
                        module.weight.copy_(self.kept)

            return Swap()

    class Own(Toy):
        def optimizer(self, schedule: Schedule) -> torch.optim.Optimizer:
            groups = [{"params": list(self.module.parameters()), "scale": 1.0}]
            return Averaging(groups, lr=schedule.learning_rate)

        def evaluate(self) -> dict[str, float]:
            seen.append(self.module.weight.item())
            return {"score": 1.0}

    task = Own()
    go(task, tmp_path / "run", steps=2, learning_rate=0.1)
    assert seen[1:] == [7.0] and task.module.weight.item() != 7.0
