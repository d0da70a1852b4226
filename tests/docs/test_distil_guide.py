"""docs/distillation.md: its recipe is in order, and it names every key."""

import re
import tomllib

import pytest

from malmoi.training.distil import recipe as settings
from malmoi.training.recipe import make_recipe
from tests.support import ROOT


def documented() -> str:
    return (ROOT / "docs/distillation.md").read_text("utf-8")


def test_the_documented_recipe_is_in_order() -> None:
    [block] = re.findall(r"```toml\n(.*?)```", documented(), re.DOTALL)
    assert isinstance(make_recipe(tomllib.loads(block)), settings.Distillation)


@pytest.mark.parametrize(
    "cls",
    [settings.Distillation, settings.Parallel, settings.Text, settings.TeacherRecipe,
     settings.Distil, settings.DistillationOutput],
)  # fmt: skip
def test_every_key_is_documented(cls: type[settings.RecipeTable]) -> None:
    text = documented()
    keys = set(cls.model_fields)
    written = ("{} = ", "[{}]", ".{}]]")
    assert {key for key in keys if not any(way.format(key) in text for way in written)} == set()
