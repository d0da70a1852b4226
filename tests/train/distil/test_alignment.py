"""New rows find their translations in a made-up language pair."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tokenizers import Tokenizer, models, pre_tokenizers

from malmoi.errors import DataError, OptionError
from malmoi.train.distil import alignment as a
from malmoi.train.distil.recipe import Align
from malmoi.train.schema import read_table

OLD, NEW, DIM = 20, 20, 16


def corpus(count: int = 400) -> list[tuple[str, str]]:
    """Word-for-word translations: e7 is k7, with a particle that means nothing after each."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(count):
        words = rng.choice(OLD - 1, 4, replace=False) + 1
        pairs.append((" ".join(f"e{w}" for w in words), " ".join(f"k{w} k0" for w in words[::-1])))
    return pairs


def tokenizer() -> Tokenizer:
    words = [f"e{i}" for i in range(OLD)] + [f"k{i}" for i in range(NEW)]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="e0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def table() -> np.ndarray:
    rows = np.random.default_rng(1).standard_normal((OLD + NEW, DIM)).astype(np.float32)
    return rows * np.float32(0.05) + np.float32(0.3)


def found(aligned: np.ndarray) -> float:
    """Say which share of the new rows lies nearest to its own translation."""
    centred = aligned - aligned[:OLD].mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    nearest = (centred[OLD + 1 :] @ centred[:OLD].T).argmax(1)
    return float((nearest == np.arange(1, NEW)).mean())


@pytest.fixture
def pairs(tmp_path: Path) -> a.ParallelBags:
    return a.write_bags(corpus(), tokenizer(), tmp_path / "bags")


NEW_ROWS = list(range(OLD, OLD + NEW))


def test_regression_finds_translations(pairs: a.ParallelBags) -> None:
    config = Align(epochs=30, batch=64, learning_rate=0.05)
    start = table()
    aligned = a.align_rows(start, NEW_ROWS, pairs, config)
    assert found(start) < 0.3 and found(aligned) == 1.0
    assert np.array_equal(aligned[:OLD], start[:OLD])
    centre = start[:OLD].mean(0)
    norms = np.linalg.norm(aligned - centre, axis=1)
    np.testing.assert_allclose(norms[OLD + 1 :], norms[:OLD].mean(), rtol=1e-4)


def test_ibm_model_1_finds_translations(pairs: a.ParallelBags) -> None:
    lexical = a.ibm1(pairs, len(table()), rounds=8)
    best = {}
    for target, source, weight in zip(lexical.target, lexical.source, lexical.weight, strict=True):
        best[target] = max(best.get(target, (0.0, 0)), (weight, source))
    found = [best[row][1] + OLD == row for row in NEW_ROWS if row in best]
    assert len(found) > 5 and np.mean(found) > 0.9


def test_rows_that_are_never_seen_stay(tmp_path: Path) -> None:
    pairs = a.write_bags([("e1 e2", "k1 k2"), ("e2", "k2")], tokenizer(), tmp_path)
    start = table()
    aligned = a.align_rows(start, NEW_ROWS, pairs, Align(epochs=4, batch=2))
    assert np.array_equal(aligned[OLD + 5], start[OLD + 5])
    assert not np.array_equal(aligned[OLD + 1], start[OLD + 1])


def test_bags_come_back_as_written(pairs: a.ParallelBags) -> None:
    flat, starts = pairs.source.take(np.array([3, 0]))
    ids = tokenizer().encode_batch([corpus()[3][0], corpus()[0][0]])
    assert flat.tolist() == ids[0].ids + ids[1].ids and starts.tolist() == [0, 4]
    assert pairs.target.sizes().tolist() == [8] * 400
    assert pairs.target.sizes_at(np.array([0, 5])).tolist() == [8, 8]


def test_idf_counts_a_sentence_once(pairs: a.ParallelBags) -> None:
    weights = a.idf(pairs.target, OLD + NEW)
    assert weights[OLD] == 0 and weights[OLD + 1] > 1  # k0 stands in every sentence, four times


def test_long_sentences_are_cut(tmp_path: Path) -> None:
    pairs = a.write_bags([("e1 e2 e3 e4", "k1 k2 k3")], tokenizer(), tmp_path, longest=2)
    assert pairs.source.sizes().tolist() == [2] and pairs.target.sizes().tolist() == [2]


def test_nothing_to_align_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no sentence pairs"):
        a.write_bags([], tokenizer(), tmp_path)
    with pytest.raises(OptionError, match="epochs is 0; expected more than 0"):
        read_table(Align, {"epochs": 0}, where="it")
