"""The training objectives by name: which columns each reads, and which loss it builds.

An objective is data: the text columns of one example, what kind of label goes with them, the
options it takes with their defaults, and the function that builds its loss. That function is
named as text, "module:function", because it needs torch and a recipe is checked without it.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import OptionError
from .schema import unknown_key

Label = Literal["score", "label", ""]


@dataclass(frozen=True)
class Objective:
    """How one kind of example is read and learnt from.

    `texts` are the columns that every example has, `optional` those it may have besides. `label`
    is "score" (a number, scaled from its range to 0…1), "label" (a class) or "" (none).
    `distinct` asks for batches in which no text occurs twice, because in-batch negatives would
    make it its own negative. `reader` names the function that reads the examples where rows are
    not examples themselves; it gets the options that `reading` names, and the loss the others.
    """

    name: str
    loss: str
    texts: tuple[str, ...] = ("a", "b")
    optional: tuple[str, ...] = ()
    label: Label = ""
    options: dict[str, Any] = field(default_factory=dict)
    distinct: bool = False
    kinds: tuple[str, ...] = ("encoder",)
    reader: str = ""
    reading: tuple[str, ...] = ()

    def build(self) -> Callable[..., Any]:
        """Import the function that builds the loss."""
        return _imported(self.loss)

    def read(self) -> Callable[..., Any]:
        """Import the function that reads the examples."""
        return _imported(self.reader)

    def loss_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Give those of the settled options that the loss takes."""
        return {key: value for key, value in options.items() if key not in self.reading}

    def settle(self, options: dict[str, Any], *, where: str) -> dict[str, Any]:
        """Give the options with defaults filled in; an unknown or ill-typed one is an OptionError.

        >>> OBJECTIVES["triplet"].settle({"margin": 2}, where="recipe.toml")
        {'margin': 2.0}
        """
        settled = dict(self.options)
        for key, value in options.items():
            if key not in self.options:
                raise unknown_key(key, list(self.options), f"{where}: options of {self.name}")
            expected = type(self.options[key])
            if expected is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            infinite = isinstance(value, float) and not math.isfinite(value)
            if not isinstance(value, expected) or infinite:
                raise OptionError(
                    f"{where}: option {key} of {self.name} is {value!r}; "
                    f"expected {expected.__name__}, such as {self.options[key]!r}. Change it."
                )
            settled[key] = value
        return settled


def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


OBJECTIVES: dict[str, Objective] = {}


def register(objective: Objective) -> None:
    """Make an objective known to recipes by its name."""
    OBJECTIVES[objective.name] = objective


def find_objective(name: str, *, where: str) -> Objective:
    """Find an objective by its name."""
    if name not in OBJECTIVES:
        raise unknown_key(name, list(OBJECTIVES), f"{where}: objective")
    return OBJECTIVES[name]


_LOSSES = "malmoi.train.losses"
_CROSS = "malmoi.train.objectives.cross_encoder"

for _objective in (
    Objective("softmax", f"{_LOSSES}:softmax", label="label"),
    Objective("cosine", f"{_LOSSES}:cosine", label="score"),
    Objective(
        "triplet", f"{_LOSSES}:triplet", texts=("a", "b", "negative"), options={"margin": 1.0}
    ),
    Objective(
        "in-batch",
        f"{_LOSSES}:in_batch",
        optional=("negative",),
        options={"scale": 20.0, "symmetric": False},
        distinct=True,
    ),
    Objective("cosent", f"{_LOSSES}:cosent", label="score", options={"scale": 20.0}),
    Objective("angle", f"{_LOSSES}:angle", label="score", options={"scale": 20.0}),
    Objective(
        "align",
        f"{_LOSSES}:align",
        texts=("name", "concept"),
        optional=("synonym",),
        options={
            "alpha": 2.0,
            "beta": 50.0,
            "base": 0.5,
            "epsilon": 0.2,
            "pairs": 50,
            "together": 2,
            "neighbours": 2,
            "siblings": 0,
        },
        reader="malmoi.train.terms:read_synonyms",
        reading=("pairs", "together", "neighbours", "siblings"),
    ),
    Objective("regression", f"{_CROSS}:cross_loss", label="score", kinds=("reranker",)),
    Objective("mse", f"{_CROSS}:cross_loss", label="score", kinds=("reranker",)),
    Objective("classification", f"{_CROSS}:cross_loss", label="label", kinds=("reranker",)),
):
    register(_objective)
