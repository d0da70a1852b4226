"""Hard negatives: block-wise search against brute force, margins, ranks, and what is never one."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.errors import BundleError, DataError, OptionError
from malmoi.index.knn import RowPairs, nearest
from malmoi.mining import negatives
from malmoi.mining.negatives import NegativeChoice, Triplet, mine_negatives, write_triplets
from tests.support.logs import record_messages


@settings(max_examples=60, deadline=None)
@given(
    queries=st.integers(1, 9),
    documents=st.integers(1, 40),
    k=st.integers(1, 12),
    levels=st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_blocks_find_what_brute_force_finds(
    queries: int, documents: int, k: int, levels: int, seed: int
) -> None:
    """Few levels make many ties: the earlier row must win in every block."""
    random = np.random.default_rng(seed)
    left = random.integers(0, levels, size=(queries, 3)).astype(np.float32)
    right = random.integers(0, levels, size=(documents, 3)).astype(np.float32)
    barred = random.integers(0, 2, size=(queries, documents)).astype(bool)
    scores = np.where(barred, -np.inf, left @ right.T)
    blocks = list(
        nearest(
            left, right, k, without=RowPairs(*np.nonzero(barred)), query_block=4, document_block=7
        )
    )
    rows = np.concatenate([block.rows for block in blocks])
    found = np.concatenate([block.scores for block in blocks])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    assert (found == best).all()
    assert (rows == np.where(np.isneginf(best), -1, order)).all()


class Points:
    """Texts that are angles in degrees."""

    def encode(self, texts: list[str]) -> np.ndarray:
        angles = np.deg2rad([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


FREE = NegativeChoice(relative_margin=None)
PAIRS = [("0", "10"), ("50", "55"), ("90", "80"), ("0", "5")]


def mined(choice: NegativeChoice, **options: object) -> list[tuple[str, str, str, int]]:
    found = mine_negatives(Points(), PAIRS, choice=choice, **options)
    return [(t.anchor, t.positive, t.negative, t.rank) for t in found]


def test_the_nearest_that_is_no_positive_is_taken() -> None:
    assert mined(FREE) == [
        ("0", "10", "55", 1),  # 5 is nearer, and a positive of 0 too
        ("0", "5", "55", 1),
        ("50", "55", "80", 1),
        ("90", "80", "55", 1),
    ]


def test_ranks_choose_further_ones() -> None:
    found = mined(NegativeChoice(relative_margin=None, first=2, last=3, count=5))
    assert ("50", "55", "10", 2) in found
    assert ("50", "55", "5", 3) in found
    assert {rank for *_, rank in found} == {2, 3}


def test_margins_pass_over_what_may_be_a_positive() -> None:
    messages = record_messages()
    # cos 10° = 0.985: 65° from 55 and 0 must lie below 0.985 - 0.5.
    assert mined(NegativeChoice(margin=0.5, relative_margin=None))[0] == (*("0", "10", "80", 2),)
    strict = mined(NegativeChoice(relative_margin=0.9, last=2))
    assert strict == []
    assert messages[-1].startswith("4 of 4 pairs found no negative at ranks 1 to 2")
    assert NegativeChoice(relative_margin=0.1).most(-0.5) == pytest.approx(-0.55)
    assert NegativeChoice(relative_margin=0.1, margin=0.3).most(1.0) == pytest.approx(0.7)


def test_random_picks_are_repeatable_and_within_ranks() -> None:
    choice = NegativeChoice(relative_margin=None, pick="random", last=3, seed=4)
    more = [str(angle) for angle in range(100, 180, 3)]
    assert mined(choice, documents=more) == mined(choice, documents=more)
    other = NegativeChoice(relative_margin=None, pick="random", last=3, seed=5)
    assert mined(choice, documents=more) != mined(other, documents=more)


def test_other_spellings_of_anchor_and_positive_are_no_negatives() -> None:
    class Letters:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones((len(texts), 2))

    pairs = [("당뇨병", "Diabetes"), ("고혈압", "hypertension")]
    more = ["diabetes", " DIABETES ", "당뇨병", "당뇨병".encode().decode(), "gout"]
    found = mine_negatives(
        Letters(), pairs, documents=more, choice=NegativeChoice(relative_margin=None, count=9)
    )
    assert {t.negative for t in found if t.anchor == "당뇨병"} == {"hypertension", "gout"}


def test_anchors_in_several_blocks_are_all_mined(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mined(FREE)
    monkeypatch.setattr(negatives, "_ANCHORS_AT_ONCE", 2)
    monkeypatch.setattr(negatives, "_ENCODED_AT_ONCE", 3)
    assert mined(FREE) == whole


def test_bad_input_is_reported() -> None:
    with pytest.raises(DataError, match="0 anchors and 0 distinct texts"):
        list(mine_negatives(Points(), []))
    with pytest.raises(DataError, match="1 anchor and 1 distinct text"):
        list(mine_negatives(Points(), [("0", "1")]))
    with pytest.raises(OptionError, match="ranks are 5 to 2"):
        NegativeChoice(first=5, last=2)
    with pytest.raises(OptionError, match="margin is nan; expected a finite number"):
        NegativeChoice(margin=float("nan"))
    with pytest.raises(OptionError, match="relative_margin is inf"):
        NegativeChoice(relative_margin=float("inf"))
    with pytest.raises(OptionError, match="pick is 'best'"):
        NegativeChoice(pick="best")  # type: ignore[arg-type]

    class Broken:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.full((len(texts), 2), np.nan)

    with pytest.raises(BundleError, match="not finite"):
        list(mine_negatives(Broken(), PAIRS))


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    triplet = Triplet("배\t가", "boat\n", "ship", 0.9, 0.8, 1)
    assert write_triplets(tmp_path / "a.tsv", [triplet]) == 1
    lines = (tmp_path / "a.tsv").read_text("utf-8").splitlines()
    assert lines[1] == "배 가\tboat\tship\t0.9\t0.8\t1"
    assert write_triplets(tmp_path / "a.jsonl", [triplet]) == 1
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8"))["anchor"] == "배\t가"

    def broken() -> object:
        yield triplet
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_triplets(tmp_path / "b.tsv", broken())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.tsv"]
