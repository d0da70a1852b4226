"""A recipe's mistakes are one clear line each, before anything is loaded."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import pytest

from malmoi.errors import DataError, OptionError
from malmoi.training.objective import objectives
from malmoi.training.objectives.pairs import pair_objectives
from malmoi.training.recipe import (
    Data,
    Evaluation,
    Output,
    Recipe,
    Schedule,
    load_recipe,
    make_recipe,
)
from malmoi.training.schema import RecipeTable, key, parse_table, table_in
from tests.support import ROOT, runs
from tools.recipe_page import write_korean, write_reference

RECIPES = ROOT / "recipes"


def table(**changes: Any) -> dict[str, Any]:
    return runs.table(Path("x"), **changes)


def test_defaults_are_visible() -> None:
    recipe = make_recipe(table())
    assert recipe.kind == "encoder"
    assert recipe.schedule.warmup == 0.1
    assert recipe.to_json()["output"]["keep"] == 2


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"schedule\.epoch is not a key.*mean schedule\.epochs"):
        make_recipe(table(schedule={"epoch": 1}))
    with pytest.raises(OptionError, match=r"poling is not a key.*mean pooling\?"):
        make_recipe(table(poling="mean"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "avg"}, 'pooling is "avg"; known are cls, mean'),
        ({"kind": "encodr"}, "known are encoder"),
        ({"seed": "one"}, "seed is 'one'; expected a whole number"),
        ({"seed": True}, "seed is True; expected a whole number"),
        ({"matryoshka": [32, 0]}, r"matryoshka\[1\] is 0; expected 1 or more"),
        ({"schedule": {"batch_size": 1}}, "batch_size is 1; expected 2 or more"),
        ({"schedule": {"learning_rate": -1.0}}, "learning_rate is -1.0"),
        ({"schedule": {"learning_rate": float("nan")}}, "learning_rate is nan"),
        ({"schedule": {"epochs": 0}}, "epochs is 0; expected 1 or more"),
        ({"schedule": {"decay": "step"}}, "known are linear, cosine, constant"),
        ({"output": {"precision": ["int4"]}}, "known are float32, float16, int8"),
        ({"data": []}, "data is empty"),
        ({"dropout": 1.0}, "dropout is 1.0; expected less than 1"),
        ({"clean": ["upper"]}, "'upper' is not known"),
        ({"clean": ["compose"]}, "clean has no surrogates"),
        ({"clean": []}, "clean has no surrogates"),
        ({"evaluation": [{"task": "stss", "file": "x"}]}, "known are sts"),
        (
            {"evaluation": [{"task": "sts", "file": "x.tsv"}] * 2},
            "two .*evaluation.* are called sts:x",
        ),
        ({"evaluation": [{"task": "sts", "file": "x", "limit": -1}]}, "limit is -1"),
        ({"seed": -1}, "seed is -1; expected 0 to"),
        ({"seed": 2**63}, "seed is 9223372036854775808; expected 0 to"),
        ({"schedule": {"learning_rate": float("inf")}}, "is inf; expected a finite number"),
        ({"schedule": {"weight_decay": -0.1}}, "weight_decay is -0.1; expected 0 or more"),
        ({"schedule": {"clip": -1.0}}, "clip is -1.0; expected 0 or more"),
        ({"output": {"checkpoint_minutes": -1}}, "checkpoint_minutes is -1; expected 0 or more"),
        ({"output": {"precision": []}}, "precision is empty"),
    ],
)
def test_a_value_outside_its_range(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_recipe(table(**changes))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"objective": "cosnt"}, "Did you mean cosent"),
        ({"columns": {"a": "a", "b": "b"}}, "columns has no score; cosent reads a, b, score"),
        ({"range": [5, 0]}, "expected .least, most."),
        ({"range": [0, 1, 2]}, "range has 3; expected 2 values"),
        ({"range": [0]}, "range has 1; expected 2 values"),
        ({"limit": -1}, r"data\[0\]\.limit is -1; expected 0 or more"),
        ({"options": {"scala": 2}}, "Did you mean scale"),
        ({"options": {"scale": "big"}}, "option scale of cosent is 'big'; expected float"),
        ({"options": {"scale": float("nan")}}, "option scale of cosent is nan"),
        ({"weight": 0}, r"data\[0\]\.weight is 0; expected more than 0"),
        ({"weight": float("nan")}, "weight is nan; expected a finite number"),
        ({"range": [0, float("inf")]}, r"range\[1\] is inf"),
        ({"labels": ["yes", "no"]}, "labels is for a label; cosent reads none"),
        ({"files": []}, r"data\[0\]\.files is empty; expected one or more"),
        ({"triplets": {"positive": "yes"}}, "triplets is .* for cosent"),
    ],
)
def test_a_data_entry_that_does_not_fit(entry: dict[str, Any], message: str) -> None:
    made = table()
    made["data"][0] |= entry
    with pytest.raises(OptionError, match=message):
        make_recipe(made)


def test_labels_are_named_once_and_where_they_are_read() -> None:
    made = table(objective="softmax")
    made["data"][0]["labels"] = ["yes", "no", "no"]
    with pytest.raises(OptionError, match="labels names one twice"):
        make_recipe(made)
    made["data"][0] |= {"labels": ["yes", "no"], "range": [0, 5]}
    with pytest.raises(OptionError, match="range is for a score; softmax reads none"):
        make_recipe(made)


def test_a_data_entry_without_an_objective_takes_the_recipes() -> None:
    made = table(objective="angle")
    made["objective"] = "angle"
    del made["data"][0]["objective"]
    assert make_recipe(made).data[0].objective == "angle"
    del made["objective"]
    with pytest.raises(OptionError, match="no objective"):
        make_recipe(made)


def test_set_changes_one_key(tmp_path: Path) -> None:
    path = RECIPES / "sts-cosent.toml"
    sets = ["schedule.epochs=7", "data.0.weight=0.5", "output.folder=elsewhere/run", "seed = 3"]
    recipe = load_recipe(path, sets=sets)
    assert (recipe.schedule.epochs, recipe.data[0].weight, recipe.seed) == (7, 0.5, 3)
    assert recipe.output.folder == "elsewhere/run"
    with pytest.raises(OptionError, match="expected key=value"):
        load_recipe(path, sets=["schedule.epochs"])
    with pytest.raises(OptionError, match=r"data\.0\.weigth|weigth is not a key"):
        load_recipe(path, sets=["data.0.weigth=2"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data.9.weight=1", r"--set data\.9\.weight=1: there is no number 9; expected 0 to 1"),
        ("data.x.weight=1", "x is no number"),
        ("data.²=1", "² is no number"),
        ("name.x=1", 'what stands before "x" is no table'),
        ("name.x.y=1", 'what stands before "x" is no table'),
        ("schedule..epochs=1", "is no table"),
        (".=1", "is no table"),
        ("schedule=3", "schedule is not a table"),
    ],
)
def test_set_names_a_place_that_is_not_there(change: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_recipe(RECIPES / "sts-cosent.toml", sets=[change])


def test_a_file_that_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = \n", "utf-8")
    with pytest.raises(DataError, match=r"is not TOML.*line 1"):
        load_recipe(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_bytes('name = "한국어"\n'.encode("cp949"))
    with pytest.raises(DataError, match="is not UTF-8, which TOML is"):
        load_recipe(tmp_path / "bad.toml")


class Renamed(RecipeTable):
    """A table whose keys had other names."""

    renamed: ClassVar[dict[str, str]] = {"rate": "learning_rate"}
    learning_rate: float = key(1.0, "How fast.")


def test_an_old_key_is_taken_with_its_new_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="malmoi"):
        assert parse_table(Renamed, {"rate": 2.0}, where="x") == Renamed(learning_rate=2.0)
    assert "the recipe's key rate is called learning_rate now" in caplog.text
    with pytest.raises(OptionError, match="rate is the old name of learning_rate; expected one"):
        parse_table(Renamed, {"rate": 2.0, "learning_rate": 1.0}, where="x")


def test_a_recipe_may_begin_with_a_mark_and_end_its_lines_as_windows_does(tmp_path: Path) -> None:
    text = (RECIPES / "sts-cosent.toml").read_text("utf-8").replace("\n", "\r\n")
    (tmp_path / "marked.toml").write_bytes(text.encode("utf-8-sig"))
    assert load_recipe(tmp_path / "marked.toml") == load_recipe(RECIPES / "sts-cosent.toml")


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_project_is_in_order(path: Path) -> None:
    assert load_recipe(path).name


def test_checking_a_recipe_loads_no_torch() -> None:
    code = (
        "import sys, malmoi.training.run, malmoi.training.recipe as r; r.load_recipe(sys.argv[1]);"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    path = RECIPES / "sts-cosent.toml"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 0


def test_the_reference_page_has_every_key_in_both_languages() -> None:
    page = write_reference()
    korean = write_korean(page)
    for line in korean.splitlines():  # a description that tools/recipes.ko.tsv lacks is English
        if line.startswith("| ") and line.count(" | ") == 4 and "`" in line:
            meaning = line.rsplit(" | ", 1)[1]
            assert re.search("[가-힣]", meaning), f"tools/recipes.ko.tsv lacks: {meaning}"
    for model in {one.recipe for one in objectives().values()}:
        assert all(f"`{name}`" in page for name in model.model_fields)


def tables(model: type[RecipeTable]) -> list[type[RecipeTable]]:
    inner = [table_in(info.annotation) for info in model.model_fields.values()]
    return [model, *(found for one in inner if one for found in tables(one))]


@pytest.mark.parametrize("model", {one.recipe for one in objectives().values()})
def test_every_key_has_a_description(model: type[RecipeTable]) -> None:
    for table in tables(model):
        for name, info in table.model_fields.items():
            assert info.description, f"{table.__name__}.{name}"


def test_a_mistake_is_worded_with_key_value_range_and_meaning() -> None:
    with pytest.raises(OptionError) as caught:
        make_recipe(table(schedule={"warmup": -1}), where="my.toml")
    assert str(caught.value) == (
        "my.toml: schedule.warmup is -1; expected 0 or more. Change it (Rising steps: a share of "
        "all below 1, a number of steps from 1 on)."
    )
    with pytest.raises(OptionError, match=r"my.toml: base is missing; expected: The model to st"):
        make_recipe({"name": "x"}, where="my.toml")
    with pytest.raises(OptionError, match=r'decay is "linar"; known are .* Did you mean linear\?'):
        make_recipe(table(schedule={"decay": "linar"}))
    with pytest.raises(OptionError, match=r'objective is "tagg"; known are .* Did you mean tag\?'):
        make_recipe(table() | {"objective": "tagg"})
    with pytest.raises(
        OptionError, match=r'objective is "align", which is called "term-alignment"'
    ):
        make_recipe(table() | {"objective": "align"})
    entry = table()["data"][0] | {"objective": "in-batch"}
    with pytest.raises(OptionError, match=r'"in-batch", which is called "contrastive" now. Write'):
        make_recipe(table() | {"data": [entry]})


def documented() -> str:
    return (ROOT / "docs/training.md").read_text("utf-8")


def test_the_documented_recipe_is_in_order() -> None:
    part, whole = re.findall(r"```toml\n(.*?)```", documented(), re.DOTALL)
    assert make_recipe(tomllib.loads(whole)).matryoshka == (384, 256, 128, 64)
    more, table = tomllib.loads(part), tomllib.loads(whole)
    more["output"] |= {"folder": "x"}
    assert make_recipe(table | more).lora.rank == 16


@pytest.mark.parametrize("cls", [Recipe, Data, Schedule, Evaluation, Output])
def test_every_key_and_objective_is_documented(cls: type[RecipeTable]) -> None:
    text = documented()
    keys = set(cls.model_fields)
    assert {key for key in keys if f"{key} = " not in text and f"[{key}" not in text} <= {"layers"}
    assert {name for name in pair_objectives() if f"`{name}`" not in text} == set()
