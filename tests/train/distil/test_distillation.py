"""A tiny student learns a tiny teacher, in two languages made up here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from malmoi.errors import DataError, OptionError  # noqa: E402
from malmoi.train.batching import Step, pad, token_batches  # noqa: E402
from malmoi.train.distil import distillation as d  # noqa: E402
from malmoi.train.distil.alignment import Lexical  # noqa: E402
from malmoi.train.distil.lessons import base as j  # noqa: E402
from malmoi.train.distil.lessons import words as w  # noqa: E402
from malmoi.train.distil.recipe import Distil, StageSchedule, Tune  # noqa: E402
from malmoi.train.distil.training import mix_weights  # noqa: E402
from malmoi.train.losses import VECTORS, Given  # noqa: E402
from malmoi.train.schema import read_table  # noqa: E402
from tests.support.students import (  # noqa: E402
    RATES,
    WORDS,
    falls,
    learn,
    sentences,
    task,
    teach,
    tiny_student,
    tiny_texts,
    tune,
)

SLOWER = {"learning_rate": 1e-3, "old_rows": 1e-3, "new_rows": 3e-3}


def test_a_student_comes_near_the_teacher_in_both_languages(tmp_path: Path) -> None:
    english, korean = sentences()
    student = tiny_student()
    stage = Distil(tokens=64, steps=150, source_share=0.5, contrast=0.1, average=0, **RATES)
    data = tiny_texts(student, tmp_path)
    task = d.DistilTask(student, data, stage, seed=1, share=slice(None))
    first = float(task.loss(task.plan(0)[0]).detach())
    student.model.zero_grad()
    assert learn(task, tmp_path / "run").step == 150
    assert float(task.loss(task.plan(0)[0]).detach()) < 0.3 * first
    with torch.no_grad():
        a, b = (student.vectors(student.ids(side)) for side in (english, korean))
    goal = torch.from_numpy(teach(english))
    assert (a * goal).sum(1).mean() > 0.9 and (b * goal).sum(1).mean() > 0.9
    assert ((b @ a.T).argmax(1) == torch.arange(len(a))).all()


def test_goals_that_are_wider_go_through_a_layer_that_is_thrown_away(tmp_path: Path) -> None:
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    wide = np.concatenate([data.goals, data.goals[:, ::-1]], axis=1)
    stage = Distil(tokens=64, steps=60, contrast=0.0, average=0, **RATES)
    projected = d.DistillationTexts(data.source, data.target, data.goal, data.weight, wide)
    task = d.DistilTask(student, projected, stage, seed=1, share=slice(None))
    assert task.head is not None and task.head.weight.shape == (64, 32)
    names, before = set(student.weights()), task.head.weight.detach().clone()
    first = float(task.loss(task.plan(0)[0]).detach())
    student.model.zero_grad()
    learn(task, tmp_path / "run")
    assert float(task.loss(task.plan(0)[0]).detach()) < 0.5 * first
    assert not torch.equal(task.head.weight, before)  # it learns with the rest,
    assert set(student.weights()) == names and not any("projection" in n for n in names)


def test_processes_share_a_batch(tmp_path: Path) -> None:
    student = tiny_student()
    data = tiny_texts(student, tmp_path)
    stage = Distil(tokens=64, steps=1, contrast=0.0)
    whole = Step(0, np.arange(4))

    def loss(share: slice, step: Step = whole) -> float:
        return float(d.DistilTask(student, data, stage, seed=1, share=share).loss(step).detach())

    halves = [loss(slice(rank, None, 2)) for rank in (0, 1)]
    assert loss(slice(None)) == pytest.approx(sum(halves) / 2, abs=1e-6)
    assert loss(slice(1, None, 2), Step(0, np.arange(1))) == 0  # more processes than rows


def test_only_touched_rows_move() -> None:
    student = tiny_student()
    optimizer = student.optimizer(StageSchedule(steps=1, **RATES))
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    before = student.table.clone()
    student.vectors(student.ids(["cat 잔다"])).sum().backward()
    optimizer.step()
    moved = (student.table != before).any(1).nonzero().flatten().tolist()
    assert moved == sorted(student.ids(["cat 잔다"])[0])
    old, new = student.ids(["cat 잔다"])[0][1:3]
    gap = (student.table - before).norm(dim=1)
    assert gap[new] > 2 * gap[old]  # new rows have the higher rate


def test_frozen_layers_stand_still() -> None:
    student = tiny_student(frozen_layers=1)
    moving = [name for name, p in student.model.named_parameters() if p.requires_grad]
    assert "embeddings.word_embeddings.weight" in moving
    assert not any(".layer.0." in name or "position_embeddings" in name for name in moving)
    assert any(".layer.1." in name for name in moving)


def test_equal_goals_do_not_compete() -> None:
    unit = torch.eye(4)
    apart = d.contrast(unit, unit, np.arange(4), 0.05)
    alike = d.contrast(unit[[0, 0]], unit[[0, 0]], np.array([7, 7]), 0.05)
    assert float(apart) < 1e-3 and float(alike) < 1e-3


def test_batches_hold_every_row_once_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 500)
    batches = list(token_batches(lengths, 256, np.random.default_rng(1), window=3))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert all(len(b) * lengths[b].max() <= 256 for b in batches)


def test_pad_marks_what_is_text() -> None:
    ids, mask = pad([[5, 6, 7], [8]])
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]] and mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_config_refuses_nonsense() -> None:
    with pytest.raises(OptionError, match="share"):
        read_table(Distil, {"steps": 1, "source_share": 2.0}, where="it")


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


def test_joint_tasks_all_go_down(tmp_path: Path) -> None:
    english, korean = sentences()
    student = tiny_student()
    sense = [[w.SenseOccurrence(korean[i], (0, 2), s) for i, s in ((0, "a"), (2, "a"), (4, "b"))]]
    shared = [len(set(english[0].split()) & set(e.split())) for e in english]
    both = list(zip(english, korean, strict=True))
    scored = [
        (float(n), (english[0], korean[0]), (e, k)) for n, (e, k) in zip(shared, both, strict=True)
    ]
    tasks: list[j.Lesson] = [
        j.ScoredPairs(task("scores"), scored),
        j.PositivePairs(task("pairs", run=2, size=8), both, hard=[["개 개"]] * 8),
        w.WordSenses(task("senses", layers=(1, 2)), sense),
        j.Passages(task("passages", join=(2, 2), inside=0.0, size=6), both),
    ]
    stage = Tune(steps=100, together=2, average=0, **SLOWER)
    for lesson in tune(student, tasks, stage, tmp_path / "run"):
        assert falls(lesson), lesson.name


def test_a_sentence_finds_the_passage_that_it_was_taken_from() -> None:
    texts = [["a b", "c d", "e f", "g h"], ["i j"]]
    seen: list[list[str]] = []

    class Reader:
        longest = 64

        def embed(self, given: list[str]) -> Any:
            seen.append(given)
            return torch.eye(64)[: len(given)]

    def drawn(inside: float) -> list[tuple[str, str]]:
        lesson = j.Passages(task("passages", join=(2, 3), inside=inside, size=32), texts)
        reader: Any = Reader()
        lesson.loss(reader, j.Matryoshka((64,), (1.0,)), np.random.default_rng(0))
        return list(zip(seen[-1][:32], seen[-1][32:], strict=True))

    for sentence, passage in drawn(1.0):
        own = next(lines for lines in texts if sentence in lines)
        assert sentence in passage and passage in " ".join(own)  # neighbours of one list only
        assert len(passage.split()) in ((4, 6) if len(own) > 1 else (2,))
    apart = [(one, two) for one, two in drawn(0.0) if one != "i j"]
    assert apart and not any(one in two for one, two in apart)


def test_tasks_take_turns_and_count_what_they_are_told_to() -> None:
    tasks = [j.PositivePairs(task("pairs", name=name), [("a", "b")] * 2) for name in "abcd"]
    config = Tune(steps=1, together=1, turns=(("a", "b"), ("c", "", "")), factors={"a": 0.3},
                           others=0.5)  # fmt: skip
    drawn = [
        {task.name: factor for task, factor in j.draw_tasks(tasks, config, rng, step)}
        for step in range(1, 5)
        if (rng := np.random.default_rng(step))
    ]
    assert drawn == [{"a": 0.3, "c": 1.0, "d": 0.5}, {"b": 1.0, "d": 0.5}, {"a": 0.3, "d": 0.5},
                     {"b": 1.0, "c": 1.0, "d": 0.5}]  # fmt: skip


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
    lexical = Lexical(targets, targets - size, np.full(size, 0.9, dtype=np.float32))
    words = w.as_dictionary(lexical, targets.tolist())
    assert w.link([2, targets[0], 3], [2, 4, 3], words) == [(1, 1)]
    rows = np.arange(len(english))
    found = j.nearest_rows(data.goal_at(rows).numpy(), 3)
    beside = j.Neighbours(task("neighbours", size=4), data, rows, found)
    stage = Tune(steps=80, together=2, average=0, **SLOWER)
    assert all(map(falls, tune(student, [beside], stage, tmp_path / "run")))


def test_gold_scores_are_blended_with_the_teachers() -> None:
    blended = j.blend_scores([(5.0, ("a",), ("b",))], np.array([0.2]), share=0.5, highest=5.0)
    assert blended[0][0] == pytest.approx(0.6)


def test_mixed_weights_lie_between() -> None:
    read = {"a": {"a": torch.ones(3)}, "b": {"a": torch.full((3,), 5.0)}}.__getitem__
    assert mix_weights({"a": 3, "b": 1}, read)["a"].tolist() == [2.0] * 3
    # Beyond the second, away from the first.
    assert mix_weights({"a": -0.5, "b": 1.5}, read)["a"].tolist() == [7.0] * 3
