"""A tiny student learns a tiny teacher, in two languages made up here."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from malmoi.errors import DataError, OptionError  # noqa: E402
from malmoi.train.batching import pad, token_batches  # noqa: E402
from malmoi.train.distil import distillation as d  # noqa: E402
from malmoi.train.distil.alignment import Lexical  # noqa: E402
from malmoi.train.distil.lessons import base as j  # noqa: E402
from malmoi.train.distil.lessons import relations as n  # noqa: E402
from malmoi.train.distil.lessons import relations as near  # noqa: E402
from malmoi.train.distil.lessons import words as w  # noqa: E402
from malmoi.train.distil.recipe import Distil, StageSchedule, Tune  # noqa: E402
from malmoi.train.distil.student import Student  # noqa: E402
from malmoi.train.distil.training import mix_weights  # noqa: E402
from malmoi.train.schema import read_table  # noqa: E402
from tests.support.students import WORDS, sentences, teach, tiny_student  # noqa: E402


def test_cache_computes_each_text_once_and_survives_a_cut(tmp_path: Path) -> None:
    asked: list[str] = []

    def encode(texts: object) -> np.ndarray:
        asked.extend(texts)  # type: ignore[arg-type]
        return teach(texts)

    english, _ = sentences()
    cache = d.TeacherCache(tmp_path, "key", 32)
    rows = cache.rows([*english, english[0]], encode, chunk=3)
    assert rows[0] == rows[-1] and len(asked) == len(english)
    with (cache.folder / "vectors.f16").open("r+b") as file:
        file.truncate(2 * 32 * 7 + 5)  # the eighth row is half written
    again = d.TeacherCache(tmp_path, "key", 32)
    assert len(again) == 7
    rows = again.rows(english, encode)
    assert asked[len(english) :] == english[7:]
    np.testing.assert_allclose(again.open()[rows], teach(english), atol=1e-3)


def test_cache_refuses_another_dimension(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected"):
        d.TeacherCache(tmp_path, "key", 8).rows(["cat runs old"], teach)


@pytest.mark.parametrize("precision", ["float32"])
def test_student_comes_near_the_teacher_in_both_languages(tmp_path: Path, precision: str) -> None:
    english, korean = sentences()
    student = tiny_student(precision=precision, average=0.9)
    cache = d.TeacherCache(tmp_path / "cache", "key", 32)
    data = d.prepare([d.ParallelText("tiny", english, korean)], student, cache, teach, tmp_path)
    seen: list[d.StepReport] = []
    config = Distil(tokens=64, steps=150, source_share=0.5, contrast=0.1)
    d.distil(student, data, cache.open(), config, report=seen.append, every=30)
    assert len(seen) == 5 and seen[-1].loss < 0.3 * seen[0].loss
    with torch.no_grad():
        a, b = (student.vectors(student.ids(side)) for side in (english, korean))
    goal = torch.from_numpy(teach(english))
    assert (a * goal).sum(1).mean() > 0.9 and (b * goal).sum(1).mean() > 0.9
    assert ((b @ a.T).argmax(1) == torch.arange(len(a))).all()


def test_checkpoint_goes_on_exactly(tmp_path: Path) -> None:
    english, korean = sentences()
    one, two = tiny_student(average=0.9), tiny_student(average=0.9)

    def move(student: Student) -> None:
        ids = student.ids(korean)
        student.step(d.distance(student.vectors(ids), torch.from_numpy(teach(english))), 0.5)

    for _ in range(3):
        move(one)
    one.save_checkpoint(tmp_path / "c.safetensors")
    two.load_checkpoint(tmp_path / "c.safetensors")
    move(one)
    move(two)
    assert one.weights().keys() == two.weights().keys() and one.weights()
    for name, value in one.weights().items():
        torch.testing.assert_close(value, two.weights()[name])


def test_a_checkpoint_that_cannot_be_written_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    student = tiny_student()
    student.save_checkpoint(tmp_path / "c.safetensors")
    before = (tmp_path / "c.safetensors").read_bytes()
    monkeypatch.setattr("malmoi.train.distil.student.save_file", full)
    with pytest.raises(OSError, match="No space"):
        student.save_checkpoint(tmp_path / "c.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors"]
    assert (tmp_path / "c.safetensors").read_bytes() == before


def test_only_touched_rows_move() -> None:
    student = tiny_student()
    before = student.table.clone()
    student.step(student.vectors(student.ids(["cat runs"])).sum(), 0.5)
    moved = (student.table != before).any(1).nonzero().flatten().tolist()
    assert moved == sorted(student.ids(["cat runs"])[0])


def test_frozen_layers_stand_still() -> None:
    student = tiny_student(rates=StageSchedule(steps=1, frozen_layers=1))
    assert not any(".layer.0." in name or "embeddings" in name for name in student.names)
    assert any(".layer.1." in name for name in student.names)


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
    losses = pytest.importorskip("sentence_transformers.losses")
    st = pytest.importorskip("sentence_transformers.util")
    torch.manual_seed(0)
    a, b = (torch.nn.functional.normalize(torch.randn(6, 8), dim=1) for _ in range(2))
    labels = torch.rand(6)
    reference = losses.CoSENTLoss(None, scale=20.0, similarity_fct=st.pairwise_cos_sim)
    ours = j.cosent((a * b).sum(1), labels)
    torch.testing.assert_close(ours, reference.compute_loss_from_embeddings([a, b], labels))
    ranking = losses.MultipleNegativesRankingLoss(None, scale=20.0)
    torch.testing.assert_close(
        j.in_batch(a, b), ranking.compute_loss_from_embeddings([a, b], labels)
    )


def test_joint_tasks_all_go_down() -> None:
    english, korean = sentences()
    student = tiny_student(
        rates=StageSchedule(steps=1, learning_rate=1e-3, old_rows=1e-3, new_rows=3e-3)
    )
    sense = [[w.SenseOccurrence(korean[i], (0, 2), s) for i, s in ((0, "a"), (2, "a"), (4, "b"))]]
    shared = [len(set(english[0].split()) & set(e.split())) for e in english]
    tasks: list[j.Lesson] = [
        j.ScoredPairs(
            "sts",
            [
                (float(n), (english[0], korean[0]), (e, k))
                for n, e, k in zip(shared, english, korean, strict=True)
            ],
        ),
        j.PositivePairs(
            "pairs", list(zip(english, korean, strict=True)), hard=[["개 개"]] * 8, run=2, size=8
        ),
        w.WordSenses("words", sense, layers=(1, 2)),
        n.AlignedNames("names", list(zip(english, korean, strict=True)), run=2, size=8),
    ]
    told: list[dict[str, float]] = []
    config, nested = Tune(steps=100, together=2), j.Matryoshka((32, 16), (1.0, 0.5))
    j.tune(
        student,
        tasks,
        config,
        nested=nested,
        report=lambda step, share, losses: told.append(losses),
        every=20,
    )
    assert len(told) == 5
    for name in ("sts", "pairs", "words", "names"):
        assert told[-1][name] < told[0][name], name


def test_tasks_take_turns_and_count_what_they_are_told_to() -> None:
    tasks = [j.PositivePairs(name, [("a", "b")] * 2) for name in ("a", "b", "c", "d")]
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
    assert near.nearest_rows(goals, 1)[:, 0].tolist() == [1, 0, 3, 2]
    with pytest.raises(DataError, match="too few"):
        near.nearest_rows(goals, 4)


def test_words_find_their_translation_in_its_sentence(tmp_path: Path) -> None:
    english, korean = sentences()
    student = tiny_student(
        rates=StageSchedule(steps=1, learning_rate=1e-3, old_rows=1e-3, new_rows=3e-3)
    )
    texts = [d.ParallelText("all", english, korean)]
    cache = d.TeacherCache(tmp_path, "k", 32)
    data = d.prepare(texts, student, cache, teach, tmp_path / "ids")
    size = len(WORDS)  # piece 4 + size + i is the translation of piece 4 + i
    targets = np.arange(size, dtype=np.int64) + 4 + size
    lexical = Lexical(targets, targets - size, np.full(size, 0.9, dtype=np.float32))
    words = w.as_dictionary(lexical, targets.tolist())
    assert w.link([2, targets[0], 3], [2, 4, 3], words) == [(1, 1)]
    links = w.WordLinks("links", data, words, w.frozen_copy(student), layers=(1,), size=8)
    rows = np.arange(len(english))
    found = near.nearest_rows(cache.open()[data.goal].astype(np.float32), 3)
    beside = near.Neighbours("near", data, cache.open(), rows, found, size=4)
    told: list[dict[str, float]] = []
    config, nested = Tune(steps=80, together=2), j.Matryoshka((32, 16), (1.0, 0.5))
    j.tune(
        student,
        [links, beside],
        config,
        nested=nested,
        report=lambda *seen: told.append(seen[2]),
        every=20,
    )
    assert all(told[-1][name] < told[0][name] for name in ("links", "near"))


def test_similarity_rows_carry_the_teachers_scores() -> None:
    english, korean = sentences()
    vectors = teach(english)
    texts = list(zip(english, korean, strict=True))
    rows = j.similarity_rows(texts, vectors, np.random.default_rng(0))
    assert len(rows) >= 2 * len(english)
    for score, left, right in rows:
        assert left != right
        expected = vectors[english.index(left[0])] @ vectors[english.index(right[0])]
        assert score == pytest.approx(float(expected), abs=1e-5)
    blended = j.blend_scores([(5.0, *rows[0][1:])], np.array([0.2]), share=0.5, highest=5.0)
    assert blended[0][0] == pytest.approx(0.6)
    with pytest.raises(DataError, match="at least 4"):
        j.similarity_rows(texts[:2], vectors[:2], np.random.default_rng(0))


def test_mixed_checkpoints_lie_between(tmp_path: Path) -> None:
    english, korean = sentences()
    student = tiny_student(average=0.5)
    student.save_checkpoint(tmp_path / "a.safetensors")
    before = student.weights(averaged=True)
    for _ in range(20):
        goal = torch.from_numpy(teach(english))
        student.step(d.distance(student.vectors(student.ids(korean)), goal), 0.5)
    student.save_checkpoint(tmp_path / "b.safetensors")
    after = student.weights(averaged=True)
    out = tmp_path / "c.safetensors"
    parts = [(tmp_path / "a.safetensors", 0.75, True), (tmp_path / "b.safetensors", 0.25, True)]
    mix_weights(parts, out)
    student.load_checkpoint(out, optimizer=False)
    assert student.weights().keys() == before.keys() and before
    for name, value in student.weights().items():
        torch.testing.assert_close(value, torch.lerp(before[name], after[name], 0.25))
