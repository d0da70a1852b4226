"""Pairs mined: none missed, best first, repeats reported, and a list without near-duplicates."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.index import join as close
from malmoi.mining import pairs
from malmoi.mining.pairs import deduplicate, keep_first, margins, mine_pairs, mine_translations
from malmoi.mining.texts import gather
from malmoi.runtime.pooling import normalize
from malmoi.types import Floats
from tests.support.graphs import Run
from tests.support.logs import record_messages

TEXTS = [
    "환불은 어떻게 받나요?",
    "오늘 날씨가 좋네요",
    "환불 받으려면 어떻게 해야 하나요?",
    "",
    "고양이가 소파에서 잔다",
    "환불은 어떻게 받나요?",
]


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load("ko-en-small")


def spread(rows: int, dim: int) -> Floats:
    """Vectors as real ones are: near a common direction, some near each other."""
    random = np.random.default_rng(3)
    base = random.standard_normal((rows, dim)) * (1 / np.arange(1, dim + 1)) + 0.2
    base[rows // 2 :] = base[: rows - rows // 2] + 0.1 * random.standard_normal(
        (rows - rows // 2, dim)
    )
    return normalize(base.astype(np.float32))


def clustered(rows: int, dim: int) -> Floats:
    """Crowds around a few directions, with copies, copies of copies, and rows without length."""
    random = np.random.default_rng(5)
    spots = random.standard_normal((rows // 20, dim)) + 0.5
    base = spots[random.integers(len(spots), size=rows)]
    base += random.choice([0.1, 0.3, 1.0], (rows, 1)) * random.standard_normal((rows, dim))
    base[random.integers(rows, size=rows // 4)] = base[random.integers(rows, size=rows // 4)]
    base[[3, 7, rows - 1]] = 0
    return normalize(base.astype(np.float32))


def pairs_of(vectors: Floats, least: float) -> dict[tuple[int, int], float]:
    """What all_close gives, each pair once, and in an order that lets rows be dropped."""
    found: dict[tuple[int, int], float] = {}
    begun: set[int] = set()
    for block in close.pairs_above(vectors, least=least):
        columns = block.left.tolist(), block.right.tolist(), block.scores.tolist()
        for a, b, score in zip(*columns, strict=True):
            begun.add(a)
            assert a < b and b not in begun and (a, b) not in found
            found[a, b] = score
    return found


def by_all_products(vectors: Floats, least: float) -> dict[tuple[int, int], float]:
    """The same by one product of everything, in double precision."""
    scores = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    left, right = np.nonzero(np.triu(scores, 1) >= least)
    return {(a, b): scores[a, b] for a, b in zip(left.tolist(), right.tolist(), strict=True)}


@pytest.mark.parametrize("few", [10, 10_000])
@pytest.mark.parametrize("make", [spread, clustered])
def test_short_products_miss_no_pair(
    monkeypatch: pytest.MonkeyPatch, few: int, make: Callable[[int, int], Floats]
) -> None:
    for name, value in {"_FEW": few, "_ROWS": 64, "_COLUMNS": 160, "_SPAN": 320}.items():
        monkeypatch.setattr(close, name, value)
    vectors = make(500, 48)
    for least in (0.6, 0.8, 0.9, 1.0):
        expected, found = by_all_products(vectors, least), pairs_of(vectors, least)
        # Those on the very edge are let pass, by as much as float32 may have cost them.
        assert set(by_all_products(vectors, least + 1e-6)) <= set(found)
        assert set(expected) <= set(found) <= set(by_all_products(vectors, least - 4e-6))
        for pair in expected:
            assert found[pair] == pytest.approx(expected[pair], abs=2e-6)
        assert len(found) > 20 or (least == 1.0 and make is spread)


def test_the_edge_and_copies_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close, "_FEW", 2)
    edge = np.zeros((40, 24), dtype=np.float32)
    edge[:, 0] = 1
    edge[20:] = 0
    edge[20:, :2] = (0.5, 0.75**0.5)  # a cosine of one half with the first twenty
    assert len(pairs_of(edge, 0.5)) == 40 * 39 // 2
    assert len(pairs_of(edge, 0.5 + 1e-4)) == len(pairs_of(edge, 1.0)) == 2 * (20 * 19 // 2)
    copies = normalize(np.tile(spread(3, 24), (200, 1)))
    assert len(pairs_of(copies, 1.0)) == 3 * (200 * 199 // 2)
    assert not pairs_of(copies[:1], 0.5) and not pairs_of(copies[:0], 0.5)


def test_threads_end_with_who_asked() -> None:
    blocks = close.pairs_above(spread(3000, 16), least=0.0)
    assert len(next(blocks).left)
    blocks.close()  # type: ignore[attr-defined]
    assert not [one for one in threading.enumerate() if one.name.startswith("malmoi-join")]


def test_paraphrases_come_best_first(encoder: malmoi.TextEncoder) -> None:
    messages = record_messages()
    lines = gather(TEXTS, where="texts")
    assert messages == ["texts: 1 empty line was left out"]
    found = list(mine_pairs(encoder, lines, least=0.6))
    assert (found[0].a.number, found[0].b.number, found[0].score) == (1, 6, 1.0)
    assert (found[1].a.number, found[1].b.number) == (1, 3)
    assert len(list(mine_pairs(encoder, lines, least=-1, top=3))) == 3
    everything = list(mine_pairs(encoder, lines, least=-1, top=None))
    assert len(everything) == 1 + 6  # one repeat, and all pairs of four texts
    best = [pair.score for pair in mine_pairs(encoder, lines, least=-1)]
    assert best == sorted(best, reverse=True)


def test_a_pile_without_near_duplicates(encoder: malmoi.TextEncoder) -> None:
    kept = deduplicate(encoder, gather(TEXTS, where="texts"), least=0.7)
    assert [line.number for line in kept] == [1, 2, 5]
    assert keep_first(3, [(0, 1), (0, 2), (1, 2)]) == [True, False, False]


def test_what_is_dropped_on_the_way_is_what_would_be_dropped_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"_FEW": 10, "_ROWS": 64, "_COLUMNS": 160, "_SPAN": 320}.items():
        monkeypatch.setattr(close, name, value)
    vectors = clustered(600, 32)
    found = pairs_of(vectors, 0.8)
    kept = keep_first(len(vectors), found)
    assert kept == keep_first(len(vectors), sorted(found, key=lambda pair: pair[1]))
    assert 50 < sum(kept) < 550


def test_the_best_pairs_are_those_of_all() -> None:
    vectors = clustered(600, 16)
    found = pairs_of(vectors, 0.5)
    ordered = sorted((-score, *pair) for pair, score in found.items())
    for top in (1, 10, 300, 10**6):
        expected = [(-score, a, b) for score, a, b in ordered[:top]]
        assert pairs._best(vectors, 0.5, top) == expected


@pytest.mark.parametrize("texts", [["하나뿐인 글"], ["같은 글"] * 4])
def test_one_text_and_equal_texts(encoder: malmoi.TextEncoder, texts: list[str]) -> None:
    lines = gather(texts, where="texts")
    assert len(list(mine_pairs(encoder, lines))) == len(texts) - 1
    assert len(deduplicate(encoder, lines)) == 1
    assert len(mine_translations(encoder, lines, lines, least=0)) == 1


def test_translations_find_each_other(encoder: malmoi.TextEncoder) -> None:
    korean = ["고양이가 잔다", "환불은 어떻게 받나요?", "비가 많이 온다", "배가 항구에 들어왔다"]
    english = ["How do I get a refund?", "It is raining hard", "Stocks fell", "The cat is sleeping"]
    left, right = gather(korean, where="ko"), gather(english, where="en")
    found = mine_translations(encoder, left, right, neighbours=2, least=1.0)
    numbers = {(pair.a.number, pair.b.number) for pair in found}
    assert {(1, 4), (2, 1), (3, 2)} <= numbers
    assert [pair.score for pair in found] == sorted((pair.score for pair in found), reverse=True)
    assert len({pair.b.number for pair in found}) == len(found)


def test_the_margin_is_the_ratio_to_the_neighbours() -> None:
    a, b = spread(20, 8)[:6], spread(20, 8)[6:15]
    found = margins(a, b, neighbours=3)
    cosines = a @ b.T
    around_a = -np.sort(-cosines, axis=1)[:, :3].mean(axis=1)
    around_b = -np.sort(-cosines.T, axis=1)[:, :3].mean(axis=1)
    expected = cosines / ((around_a[:, None] + around_b) / 2)
    np.testing.assert_allclose(found.scores, expected[found.left, found.right], rtol=1e-4)


def test_bad_input_is_reported(encoder: malmoi.TextEncoder) -> None:
    with pytest.raises(DataError, match="no text"):
        gather(["", "  "], where="texts")
    lines = gather(["배"], where="texts")
    with pytest.raises(OptionError, match="cosine"):
        list(mine_pairs(encoder, lines, least=2))
    with pytest.raises(OptionError, match="top is 0"):
        list(mine_pairs(encoder, lines, top=0))
    with pytest.raises(OptionError, match="neighbours is 0"):
        mine_translations(encoder, lines, lines, neighbours=0)


def test_the_command(run: Run, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS), "utf-8")
    (tmp_path / "b.txt").write_text("A cat sleeps on the sofa\nNice weather today\n", "utf-8")
    done = run("data", "pairs", "a.txt", "--least", "0.6", "-m", "ko-en-static")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and rows[0]["score"] == 1.0 and rows[0]["line_b"] == 6
    done = run_here("data", "pairs", "a.txt", "b.txt", "--table")
    assert done.returncode == 0 and "고양이가 소파에서 잔다" in done.stdout
    done = run_here("data", "pairs", "a.txt", "--dedup", "c.txt")
    assert done.returncode == 0 and "of 5 lines" in done.stderr
    assert (tmp_path / "c.txt").read_text("utf-8").count("\n") in (3, 4)
    for args, code in ((["no.txt"], 1), (["a.txt", "b.txt", "--dedup", "d"], 2)):
        done = run_here("data", "pairs", *args)
        assert done.returncode == code and "Traceback" not in done.stderr
