"""Recipes: every key of every objective with its default, which are needed, what each accepts.

Recipes are read from TOML by `load_recipe` alone, so that what checks them may be replaced.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from malmoi import MalmoiError
from malmoi.training.recipe import load_recipe
from tests.pins.golden import check_entry, to_toml

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
PAIR = {"a": "a", "b": "b"}
SCORED = PAIR | {"score": "s"}
LABELLED = PAIR | {"label": "l"}
# What each objective of pairs reads, and the options it takes.
OBJECTIVES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "softmax": (LABELLED, {}),
    "cosine": (SCORED, {}),
    "triplet": (PAIR | {"negative": "n"}, {"margin": 1.0}),
    "contrastive": (PAIR, {"scale": 20.0, "symmetric": False}),
    "cosent": (SCORED, {"scale": 20.0}),
    "angle": (SCORED, {"scale": 20.0}),
    "term-alignment": (
        {"name": "n", "concept": "c"},
        {"alpha": 2.0, "beta": 50.0, "base": 0.5, "epsilon": 0.2, "pairs": 50, "together": 2}
        | {"neighbours": 2, "siblings": 0},
    ),
    "regression": (SCORED, {}),
    "mse": (SCORED, {}),
    "listwise": (SCORED, {}),
    "cross-encoder-classification": (LABELLED, {}),
}
RERANKERS = ("regression", "mse", "listwise", "cross-encoder-classification")


def pairs_recipe(objective: str) -> dict[str, Any]:
    """A recipe that learns from pairs, with one entry in each of its tables."""
    columns, options = OBJECTIVES[objective]
    entry: dict[str, Any] = {"files": ["x.tsv"], "columns": columns, "options": options}
    entry["where"] = {"kind": "ko"}
    entry["without"] = {"kind": ["en"]}
    if "score" in columns:
        entry["range"] = [0, 5]
    if "label" in columns:
        entry["labels"] = ["no", "yes"]
    if objective == "term-alignment":
        entry["negatives"] = [{"files": ["n.tsv"], "columns": PAIR}]
    made: dict[str, Any] = {
        "name": "x",
        "base": "base",
        "objective": objective,
        "data": [entry],
        "output": {"folder": "run"},
        "schedule": {},
        "evaluation": [{"task": "sts", "file": "dev.tsv"}],
    }
    if objective in RERANKERS:
        made["kind"] = "reranker"
    return made


OTHERS: dict[str, dict[str, Any]] = {
    "tag": {
        "data": {"train": ["a.tsv"], "dev": ["b.tsv"]},
        "schedule": {},
        "weights": {"O": 0.5},
    },
    "note-classification": {
        "data": {
            "files": ["n.tsv"],
            "columns": {"text": "t", "label": "l"},
            "shares": {"dev": 0.2},
        },
        "schedule": {},
    },
    "pretrain": {
        "data": {
            "files": ["t.txt"],
            "also": [{"files": ["u.tsv"]}],
            "leave_out": [{"files": ["v.tsv"], "id": "id"}],
        },
        "masking": {},
        "scratch": {},
        "schedule": {},
    },
    "distil": {
        "parallel": [
            {
                "files": ["p.tsv"],
                "source": ["en"],
                "target": ["ko"],
                "words": [1, 9],
                "held_out": {"by": "code"},
            }
        ],
        "held_out": {"files": ["p.tsv"], "source": "en", "target": "ko"},
        "teachers": [{"model": "m"}],
        "text": [{"files": ["t.tsv"], "columns": ["c"], "held_out": {"by": "code"}}],
        "distil": {"steps": 10},
        "evaluation": [{"task": "sts", "file": "dev.tsv"}],
    },
}


def table_of(objective: str) -> dict[str, Any]:
    """The recipe of an objective, with one entry in each of its tables."""
    if objective in OBJECTIVES:
        return pairs_recipe(objective)
    made = {"name": "x", "base": "base", "objective": objective, "output": {"folder": "run"}}
    return copy.deepcopy(made | OTHERS[objective])


@pytest.fixture
def accepts(tmp_path: Path) -> Any:
    """Tell whether `load_recipe` takes a table."""

    def call(table: dict[str, Any]) -> bool:
        path = tmp_path / "recipe.toml"
        path.unlink(missing_ok=True)  # writing over a file waits for the disk
        path.write_text(to_toml(table), "utf-8")
        try:
            load_recipe(path)
        except MalmoiError:
            return False
        return True

    return call


def walk(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place in nested tables and lists of tables, from the top down."""
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from walk(value[key], (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for i, one in enumerate(value):
            yield from walk(one, (*path, i))


def at(table: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        table = table[key]
    return table


def changed(table: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy with one place set; `...` takes it out."""
    made = copy.deepcopy(table)
    place = at(made, path[:-1])
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def shown(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


ALL = [*OBJECTIVES, *OTHERS]


@pytest.mark.parametrize("objective", ALL)
def test_keys_with_their_defaults(objective: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(to_toml(table_of(objective)), "utf-8")
    read = load_recipe(tmp_path / "recipe.toml")
    check_entry("recipe_keys.json", objective, read.to_json())


# Three objectives of pairs stand for the others, whose recipes have the same tables.
@pytest.mark.parametrize("objective", ["cosent", "term-alignment", "regression", *OTHERS])
def test_keys_that_are_needed_and_tables_that_take_any(objective: str, accepts: Any) -> None:
    table = table_of(objective)
    assert accepts(table)
    places = [(path, value) for path, value in walk(table) if path]
    needed = [
        shown(path)
        for path, _ in places
        if not isinstance(path[-1], int) and not accepts(changed(table, path, ...))
    ]
    tables = [((), table), *((path, value) for path, value in places if isinstance(value, dict))]
    takes_any = [
        shown(path)
        for path, _ in tables
        if any(accepts(changed(table, (*path, "no_such_key"), value)) for value in (1, "x", ["x"]))
    ]
    check_entry("recipe_tables.json", objective, {"needed": needed, "takes any key": takes_any})


PROBES = (-1, 0, 0.5, 1, 1.5, 3, True, "", "x", ["x"], [1])


@pytest.mark.parametrize("objective", ["cosent", "term-alignment", "regression", *OTHERS])
def test_values_that_keys_accept(objective: str, accepts: Any, tmp_path: Path) -> None:
    """Each key is given numbers, text and lists in turn; those it accepts are pinned."""
    table = table_of(objective)
    (tmp_path / "whole.toml").write_text(to_toml(table), "utf-8")
    whole = json.loads(json.dumps(load_recipe(tmp_path / "whole.toml").to_json()))
    found = {}
    seen: set[str] = set()
    for path, value in walk(whole):
        if path in ((), ("objective",)) or isinstance(value, dict) or isinstance(path[-1], int):
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            continue
        name = ".".join("*" if isinstance(key, int) else key for key in path)
        if name in seen:
            continue
        seen.add(name)
        if not _has(table, path[:-1]):
            continue
        good = [probe for probe in PROBES if accepts(changed(table, path, probe))]
        found[name] = " ".join(json.dumps(probe) for probe in good)
    check_entry("recipe_values.json", objective, found)


def _has(table: Any, path: tuple[Any, ...]) -> bool:
    try:
        at(table, path)
    except (KeyError, IndexError):
        return False
    return True


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_options_of_an_objective(objective: str, accepts: Any) -> None:
    table = pairs_recipe(objective)
    for name, value in OBJECTIVES[objective][1].items():
        assert not accepts(changed(table, ("data", 0, "options", name), "text"))
        assert accepts(changed(table, ("data", 0, "options", name), value))
    assert not accepts(changed(table, ("data", 0, "options", "no_such_option"), 1))


def test_changes_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(to_toml(pairs_recipe("cosent")), "utf-8")
    sets = ["schedule.epochs=7", "data.0.weight=2", "name=other", "matryoshka=[8, 4]"]
    read = load_recipe(tmp_path / "recipe.toml", sets=sets).to_json()
    assert (read["schedule"]["epochs"], read["data"][0]["weight"]) == (7, 2.0)
    assert (read["name"], list(read["matryoshka"])) == ("other", [8, 4])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes(path: Path) -> None:
    read = load_recipe(path).to_json()
    assert read["name"] and read["output"]["folder"]


def test_recipes_are_shipped() -> None:
    assert len(RECIPES) >= 17
