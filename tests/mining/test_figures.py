"""Figures of words: drawn without boxes, and an error when there is too little to draw."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from malmoi.encoders.words import Occurrence, Word
from malmoi.errors import DataError, MissingExtra
from malmoi.mining.figures import (
    FONT,
    fonts,
    plot_layers,
    plot_occurrences,
    plot_tokens,
    plot_values,
)
from malmoi.mining.maps import project

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def found(count: int) -> list[Occurrence]:
    random = np.random.default_rng(0)
    made = []
    for owner in range(count):
        vector = random.standard_normal(8).astype(np.float32)
        made.append(Occurrence(f"{owner}번 배가 뷁 $5", owner, Word("배", 3, 4, vector, ())))
    return made


def test_the_shipped_font_has_every_syllable() -> None:
    manager = pytest.importorskip("matplotlib.font_manager")
    assert fonts()[0] == FONT
    letters = manager.get_font(manager.findfont(FONT)).get_charmap()
    assert all(code in letters for code in range(0xAC00, 0xD7A4))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_all_figures_are_drawn_without_a_warning(tmp_path: Path, ending: str) -> None:
    many = found(6)
    words = [one.word for one in many]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_occurrences(many, tmp_path / f"a.{ending}")
        plot_layers([("배 ↔ 배", [1.0, 0.9])], tmp_path / f"b.{ending}", word="배")
        plot_values(many, tmp_path / f"c.{ending}")
        plot_tokens(words, words[:2], tmp_path / f"d.{ending}")
    for name in "abcd":
        assert (tmp_path / f"{name}.{ending}").stat().st_size > 2000


def test_one_occurrence_makes_no_map(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two or more"):
        plot_occurrences(found(1), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_equal_vectors_are_drawn_all_the_same(tmp_path: Path) -> None:
    one = found(1)[0]
    plot_occurrences([one, one, one], tmp_path / "a.png")
    plot_values([one, one], tmp_path / "b.png")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"a.png", "b.png"} and min(sizes.values()) > 2000


def test_principal_components_keep_distances_in_a_plane() -> None:
    flat = np.zeros((5, 9), dtype=np.float32)
    flat[:, [2, 7]] = np.random.default_rng(1).standard_normal((5, 2))
    made = project(flat)
    np.testing.assert_allclose(
        np.linalg.norm(made[:, None] - made, axis=-1),
        np.linalg.norm(flat[:, None] - flat, axis=-1),
        atol=1e-5,
    )


def test_umap_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    with pytest.raises(MissingExtra, match=r"malmoi\[umap\]"):
        project(np.eye(5, dtype=np.float32), "umap")
