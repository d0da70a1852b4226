"""A run's folder: it goes on with what it began with, and a run that fails at once leaves none."""

import json
from pathlib import Path

import pytest

from malmoi.errors import DataError, OptionError, OutputError
from malmoi.training import loop
from malmoi.training import run_dir as folders
from malmoi.training.run import train
from tests.support import runs
from tests.support.logs import record_messages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.prepare_kinds(tmp_path_factory.mktemp("folder"))


@pytest.mark.parametrize("kind", runs.KINDS)
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
            train(runs.recipe(kind, folder), data=folder, threads=1)
    file = folder / runs.KINDS[kind][0]
    before = file.read_bytes()
    try:
        # A line that is there already: all that a recipe can see of the file stays the same.
        file.write_bytes(before + before.splitlines(keepends=True)[-1])
        with pytest.raises(DataError, match=f"{file.name} is not the file that the run in"):
            train(runs.recipe(kind, folder), data=folder, threads=1, resume=True)
    finally:
        file.write_bytes(before)
    assert (folder / f"run-{kind}/checkpoints/step-00000002").is_dir()
    with pytest.raises(OptionError, match=r"differs from the recipe in schedule\.epochs"):
        changed = runs.recipe(kind, folder, schedule={"epochs": 8, "learning_rate": 1e-3})
        train(changed, data=folder, threads=1, resume=True)


def test_files_of_evaluations_may_change(folder: Path, tmp_path: Path) -> None:
    made = runs.recipe("encoder", folder, evaluation=[{"task": "sts", "file": "dev.tsv"}])
    assert folders.check_data({"pairs.tsv": "1"}, tmp_path) is None
    (tmp_path / "data.json").write_text('{"pairs.tsv": "1"}', "utf-8")
    folders.check_data({"pairs.tsv": "1", "dev.tsv": "2"}, tmp_path)
    from malmoi.training.objectives.pairs import named_files

    assert [file for file, _ in named_files(made, learnt=True)] == ["pairs.tsv"]
    assert [file for file, _ in named_files(made)] == ["pairs.tsv", "dev.tsv"]


def test_a_run_of_a_version_without_some_key_resumes(folder: Path, tmp_path: Path) -> None:
    made = runs.recipe("encoder", folder)
    stored = made.to_json()
    del stored["schedule"]["clip"], stored["dropout"]
    (tmp_path / "recipe.json").write_text(json.dumps(stored), "utf-8")
    folders.check_recipe(made, tmp_path)
    (tmp_path / "recipe.json").write_text(json.dumps(stored | {"seed": 7}), "utf-8")
    with pytest.raises(OptionError, match="differs from the recipe in seed"):
        folders.check_recipe(made, tmp_path)


def test_a_run_of_before_says_that_its_data_are_not_known(tmp_path: Path) -> None:
    told = record_messages()
    folders.check_data({"pairs.tsv": "1"}, tmp_path)
    assert told == [
        f"{tmp_path} has no data.json; whether the data are those it started with is not known"
    ]


def test_what_a_run_began_with_must_be_readable(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("{", "utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        folders.check_recipe(runs.recipe("encoder", folder), tmp_path)


def test_a_run_that_fails_at_once_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    out = {"folder": str(tmp_path / "runs/out")}
    with pytest.raises(OptionError, match="own dimension"):
        train(runs.recipe("encoder", folder, output=out, matryoshka=[64]), data=folder)
    assert not (tmp_path / "runs/out").exists()


def test_a_folder_that_was_there_stays_and_is_empty_again(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "other disk")
    made = runs.recipe("encoder", folder)
    with pytest.raises(RuntimeError), folders.opening_run(made, {}, tmp_path / "out"):
        (tmp_path / "out/checkpoints").mkdir()
        raise RuntimeError
    assert (tmp_path / "out").is_symlink() and list((tmp_path / "out").iterdir()) == []


def test_a_run_that_has_saved_stays(folder: Path, tmp_path: Path) -> None:
    made = runs.recipe("encoder", folder)
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
            train(
                runs.recipe("encoder", folder, output={"folder": str(tmp_path / place)}),
                data=folder,
            )
    with pytest.raises(OutputError, match="cannot make .*: embedded null"):
        train(
            runs.recipe("encoder", folder, output={"folder": str(tmp_path / "a\0b")}), data=folder
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: False)
        with pytest.raises(OutputError, match="may not be written to"):
            folders.check_new(tmp_path / "x/out", resume=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").touch()
    with pytest.raises(OutputError, match="holds no run"):
        folders.check_new(tmp_path / "other", resume=True)


def test_a_run_of_an_older_version_resumes_under_the_new_names(folder: Path) -> None:
    recipe = runs.recipe("note-classification", folder)
    table = json.loads(json.dumps(recipe.to_json())) | {"objective": "classify"}
    old = folder / "older"
    old.mkdir()
    (old / folders.RECIPE).write_text(json.dumps(table), "utf-8")
    folders.check_recipe(recipe, old)
    (old / folders.RECIPE).write_text(json.dumps(table | {"seed": 9}), "utf-8")
    with pytest.raises(OptionError, match="differs from the recipe in seed"):
        folders.check_recipe(recipe, old)
