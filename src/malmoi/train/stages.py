"""Recipes with tables of their own, found by their objective: each a package with two modules.

`settings.make(table, where=…)` gives the checked recipe without importing torch, `run.prepare`
reads its data and `run.run` trains.
"""

import importlib
from pathlib import Path
from typing import Any

from .recipe import Output
from .trained import Trained

STAGES = {"tag": "malmoi.train.tag", "pretrain": "malmoi.train.pretrain"}


class Stage:
    """What the recipes of all stages have in common; each is a frozen dataclass."""

    name: str
    objective: str
    output: Output

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as JSON-ready data, defaults included."""
        raise NotImplementedError


def make_stage(table: dict[str, Any], *, where: str) -> Stage:
    """Make a recipe from parsed TOML, and check it."""
    made: Stage = _module(str(table["objective"]), "settings").make(table, where=where)
    return made


def prepare_stage(recipe: Stage, root: Path, *, strict: bool) -> Any:
    """Read and check everything but the weights."""
    return _module(recipe.objective, "run").prepare(recipe, root, strict=strict)


def run_stage(recipe: Stage, prepared: Any, *, resume: bool, threads: int | None) -> Trained:
    """Train what was prepared."""
    done: Trained = _module(recipe.objective, "run").run(
        recipe, prepared, resume=resume, threads=threads
    )
    return done


def _module(objective: str, name: str) -> Any:
    return importlib.import_module(f"{STAGES[objective]}.{name}")
