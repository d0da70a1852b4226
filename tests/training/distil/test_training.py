"""A tiny student learns a tiny teacher, in two languages made up here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from malmoi.training.batching import Step, token_batches  # noqa: E402
from malmoi.training.distil import training as d  # noqa: E402
from malmoi.training.distil.recipe import Distil  # noqa: E402
from malmoi.training.distributed import Processes  # noqa: E402
from malmoi.training.loop import train as loop  # noqa: E402
from malmoi.training.recipe import make_recipe  # noqa: E402
from malmoi.training.schema import Output  # noqa: E402
from tests.support.students import sentences, teach, tiny_student, tiny_texts  # noqa: E402

RATES = {"learning_rate": 3e-3, "embedding_rate": 6e-3}


def made(student: Any, data: Any, *, share: slice = slice(None), **stage: Any) -> d.DistilTask:
    """A distillation of eight sentences, without a recipe's files."""
    table = {"name": "x", "objective": "distil", "base": "x", "parallel": [{"files": ["x"]}]}
    recipe = make_recipe(table | {"distil": stage, "output": {"folder": "x"}})
    source: Any = None
    return d.DistilTask(recipe, source, student, data, share=share)


def test_a_student_comes_near_the_teacher_in_both_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(d.DistilTask, "save", lambda task, folder: None)
    english, korean = sentences()
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    stage = {"tokens": 64, "steps": 150, "source_share": 0.5, "contrast": 0.1, "average": 0.0}
    task = made(student, data, **stage, **RATES)
    first = float(task.loss(task.plan(0)[0]).detach())
    student.model.zero_grad()
    output = Output(folder=str(tmp_path / "run"), checkpoint_steps=0, checkpoint_minutes=0.0)
    table = {"name": "x", "objective": "distil", "base": "x", "parallel": [{"files": ["x"]}]}
    recipe = make_recipe(table | {"distil": stage | RATES, "output": {"folder": "x"}})
    state = loop(task, recipe.schedule, output, seed=1, processes=Processes(), resume=False)
    assert state.step == 150
    assert float(task.loss(task.plan(0)[0]).detach()) < 0.3 * first
    with torch.no_grad():
        a, b = (student.vectors(student.ids(side)) for side in (english, korean))
    goal = torch.from_numpy(teach(english))
    assert (a * goal).sum(1).mean() > 0.9 and (b * goal).sum(1).mean() > 0.9
    assert ((b @ a.T).argmax(1) == torch.arange(len(a))).all()


def test_processes_share_a_batch(tmp_path: Path) -> None:
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    whole = Step(0, np.arange(4))

    def loss(share: slice, step: Step = whole) -> float:
        task = made(student, data, share=share, tokens=64, steps=1, contrast=0.0)
        return float(task.loss(step).detach())

    halves = [loss(slice(rank, None, 2)) for rank in (0, 1)]
    assert loss(slice(None)) == pytest.approx(sum(halves) / 2, abs=1e-6)
    assert loss(slice(1, None, 2), Step(0, np.arange(1))) == 0  # more processes than rows


def test_only_touched_rows_move() -> None:
    student = tiny_student()
    optimizer = student.optimizer(Distil(steps=1, **RATES))
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    before = student.table.clone()
    student.vectors(student.ids(["cat 잔다"])).sum().backward()
    optimizer.step()
    moved = (student.table != before).any(1).nonzero().flatten().tolist()
    assert moved == sorted(student.ids(["cat 잔다"])[0])


def test_equal_goals_do_not_compete() -> None:
    unit = torch.eye(4)
    apart = d.contrast(unit, unit, np.arange(4), 0.05)
    alike = d.contrast(unit[[0, 0]], unit[[0, 0]], np.array([7, 7]), 0.05)
    assert float(apart) < 1e-3 and float(alike) < 1e-3


def test_batches_hold_every_row_once_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 500)
    batches = list(token_batches(lengths, 256, np.random.default_rng(1), window=3))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert all(len(b) * lengths[b].max() <= 256 for b in batches)
