"""Words swapped in both languages at once, mixed and shortened sentences."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

torch = pytest.importorskip("torch")

from malmoi.errors import DataError  # noqa: E402
from research.ko_en_small import lessons as j  # noqa: E402
from research.ko_en_small import words as w  # noqa: E402
from tests.support.students import (  # noqa: E402
    WORDS,
    falls,
    sentences,
    task,
    tiny_student,
    tiny_texts,
)

NAMES = ["[CLS]", "##고", "고양이", "개를", "배", "cat", "dog", "##s", "of", "ship"]
MEANS = {1: {5: 0.9}, 2: {5: 0.9, 6: 0.1}, 3: {6: 0.8}, 4: {9: 0.9}}
TABLE = np.eye(10, 6, dtype=np.float32)


def test_only_whole_words_that_are_sure_of_their_translation_are_swapped() -> None:
    pairs = w.word_pairs(MEANS, NAMES, TABLE, near=1)
    assert pairs.pieces.tolist() == [[2, 5], [3, 6]]  # no inner piece, no word of one syllable
    assert pairs.near.tolist() == [[1], [0]]
    with pytest.raises(DataError, match="1 word has a sure translation"):
        w.word_pairs(MEANS | {3: {8: 0.9}}, NAMES, TABLE, near=1)  # "of" is no word to swap
    with pytest.raises(DataError, match="2 words have a sure translation"):
        w.word_pairs(MEANS, NAMES, TABLE, near=2)


def test_neighbours_never_have_the_same_source_word() -> None:
    means = {2: {5: 0.9}, 3: {5: 0.9}, 4: {6: 0.9}}
    names = [*NAMES[:4], "강아지", *NAMES[5:]]
    pairs = w.word_pairs(means, names, np.ones((10, 4), dtype=np.float32), near=1)
    assert pairs.near[:2, 0].tolist() == [2, 2]


def test_a_swap_changes_both_sides_alike() -> None:
    pairs, rng = w.word_pairs(MEANS, NAMES, TABLE, near=1), np.random.default_rng(0)
    assert w.swap([0, 2, 8, 0], [0, 7, 5, 0], MEANS, pairs, rng) == ([0, 3, 8, 0], [0, 7, 6, 0])
    assert w.swap([0, 4, 0], [0, 9, 0], MEANS, pairs, rng) is None


def test_an_altered_sentence_keeps_its_ends() -> None:
    rng = np.random.default_rng(0)
    mixed = w.Alter(MEANS, mixed=1.0, each=1.0)
    assert mixed([0, 2, 4, 0], [0, 9, 5, 0], rng) == [0, 5, 9, 0]
    assert w.Alter(MEANS)([0, 2, 4, 0], [0, 9, 5, 0], rng) == [0, 2, 4, 0]
    short = w.Alter(MEANS, dropped=1.0)
    assert short([1, *range(2, 9), 0], [0], rng) == [1, 0]
    assert short([1, 2, 0], [0], rng) == [1, 2, 0]  # a few pieces are all needed


def test_dropout_lasts_as_long_as_it_is_asked_for() -> None:
    student = tiny_student()
    ids = [[2, 4, 5, 3]]
    calm = student.vectors(ids)
    with j.dropout(student, 0.5, seed=1):
        one = student.vectors(ids)
    with j.dropout(student, 0.5, seed=1):
        two = student.vectors(ids)
    assert torch.equal(one, two) and not torch.allclose(one, calm)
    assert torch.equal(calm, student.vectors(ids))


def test_the_lesson_is_learnt(tmp_path: Path) -> None:
    english, _ = sentences()
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    size = len(WORDS)  # piece 4 + size + i is the translation of piece 4 + i
    words = {4 + size + i: {4 + i: 0.9} for i in range(size)}
    names = [student.tokenizer.id_to_token(i) or "" for i in range(len(student.table))]
    pairs = w.word_pairs(words, names, student.table.numpy(), near=2)
    rows = np.arange(len(english))
    swaps, model = task("swaps", size=6), w.frozen_copy(student)
    lesson = w.Swaps(swaps, data, rows, words, pairs, model, w.Alter(words))
    made = lesson._batch(np.random.default_rng(0))
    assert len(made) > 6 and len({tuple(source) for _, source in made}) == len(made)
    known = {tuple(ids) for ids in data.source.lists(rows)}
    assert any(tuple(source) not in known for _, source in made)
    assert falls(student, lesson)


def test_texts_that_are_too_long_give_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(w, "_LONGEST", 1)
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    pairs = w.WordPairs(np.zeros((1, 2), np.int64), np.zeros((1, 1), np.int64), {})
    model = w.frozen_copy(student)
    lesson = w.Swaps(task("swaps"), data, np.arange(4), {}, pairs, model, w.Alter({}))
    loss = lesson.loss(student, j.Matryoshka((32,), (1.0,)), np.random.default_rng(0))
    assert loss.item() == 0


OLD, NEW = 20, 20


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


def test_ibm_model_1_finds_translations(tmp_path: Path) -> None:
    lexical = w.ibm1(w.write_bags(corpus(), tokenizer(), tmp_path), OLD + NEW, rounds=8)
    best: dict[int, tuple[float, int]] = {}
    for target, source, weight in zip(lexical.target, lexical.source, lexical.weight, strict=True):
        best[target] = max(best.get(target, (0.0, 0)), (weight, source))
    found = [best[row][1] + OLD == row for row in range(OLD, OLD + NEW) if row in best]
    assert len(found) > 5 and np.mean(found) > 0.9


def test_bags_are_cut_and_empty_ones_are_named(tmp_path: Path) -> None:
    pairs = w.write_bags([("e1 e2 e3 e4", "k1 k2 k3")], tokenizer(), tmp_path, longest=2)
    assert pairs.source.sizes().tolist() == [2] and pairs.target.sizes().tolist() == [2]
    with pytest.raises(DataError, match="no sentence pairs"):
        w.write_bags([], tokenizer(), tmp_path)
    long = w.write_bags([("e1 e2", "k1 k2")], tokenizer(), tmp_path / "long")
    with pytest.raises(DataError, match="within 1 pieces"):
        w.ibm1(long, OLD + NEW, longest=1)
