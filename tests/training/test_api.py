"""`malmoi.train`: rows from memory, keywords that are a recipe's keys, callbacks."""

import re
from pathlib import Path
from typing import Any

import pytest

import malmoi
from malmoi.errors import DataError, OptionError

pytest.importorskip("torch", reason="torch is not installed")
from tests.support import ROOT, runs

PAIRS = [(f"고양이 {i}", f"the cat {i}") for i in range(16)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = runs.prepare(tmp_path_factory.mktemp("api"))
    return folder / str(runs.table(folder)["base"])


def train(base: Path, data: Any, **options: Any) -> Any:
    options = {"steps": 3, "batch_size": 4, "progress": False, "threads": 1} | options
    return malmoi.train(data=data, base=base, **options)


def test_rows_become_a_model_that_is_measured_before_and_after(base: Path, tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []
    run = train(
        base,
        PAIRS,
        folder=tmp_path / "run",
        evaluation=[("고양이", "cat", 1.0), ("개", "car", 0.0), ("배", "boat", 0.5)],
        on_step=lambda step, loss: told.append(("step", step)),
        on_evaluation=lambda step, scores: told.append(("scores", step)),
    )
    assert run.steps == 3 and set(run.scores) == set(run.base_scores) == {"sts:evaluation"}
    assert told[0] == ("scores", 0) and [one for one in told if one[0] == "step"][-1][1] == 3
    assert run.encoder.encode(["고양이"]).shape[0] == 1 and run.folder == tmp_path / "run"
    again = malmoi.train(folder=tmp_path / "run", resume=True, progress=False)
    assert again.steps == 3


def test_rows_may_be_dictionaries_frames_and_files(base: Path, tmp_path: Path) -> None:
    class Frame:  # what pandas has
        columns = ("a", "b")

        def to_dict(self, orient: str) -> list[dict[str, str]]:
            assert orient == "records"
            return [{"a": a, "b": b} for a, b in PAIRS]

    (tmp_path / "pairs.tsv").write_text(
        "a\tb\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS), "utf-8"
    )
    named = [{"anchor": a, "positive": b} for a, b in PAIRS]  # as sentence-transformers has them
    for data in (
        Frame(),
        named,
        [{"a": a, "b": b, "other": 1} for a, b in PAIRS],
        tmp_path / "pairs.tsv",
    ):
        assert train(base, data, steps=1).steps == 1


def test_a_callback_ends_a_run(base: Path) -> None:
    assert train(base, PAIRS, steps=50, on_step=lambda step, loss: step == 2).steps == 2


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/training.md", "docs/training.ko.md"])
def test_the_documented_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / page).read_text("utf-8")
    [block] = re.findall(r"```python\n(import malmoi\n.*?)```", text, re.DOTALL)
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out == "True\n"


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([("one",)], {}, "row 0 of data has no b; expected a, b. It has 1 value"),
        ([], {}, "data is empty"),
        (PAIRS, {"stepz": 3}, "Did you mean steps"),
        (PAIRS, {"objective": "mnrl"}, 'here it is "contrastive"'),
        (PAIRS, {"objective": "CosineSimilarityLoss"}, 'here it is "cosine"'),
        (PAIRS, {"objective": "tag"}, "reads files"),
        (7, {}, "data is int; expected rows"),
    ],
)
def test_mistakes_are_one_line(base: Path, data: Any, options: Any, message: str) -> None:
    with pytest.raises((DataError, OptionError), match=message) as caught:
        train(base, data, **options)
    assert "\n" not in str(caught.value)
