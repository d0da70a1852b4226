"""Ceilings of lines for each package and for all of src/; raising one takes a commit that says why.

The table is in docs/architecture.md; this file reads it, so that the two cannot differ.
"""

import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.test_layering import ORDER, SOURCE
from tools import pictures

PAGE = ROOT / "docs/architecture.md"
FILES = 253  # of src/
PACKAGES = 21


def lines(path: Path) -> int:
    """Count the lines of a module, or of all modules under a folder."""
    paths = path.rglob("*.py") if path.is_dir() else [path]
    return sum(len(one.read_text("utf-8").splitlines()) for one in paths)


def ceilings() -> dict[str, int]:
    """Read the most lines of each package, and of src/ as a whole, from the page."""
    rows = re.findall(
        r"^\| `(\w+)(?:/|\.py)` \|.*\| ([\d,]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return {name: int(number.replace(",", "")) for name, number in rows}


def test_every_package_has_a_ceiling() -> None:
    assert set(ceilings()) == {*ORDER, "src"}


@pytest.mark.parametrize("name", ORDER)
def test_a_package_stays_under_its_ceiling(name: str) -> None:
    path = SOURCE / name
    found = lines(path if path.is_dir() else path.with_suffix(".py"))
    assert found <= ceilings()[name], f"{name} has {found} lines: delete some, or say why it grows"


def test_the_whole_stays_under_its_ceiling() -> None:
    files = list(SOURCE.rglob("*.py"))
    assert lines(SOURCE) <= ceilings()["src"]
    assert len(files) <= FILES
    assert len([name for name in ORDER if (SOURCE / name).is_dir()]) <= PACKAGES


def test_the_pictures_are_drawn_anew() -> None:
    shown = [name for packages in pictures.ROOMS.values() for name in packages]
    assert shown == [name for name in ORDER if (SOURCE / name).is_dir()]
    for name, draw in pictures.PICTURES.items():
        drawn = (ROOT / f"docs/assets/{name}.svg").read_text("utf-8")
        assert drawn == draw(), "run: python tools/pictures.py"
    assert "assets/architecture.svg" in PAGE.read_text("utf-8")
