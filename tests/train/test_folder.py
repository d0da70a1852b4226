"""A run's folder: it goes on with what it began with, and a run that fails at once leaves none."""

import json
from pathlib import Path
from typing import Any

import pytest
import runs

from malmoi import DataError, OptionError, OutputError
from malmoi.train import folder as folders
from malmoi.train import loop
from malmoi.train.classify.settings import make_classification
from malmoi.train.recipe import make_recipe
from malmoi.train.run import train
from malmoi.train.stages import make_stage

COLUMNS = {"a": "a", "b": "b", "score": "score"}
RERANKER = {"kind": "reranker", "data": [{"files": ["pairs.tsv"], "columns": COLUMNS}]}
RERANKER["data"][0] |= {"objective": "regression", "range": [0, 5]}  # type: ignore[index]
# Every kind of recipe on a file of its own; what they share stands in `recipe`.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "encoder": ("pairs.tsv", {}),
    "reranker": ("pairs.tsv", RERANKER),
    "tag": ("marked.tsv", {"data": {"train": ["marked.tsv"], "dev": ["marked.tsv"]}}),
    "classify": (
        "notes.tsv",
        {"data": {"files": ["notes.tsv"], "columns": {"text": "text", "label": "label"}}},
    ),
    "pretrain": ("text.txt", {"data": {"files": ["text.txt"], "held_out": 0.3, "lines": True}}),
}


def recipe(kind: str, folder: Path, **changes: Any) -> Any:
    made = runs.table(folder, schedule={"epochs": 9, "learning_rate": 1e-3}, max_tokens=32)
    made["output"] = {"folder": str(folder / f"run-{kind}"), "checkpoint_steps": 2}
    made |= KINDS[kind][1] | changes
    if kind in ("encoder", "reranker"):
        return make_recipe(made)
    made["objective"] = kind
    return make_classification(made) if kind == "classify" else make_stage(made, where="it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = runs.prepare(tmp_path_factory.mktemp("folder"))
    words = [f"{word}\t{'B-X' if i % 2 else 'O'}" for i, word in enumerate(runs.WORDS)]
    (made / "marked.tsv").write_text("\n\n".join(words) + "\n", "utf-8")
    lines = [f"{word} the ship {i}" for i, word in enumerate(runs.WORDS * 3)]
    (made / "text.txt").write_text("\n".join(lines) + "\n", "utf-8")
    notes = [
        "text\tlabel",
        *(f"{line}\t{'yes' if i % 2 else 'no'}" for i, line in enumerate(lines)),
    ]
    (made / "notes.tsv").write_text("\n".join(notes) + "\n", "utf-8")
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_told_before_a_run_goes_on(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(loss: float, step: int) -> float:
        if step == 3:
            raise KeyboardInterrupt
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(loop, "check_loss", stop)
        with pytest.raises(KeyboardInterrupt):
            train(recipe(kind, folder), data=folder, threads=1)
    file = folder / KINDS[kind][0]
    before = file.read_bytes()
    try:
        # A line that is there already: all that a recipe can see of the file stays the same.
        file.write_bytes(before + before.splitlines(keepends=True)[-1])
        with pytest.raises(DataError, match=f"{file.name} is not the file that the run in"):
            train(recipe(kind, folder), data=folder, threads=1, resume=True)
    finally:
        file.write_bytes(before)
    assert (folder / f"run-{kind}/checkpoints/step-00000002").is_dir()
    with pytest.raises(OptionError, match=r"differs from the recipe in schedule\.epochs"):
        changed = recipe(kind, folder, schedule={"epochs": 8, "learning_rate": 1e-3})
        train(changed, data=folder, threads=1, resume=True)


def test_files_of_evaluations_may_change(folder: Path, tmp_path: Path) -> None:
    made = recipe("encoder", folder, evaluation=[{"task": "sts", "file": "dev.tsv"}])
    assert folders.check_data({"pairs.tsv": "1"}, tmp_path, tell=lambda message: None) is None
    (tmp_path / "data.json").write_text('{"pairs.tsv": "1"}', "utf-8")
    folders.check_data({"pairs.tsv": "1", "dev.tsv": "2"}, tmp_path, tell=print)
    from malmoi.train.data import find_files, learnt_files

    (folder / "dev.tsv").write_bytes((folder / "pairs.tsv").read_bytes())
    assert learnt_files(made) == ["pairs.tsv"]
    assert list(find_files(made, folder)) == ["pairs.tsv", "dev.tsv"]


def test_a_run_of_before_says_that_its_data_are_not_known(tmp_path: Path) -> None:
    told: list[str] = []
    folders.check_data({"pairs.tsv": "1"}, tmp_path, tell=told.append)
    assert told == [
        f"{tmp_path} has no data.json; whether the data are those it began with is not known"
    ]


def test_what_a_run_began_with_must_be_readable(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("{", "utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        folders.check_recipe(recipe("encoder", folder), tmp_path)


def test_a_run_that_fails_at_once_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    out = {"folder": str(tmp_path / "runs/out")}
    with pytest.raises(OptionError, match="own dimension"):
        train(recipe("encoder", folder, output=out, matryoshka=[64]), data=folder)
    assert not (tmp_path / "runs/out").exists()


def test_a_run_that_has_saved_stays(folder: Path, tmp_path: Path) -> None:
    made = recipe("encoder", folder)
    with pytest.raises(RuntimeError), folders.opening_run(made, {}, tmp_path / "out"):
        (tmp_path / "out/checkpoints/step-00000002").mkdir(parents=True)
        (tmp_path / "out/checkpoints/step-00000002/state.json").touch()
        raise RuntimeError
    assert json.loads((tmp_path / "out/recipe.json").read_text("utf-8"))["name"] == "tiny"
    assert folders.check_new(tmp_path / "out", resume=True)


def test_places_that_cannot_hold_a_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, message in (("file", "holds no run"), ("file/out", "cannot make")):
        with pytest.raises(OutputError, match=message):
            train(recipe("encoder", folder, output={"folder": str(tmp_path / place)}), data=folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").touch()
    with pytest.raises(OutputError, match="holds no run"):
        folders.check_new(tmp_path / "other", resume=True)
