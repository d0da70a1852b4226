"""The registry: every task keeps the same promises, and a new one is known everywhere at once."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

import malmoi.evaluation
from malmoi.cli import app
from malmoi.errors import MalmoiError, OptionError
from malmoi.evaluation import TASKS, Outcome, Settings, evaluate
from malmoi.evaluation.examples import Examples, Form, Roles, text
from malmoi.evaluation.measures import mean
from malmoi.evaluation.tasks import Task
from malmoi.training.schema import Evaluation
from tests.support import ROOT
from tests.support.fakes import Letters

PAGE = ROOT / "docs/evaluation.md"


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_its_promises(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    assert task.name == name and task.__doc__
    assert getattr(malmoi.evaluation, name) is task
    with pytest.raises(TypeError, match="colums"):
        task.read(tmp_path / "none.tsv", colums={})
    settings = Settings(encoder=Letters(), lexicon="sample", train=tmp_path / "none.tsv")
    with pytest.raises(MalmoiError, match=r"none\.tsv"):
        task.read(tmp_path / "none.tsv", settings)


@pytest.mark.slow
def test_a_training_run_imports_what_it_measures_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\tscore\n배\tship\t1\n달\tmoon\t0\n", "utf-8")
    script = """
import sys
from pathlib import Path
from malmoi.training.recipe import make_recipe
from malmoi.training.run import prepare
recipe = make_recipe({
    "name": "x", "base": "ko-en-small", "objective": "contrastive",
    "data": [{"files": ["pairs.tsv"], "columns": {"a": "a", "b": "b"}}],
    "evaluation": [{"task": "sts", "file": "pairs.tsv"}],
    "output": {"folder": "run"},
})
prepare(recipe, Path())
import malmoi.training.objectives.pairs_task
unwanted = ("clinical", "terms", "documents", "corpus", "mining")
print([m for m in sys.modules if m.startswith(tuple(f"malmoi.{one}" for one in unwanted))])
"""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_page_lists_every_task() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.M)[: len(TASKS)] == list(TASKS)


def test_recipes_name_tasks_of_the_registry() -> None:
    assert set(get_args(Evaluation.model_fields["task"].annotation)) <= set(TASKS)


def test_help_offers_every_task() -> None:
    done = CliRunner().invoke(app, ["evaluate", "--task", "none", "--data", "x.tsv"])
    assert done.exit_code == 2
    assert all(f"'{name}'" in done.output for name in TASKS)


class Lengths(Task[list[str]]):
    """How many texts have a vector longer than 1."""

    name = "lengths"
    forms = ((Form(("text",), (("text",),), {}, sided=False), lambda values: parse(values)),)

    def outcome(self, model: object, examples: Examples[list[str]], settings: Settings) -> Outcome:
        found = np.linalg.norm(model.encode(examples.rows), axis=1) > 1  # type: ignore[attr-defined]
        return Outcome({"share": mean(found)}, units=np.arange(len(found)), main="share")


def parse(values: Roles) -> str:
    return text(values, "text")


def test_a_new_task_needs_forms_and_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("text\na\nab\nabc\n\t\n", "utf-8")
    with pytest.raises(OptionError, match="task is 'lengths'; known are sts, "):
        evaluate(Letters(), "lengths", path)
    monkeypatch.setitem(TASKS, "lengths", Lengths())
    report = evaluate(Letters(), "lengths", path, rounds=20)
    assert report.metrics["share"].value == pytest.approx(2 / 3)
    assert (report.task, report.data.rows, report.data.columns) == ("lengths", 3, {"text": "text"})
    assert Lengths().measure(Letters(), ["a"]).values() == {"share": 0}
    limited = Lengths().read(path, limit=2)
    assert limited.rows == ["a", "ab"]
