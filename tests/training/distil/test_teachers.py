"""Who teaches: caches of vectors, graphs of strings, several teachers joined into one goal."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from malmoi.errors import BundleError, BundleNotFound, DataError, OptionError, OutputError
from malmoi.training.distil.recipe import TeacherRecipe
from malmoi.training.distil.teachers import (
    CachedTeacher,
    JointTeacher,
    Sides,
    TeacherCache,
    open_teacher,
    unit,
)
from research.ko_en_small.build import joint_vectors

TEXTS = [f"text {i}" for i in range(60)]
KOREAN = [f"글 {i}" for i in range(60)]
NUMBER = {text: i for texts in (TEXTS, KOREAN) for i, text in enumerate(texts)}


def vectors_of(dim: int, seed: int) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).standard_normal((len(TEXTS), dim)))


def fake(folder: Path, table: NDArray[np.float32], asked: list[str] | None = None) -> CachedTeacher:
    """A teacher that knows every text by its number, in both languages the same."""

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        (asked if asked is not None else []).extend(texts)
        return table[[NUMBER[text] for text in texts]]

    key = f"{table[0, 0]:.6f}"
    return CachedTeacher(TeacherCache(folder, key, table.shape[1]), encode)


def string_graph(path: Path, rows: dict[str, Sequence[float]]) -> Path:
    """A graph that takes strings: known ones have a row each, all others share one of ones."""
    table = np.array([[1.0] * len(next(iter(rows.values()))), *rows.values()], np.float32)
    nodes = [
        helper.make_node(
            "LabelEncoder", ["text"], ["row"], domain="ai.onnx.ml", keys_strings=list(rows),
            values_int64s=list(range(1, len(rows) + 1)), default_int64=0,
        ),
        helper.make_node("Gather", ["table", "row"], ["vector"], axis=0),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "strings",
        [helper.make_tensor_value_info("text", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", table.shape[1]])],
        [numpy_helper.from_array(table, "table")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


class TestCache:
    def test_each_text_is_computed_once_and_a_cut_is_survived(self, tmp_path: Path) -> None:
        asked: list[str] = []
        table = vectors_of(32, 0)
        teacher = fake(tmp_path, table, asked)
        rows = teacher.cache.rows([*TEXTS, TEXTS[0]], teacher.encode, chunk=7)
        assert rows[0] == rows[-1] and asked == TEXTS
        with (teacher.cache.folder / "vectors.f16").open("r+b") as file:
            file.truncate(2 * 32 * 7 + 5)  # the eighth row is half written
        again = fake(tmp_path, table, asked)
        assert len(again.cache) == 7
        np.testing.assert_allclose(again.vectors(TEXTS), table, atol=2e-3)
        assert asked[len(TEXTS) :] == TEXTS[7:]

    def test_another_dimension_is_refused(self, tmp_path: Path) -> None:
        cache = TeacherCache(tmp_path, "key", 8)
        with pytest.raises(DataError, match=r"shape \(1, 32\); expected \(1, 8\)"):
            cache.rows(["text 0"], lambda texts: np.zeros((1, 32), np.float32))

    def test_a_cache_of_another_format_is_refused(self, tmp_path: Path) -> None:
        folder = fake(tmp_path, vectors_of(8, 0)).cache.folder
        (folder / "about.json").write_text(json.dumps({"format": 99}))
        with pytest.raises(DataError, match=r"format 99; this malmoi reads 1\. Remove the folder"):
            fake(tmp_path, vectors_of(8, 0))

    @pytest.mark.parametrize("file", ["_vectors", "_keys"])
    def test_a_full_disk_keeps_what_is_there(self, tmp_path: Path, file: str) -> None:
        table = vectors_of(8, 0)
        teacher = fake(tmp_path, table)
        teacher.vectors(TEXTS[:10])
        setattr(teacher.cache, file, Path("/dev/full"))
        with pytest.raises(OutputError, match=r"No space left.*What it holds is kept; free"):
            teacher.cache.rows(TEXTS, teacher.encode)
        again = fake(tmp_path, table)
        assert len(again.cache) == 10
        np.testing.assert_allclose(again.vectors(TEXTS), table, atol=2e-3)


class TestOpening:
    def test_a_graph_that_takes_strings_teaches(self, tmp_path: Path) -> None:
        path = string_graph(tmp_path / "s.onnx", {"가": [3, 4, 0], "나다": [0, 0, 2]})
        teacher = open_teacher(str(path), tmp_path / "run", tmp_path / "cache", threads=1)
        assert teacher.dimension == 3
        found = teacher.vectors(["나다", "가", "나다", "else"])
        expected = [[0, 0, 1], [0.6, 0.8, 0], [0, 0, 1], [3**-0.5] * 3]
        np.testing.assert_allclose(found, expected, atol=2e-3)
        other = string_graph(tmp_path / "t.onnx", {"가": [0, 1, 0]})
        again = open_teacher(str(other), tmp_path / "run", tmp_path / "cache", threads=1)
        np.testing.assert_allclose(again.vectors(["가"]), [[0, 1, 0]])  # a cache of its own

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("none.onnx", r"no teacher none.onnx; expected an ONNX file"),
            ("package:no_such_thing/model.onnx", "pip install no-such-thing"),
            ("no-such-model", "no-such-model"),
        ],
    )
    def test_a_missing_teacher_is_named(self, tmp_path: Path, name: str, message: str) -> None:
        with pytest.raises(BundleNotFound, match=message):
            open_teacher(name, tmp_path, tmp_path, threads=1)

    def test_graphs_of_another_kind_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "text.onnx").write_text("no graph")
        with pytest.raises(BundleError, match="expected one that takes strings"):
            open_teacher(str(tmp_path / "text.onnx"), tmp_path, tmp_path, threads=1)
        node = helper.make_node("Identity", ["ids"], ["out"])
        values = [
            helper.make_tensor_value_info(n, TensorProto.INT64, ["n"]) for n in ("ids", "out")
        ]
        graph = helper.make_graph([node], "numbers", values[:1], values[1:])
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.save(model, tmp_path / "numbers.onnx")
        with pytest.raises(BundleError, match=r"takes ids tensor\(int64\); expected one list"):
            open_teacher(str(tmp_path / "numbers.onnx"), tmp_path, tmp_path, threads=1)


Join = Callable[..., JointTeacher]


@pytest.fixture
def tables() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return vectors_of(5, 1), vectors_of(7, 2)


@pytest.fixture
def join(tmp_path: Path, tables: tuple[NDArray[np.float32], ...]) -> Join:
    def made(width: int, *recipes: dict[str, Any]) -> JointTeacher:
        named = [TeacherRecipe(model="x", **one) for one in recipes or ({}, {})]
        return JointTeacher(named, [fake(tmp_path, table) for table in tables], width)

    return made


BOTH = Sides({"en": TEXTS}, (("en",), ("en",)))


def cosines(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    found = unit(vectors)
    return found @ found.T


def orthogonal(width: int) -> NDArray[np.float32]:
    found, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((width, width)))
    return found.astype(np.float32)


class TestJoined:
    def test_cosines_are_the_weighted_mean_of_the_teachers(
        self, join: Join, tables: tuple[NDArray[np.float32], ...]
    ) -> None:
        joint = join(12, {"weight": 3.0}, {"weight": 1.0})
        part, present = joint.side_by_side(BOTH)
        mean = 0.75 * cosines(tables[0]) + 0.25 * cosines(tables[1])
        np.testing.assert_allclose(cosines(part), mean, atol=3e-3)
        joint.fit([(part, present)], part @ orthogonal(12))
        np.testing.assert_allclose(cosines(joint.goals(part, present)), mean, atol=3e-3)

    def test_goals_are_turned_onto_the_student(self, join: Join) -> None:
        joint = join(12)
        part, present = joint.side_by_side(BOTH)
        own = unit(part @ orthogonal(12))
        joint.fit([(part, present)], own)
        np.testing.assert_allclose(joint.goals(part, present), own, atol=1e-3)

    def test_fewer_dimensions_keep_the_strongest_directions(self, join: Join) -> None:
        joint = join(4)
        part, present = joint.side_by_side(BOTH)
        joint.fit([(part, present)], unit(part[:, :4]))
        assert joint.map is not None and joint.map.shape == (12, 4)
        np.testing.assert_allclose(joint.map.T @ joint.map, np.eye(4), atol=1e-5)
        strongest = np.linalg.svd(part, compute_uv=False)[:4]
        assert np.square(part @ joint.map).sum() == pytest.approx(np.square(strongest).sum(), 1e-4)
        assert joint.goals(part[:3], present).shape == (3, 4)

    def test_of_a_pair_a_teacher_reads_its_best_language_or_both(
        self, tmp_path: Path, tables: tuple[NDArray[np.float32], ...]
    ) -> None:
        english, korean = tables[0], vectors_of(5, 9)

        def encode(texts: Sequence[str]) -> NDArray[np.floating]:
            return np.stack([(english if t in TEXTS else korean)[NUMBER[t]] for t in texts])

        def read(sides: str, languages: Sequence[str] = ()) -> NDArray[np.floating]:
            teacher = CachedTeacher(TeacherCache(tmp_path / "both", "k", 5), encode)
            recipe = TeacherRecipe(model="x", sides=sides, languages=languages)  # type: ignore[arg-type]
            texts = {"en": TEXTS, "ko": KOREAN}
            trusted = tuple(languages) or ("en", "ko")
            found, _ = JointTeacher([recipe], [teacher], 5).side_by_side(Sides(texts, (trusted,)))
            return found

        np.testing.assert_allclose(read("first"), english, atol=2e-3)
        np.testing.assert_allclose(read("first", ["ko", "en"]), korean, atol=2e-3)
        np.testing.assert_allclose(read("mean"), unit(english + korean), atol=3e-3)

    def test_a_teacher_that_is_not_trusted_is_filled_in(self, tmp_path: Path) -> None:
        one = vectors_of(6, 1)
        two = unit(one @ orthogonal(6))  # what it says follows from what the first says
        recipes = [TeacherRecipe(model="x"), TeacherRecipe(model="y", languages=("en",))]
        joint = JointTeacher(recipes, [fake(tmp_path, one), fake(tmp_path, two)], 6)
        english = joint.side_by_side(BOTH)
        korean = joint.side_by_side(Sides({"ko": KOREAN}, (("ko",), ())))
        assert korean[1] == (True, False) and not korean[0][:, 6:].any()
        own = one @ orthogonal(6)
        joint.fit([english, korean], np.concatenate([own, own]))
        like = (joint.goals(*english) * joint.goals(*korean)).sum(1)
        assert like.min() > 0.99
        np.testing.assert_allclose(joint_vectors(joint, KOREAN), joint.goals(*korean), atol=1e-6)
        joint.save(tmp_path / "joined.npz")
        again = JointTeacher(recipes, joint.teachers, 6)
        again.load(tmp_path / "joined.npz")
        np.testing.assert_array_equal(again.goals(*korean), joint.goals(*korean))

    def test_what_cannot_be_joined_is_told(self, join: Join) -> None:
        joint = join(12, {"languages": ["en"]}, {"languages": ["en"]})
        part, present = joint.side_by_side(BOTH)
        with pytest.raises(OptionError, match="3 texts have all of the teachers; expected more"):
            joint.fit([(part[:3], present)], part[:3])
        joint.fit([(part, present)], part)
        with pytest.raises(OptionError, match="no teacher reads ko"):
            joint_vectors(joint, ["글 1"])
        joint = join(12, {}, {"languages": ["en"]})
        joint.fit([(part, present)], part)
        with pytest.raises(OptionError, match=r"not trusted for ko.*Add a \[\[text\]\]"):
            joint_vectors(joint, ["글 1"])
