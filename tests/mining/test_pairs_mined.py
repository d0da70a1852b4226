"""Pairs mined: none missed, best first, repeats told, and a pile without near-duplicates."""

import json
from pathlib import Path

import numpy as np
import pytest

import malmoi
from graphs import Run
from malmoi import DataError, OptionError
from malmoi.index import close_pairs
from malmoi.mining import close
from malmoi.mining.pairs import deduplicate, keep_first, mine_pairs
from malmoi.mining.texts import gather
from malmoi.mining.translations import margins, mine_translations
from malmoi.pooling import Floats, normalize

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


def test_short_products_miss_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close, "_FEW", 10)
    vectors = spread(1500, 48)
    for least in (0.7, 0.8, 0.9):
        expected = {
            (a, b)
            for block in close_pairs(vectors, least=least)
            for a, b in zip(block.left.tolist(), block.right.tolist(), strict=True)
        }
        found = [
            (a, b)
            for block in close.all_close(vectors, least=least)
            for a, b in zip(block.left.tolist(), block.right.tolist(), strict=True)
        ]
        # A pair on the very edge may fall either way by rounding.
        differing = expected ^ set(found)
        edge = [
            pair for pair in differing if abs(vectors[pair[0]] @ vectors[pair[1]] - least) > 1e-5
        ]
        assert not edge and len(found) == len(set(found)) and len(found) > 20


def test_paraphrases_come_best_first(encoder: malmoi.TextEncoder) -> None:
    told: list[str] = []
    lines = gather(TEXTS, where="texts", tell=told.append)
    assert told == ["texts: 1 empty lines were left out"]
    pairs = list(mine_pairs(encoder, lines, least=0.6))
    assert (pairs[0].a.number, pairs[0].b.number, pairs[0].score) == (1, 6, 1.0)
    assert (pairs[1].a.number, pairs[1].b.number) == (1, 3)
    assert len(list(mine_pairs(encoder, lines, least=-1, top=3))) == 3
    everything = list(mine_pairs(encoder, lines, least=-1, top=None))
    assert len(everything) == 1 + 6  # one repeat, and all pairs of four texts
    best = [pair.score for pair in mine_pairs(encoder, lines, least=-1)]
    assert best == sorted(best, reverse=True)


def test_a_pile_without_near_duplicates(encoder: malmoi.TextEncoder) -> None:
    kept = deduplicate(encoder, gather(TEXTS, where="texts"), least=0.7)
    assert [line.number for line in kept] == [1, 2, 5]
    assert keep_first(3, [(0, 1), (0, 2), (1, 2)]) == [True, False, False]


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


def test_bad_input_is_told(encoder: malmoi.TextEncoder) -> None:
    with pytest.raises(DataError, match="no text"):
        gather(["", "  "], where="texts")
    lines = gather(["배"], where="texts")
    with pytest.raises(OptionError, match="cosine"):
        list(mine_pairs(encoder, lines, least=2))
    with pytest.raises(OptionError, match="top is 0"):
        list(mine_pairs(encoder, lines, top=0))
    with pytest.raises(OptionError, match="neighbours is 0"):
        mine_translations(encoder, lines, lines, neighbours=0)


def test_the_command(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS), "utf-8")
    (tmp_path / "b.txt").write_text("A cat sleeps on the sofa\nNice weather today\n", "utf-8")
    done = run("mine", "a.txt", "--least", "0.6", "-m", "ko-en-static")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and rows[0]["score"] == 1.0 and rows[0]["line_b"] == 6
    done = run("mine", "a.txt", "b.txt", "--table")
    assert done.returncode == 0 and "고양이가 소파에서 잔다" in done.stdout
    done = run("mine", "a.txt", "--dedup", "c.txt")
    assert done.returncode == 0 and "of 5 lines" in done.stderr
    assert (tmp_path / "c.txt").read_text("utf-8").count("\n") in (3, 4)
    for args, code in ((["no.txt"], 1), (["a.txt", "b.txt", "--dedup", "d"], 2)):
        done = run("mine", *args)
        assert done.returncode == code and "Traceback" not in done.stderr
