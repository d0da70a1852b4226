"""The nearest terms of a term, and a map of them."""

import json
from pathlib import Path

import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.mining.texts import nearest_terms
from tests.support.graphs import Run

TERMS = ["당뇨병", "diabetes mellitus", "폐렴", "pneumonia", "간경변", "liver cirrhosis", "두통"]


@pytest.fixture(scope="module")
def shipped() -> malmoi.TextEncoder:
    return malmoi.load()


def test_the_translation_is_nearest_and_the_term_itself_left_out(
    shipped: malmoi.TextEncoder,
) -> None:
    found = nearest_terms(shipped, ["당뇨병", "폐렴"], TERMS, k=2).found
    assert [(one.term, one.near) for one in found if one.score > 0.9] == [
        ("당뇨병", "diabetes mellitus"),
        ("폐렴", "pneumonia"),
    ]
    assert all(one.term != one.near for one in found)


def test_every_term_of_the_picture_has_a_vector(shipped: malmoi.TextEncoder) -> None:
    found = nearest_terms(shipped, ["당뇨병", "폐렴"], TERMS, k=3)
    assert found.terms[: found.asked] == ["당뇨병", "폐렴"]
    assert found.vectors.shape == (len(found.terms), shipped.dimension)
    assert len(set(found.terms)) == len(found.terms)


def test_bad_input(shipped: malmoi.TextEncoder) -> None:
    with pytest.raises(DataError, match="empty"):
        nearest_terms(shipped, ["당뇨병"], ["", " "])
    with pytest.raises(OptionError, match="k is 0"):
        nearest_terms(shipped, ["당뇨병"], TERMS, k=0)


def test_the_command_draws_a_map(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (tmp_path / "terms.txt").write_text("\n".join(TERMS), "utf-8")
    done = run(
        "lexicon", "nearest", "당뇨병", "--among", "terms.txt", "--k", 4, "--plot", "map.png"
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["near"] == "diabetes mellitus" and len(rows) == 4
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
