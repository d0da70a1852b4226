"""What the student of the joint run learns beside its goals, each lesson alone."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from malmoi.errors import DataError  # noqa: E402
from malmoi.training.losses import VECTORS, Given  # noqa: E402
from research.ko_en_small import build  # noqa: E402
from research.ko_en_small import lessons as j  # noqa: E402
from research.ko_en_small import words as w  # noqa: E402
from research.ko_en_small.recipe import TaskRecipe  # noqa: E402
from tests.support.students import (  # noqa: E402
    WORDS,
    falls,
    sentences,
    task,
    tiny_student,
    tiny_texts,
)


def test_losses_agree_with_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer import losses

    torch.manual_seed(0)
    a, b = (torch.nn.functional.normalize(torch.randn(6, 8), dim=1) for _ in range(2))
    labels = torch.rand(6)
    close = {"rtol": 1e-6, "atol": 1e-6}
    model = Given()
    columns = [{VECTORS: one} for one in (a, b)]
    ranking = losses.CoSENTLoss(model, scale=20.0)(columns, labels)
    torch.testing.assert_close(j.cosent((a * b).sum(1), labels), ranking, **close)
    finding = losses.MultipleNegativesRankingLoss(model, scale=20.0)(columns, labels)
    torch.testing.assert_close(j.in_batch(a, b), finding, **close)


@pytest.mark.parametrize("kind", ["scores", "pairs", "senses"])
def test_a_lesson_is_learnt(kind: str) -> None:
    english, korean = sentences()
    sense = [[w.SenseOccurrence(korean[i], (0, 2), s) for i, s in ((0, "a"), (2, "a"), (4, "b"))]]
    shared = [len(set(english[0].split()) & set(e.split())) for e in english]
    both = list(zip(english, korean, strict=True))
    scored = [
        (float(n), (english[0], korean[0]), (e, k)) for n, (e, k) in zip(shared, both, strict=True)
    ]
    lessons = {
        "scores": j.ScoredPairs(task("scores"), scored),
        "pairs": j.PositivePairs(task("pairs", run=2, size=8), both, hard=[["개 개"]] * 8),
        "senses": w.WordSenses(task("senses", layers=(1, 2)), sense),
    }
    assert falls(tiny_student(), lessons[kind])


def test_neighbours_are_the_nearest_others() -> None:
    goals = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]], dtype=np.float32)
    assert j.nearest_rows(goals, 1)[:, 0].tolist() == [1, 0, 3, 2]
    with pytest.raises(DataError, match="too few"):
        j.nearest_rows(goals, 4)


def test_words_find_their_translation_in_its_sentence(tmp_path: Path) -> None:
    english, _ = sentences()
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    size = len(WORDS)  # piece 4 + size + i is the translation of piece 4 + i
    targets = np.arange(size, dtype=np.int64) + 4 + size
    lexical = w.Lexical(targets, targets - size, np.full(size, 0.9, dtype=np.float32))
    words = w.as_dictionary(lexical, targets.tolist())
    assert w.link([2, targets[0], 3], [2, 4, 3], words) == [(1, 1)]
    rows = np.arange(len(english))
    found = j.nearest_rows(data.goal_at(rows).numpy(), 3)
    beside = j.Neighbours(task("neighbours", size=4), data, rows, found)
    assert falls(student, beside)


def test_gold_scores_are_blended_with_the_teachers() -> None:
    blended = j.blend_scores([(5.0, ("a",), ("b",))], np.array([0.2]), share=0.5, highest=5.0)
    assert blended[0][0] == pytest.approx(0.6)


def test_tasks_read_their_rows() -> None:
    columns = {"a": "a", "b": "b", "label": "l"}
    nli = TaskRecipe(kind="pairs", files=("x",), columns=columns, positive="e", negative="c")
    made = build.pairs(nli, [("p", "x", "e"), ("p", "y", "c"), ("p", "z", "e"), ("q", "w", "e"),
                             ("r", "v", "c")])  # fmt: skip
    assert made.groups == [("p", "x"), ("q", "w")] and made.hard == [["y"], []]
    terms = TaskRecipe(kind="groups", files=("x",), columns={"group": "code", "text": "name"})
    rows = [("1", "a"), ("1", "b"), ("2", "d"), ("3", "e"), ("3", "f")]
    assert build.groups(terms, rows).groups == [("a", "b"), ("e", "f")]
    with pytest.raises(DataError, match="expected two or more"):
        build.groups(terms, [("1", "a")])
