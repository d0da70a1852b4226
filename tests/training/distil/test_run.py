"""A recipe with `objective = "distil"`: the whole way from files to a bundle, tiny and in two
languages made up here.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT
from tests.support.logs import record_messages

torch = pytest.importorskip("torch")

import malmoi  # noqa: E402
from malmoi.errors import (  # noqa: E402
    DataError,
    OptionError,
    OutputError,
)
from malmoi.export.export import export  # noqa: E402
from malmoi.training.distil import goals, training  # noqa: E402
from malmoi.training.distil.recipe import read_distillation_data  # noqa: E402
from malmoi.training.recipe import load_recipe, make_recipe  # noqa: E402
from malmoi.training.run import train  # noqa: E402
from tests.support import tiny  # noqa: E402
from tests.support.runs import as_toml  # noqa: E402
from tests.training.distil.test_teachers import string_graph  # noqa: E402

WORDS = {
    "cat": "고양이",
    "dog": "개",
    "ship": "배",
    "moon": "달",
    "sleeps": "잔다",
    "runs": "달린다",
    "sinks": "가라앉는다",
    "red": "붉은",
    "old": "늙은",
    "small": "작은",
}
NOUNS, VERBS, KINDS = list(WORDS)[:4], list(WORDS)[4:7], list(WORDS)[7:]
ENGLISH = [f"{k} {n} {v}" for k in KINDS for n in NOUNS for v in VERBS]


def korean(text: str) -> str:
    return " ".join(WORDS[word] for word in text.split())


def write(path: Path, header: str, rows: list[tuple[object, ...]]) -> None:
    lines = [header.replace(" ", "\t"), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with every kind of file, and a base."""
    root = tmp_path_factory.mktemp("data")
    tiny.tiny_transformer(root / "base")
    export(root / "base", root / "teacher", weights=False)
    write(root / "pairs.tsv", "en ko", [(e, korean(e)) for e in ENGLISH])
    other = [*ENGLISH[7:], *ENGLISH[:7]]
    alike = [len(set(a.split()) & set(b.split())) for a, b in zip(ENGLISH, other, strict=True)]
    scored = zip(alike, ENGLISH, other, strict=True)
    write(
        root / "sts.tsv", "score en1 en2 ko1 ko2",
        [(s, a, b, korean(a), korean(b)) for s, a, b in scored],
    )  # fmt: skip
    lines = [(i // 6, "dev" if i % 9 == 0 else "train", korean(e)) for i, e in enumerate(ENGLISH)]
    write(root / "pages.tsv", "page split text", lines)
    (root / "plain.txt").write_text("\n\n".join(map(korean, ENGLISH[:9])) + "\n", "utf-8")
    rng = np.random.default_rng(5)
    sides = [*ENGLISH, *map(korean, ENGLISH)]
    string_graph(root / "strings.onnx", {s: rng.standard_normal(24).tolist() for s in sides})
    return root


def table(root: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """Distillation alone, without new pieces."""
    made: dict[str, Any] = {
        "name": "tiny",
        "objective": "distil",
        "base": str(root / "base"),
        "max_tokens": 32,
        "precision": "float32",
        "parallel": [{"files": ["pairs.tsv"], "source": ["en"], "target": ["ko"]}],
        "distil": {"steps": 20, "tokens": 128, "longest": 16, "average": 0.9},
        "output": {"folder": str(folder)},
    }
    return made | changes


def whole(root: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """A run with pairs held out, an evaluation, and every key of its bundle."""
    made = table(
        root, folder,
        teacher=str(root / "teacher"),
        held_out={"files": ["pairs.tsv"], "source": "en", "target": "ko", "pairs": 6},
        evaluation=[{"task": "sts", "file": "sts.tsv", "name": "ko",
                     "columns": {"a": "ko1", "b": "ko2", "score": "score"}}],
        languages=["en", "ko"],
    )  # fmt: skip
    made["output"] |= {"precision": ["int8"], "layers": "all", "weights": False, "licence": "MIT"}
    return made | changes


def go(made: dict[str, Any], root: Path, **options: Any) -> tuple[Any, list[str]]:
    told = record_messages()
    recipe = make_recipe(made)
    return train(recipe, data=root, threads=1, **options), told


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    _, told = go(whole(root, folder), root)
    return folder, told


def test_the_whole_way_ends_in_a_bundle(finished: tuple[Path, list[str]]) -> None:
    folder, _ = finished
    encoder = malmoi.load(folder / "bundle")
    manifest = encoder.bundle.manifest
    assert manifest.precision == "int8" and manifest.layers == 3 and manifest.licence == "MIT"
    assert manifest.languages == ("en", "ko") and manifest.pooling == "mean"
    assert not list((folder / "bundle").glob("*.safetensors"))
    assert set(manifest.scores) > {"ko", "held-out source>target @1"}
    assert manifest.training["data"].keys() >= {"pairs.tsv", "sts.tsv"}
    vectors = encoder.encode(["고양이 잔다", "cat sleeps"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (folder / "training.png").is_file()
    card = (folder / "bundle/README.md").read_text("utf-8")
    assert "| ko |" in card and "6 sentence pairs were held out" in card


def losses(run: Path) -> list[float]:
    with (run / "log.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]


def test_a_finished_run_has_nothing_left_to_train(
    root: Path, finished: tuple[Path, list[str]]
) -> None:
    folder, _ = finished
    with pytest.raises(OutputError, match="holds a run already"):
        go(whole(root, folder), root)
    done, _ = go(whole(root, folder), root, resume=True)
    assert done.steps == 20 and len(losses(folder)) == 20
    assert done.bundles == (folder / "bundle",) and "ko" in done.scores
    made = whole(root, folder)
    made["distil"] |= {"steps": 3}
    with pytest.raises(OptionError, match=r"differs from the recipe in distil\.steps"):
        go(made, root, resume=True)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "best/model.safetensors")


class Killed(BaseException):
    """What a process that is killed does not live to see."""


def kill(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Let the task's loss end the process after this many steps."""
    count, loss = iter(range(after)), training.DistilTask.loss

    def dying(self: Any, step: Any) -> Any:
        if next(count, None) is None:
            raise Killed
        return loss(self, step)

    monkeypatch.setattr(training.DistilTask, "loss", dying)


def test_a_killed_run_resumes_to_the_same_bits(root: Path, tmp_path: Path) -> None:
    go(table(root, tmp_path / "once", teacher=str(root / "teacher")), root)
    made = table(root, tmp_path / "twice", teacher=str(root / "teacher"))
    made["output"]["checkpoint_steps"] = 1
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill(patch, after=12)
        train(make_recipe(made), data=root, threads=1)
    go(made, root, resume=True)
    assert losses(tmp_path / "once") == losses(tmp_path / "twice")
    assert len(losses(tmp_path / "twice")) == 20
    for name, value in weights(tmp_path / "once").items():
        assert torch.equal(value, weights(tmp_path / "twice")[name]), name


def test_other_data_than_the_run_started_with_are_refused(root: Path, tmp_path: Path) -> None:
    for name in ("pairs.tsv", "base", "teacher"):
        (tmp_path / name).symlink_to(root / name)
    made = table(tmp_path, tmp_path / "run", teacher=str(root / "teacher"))
    made["output"]["checkpoint_steps"] = 1
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill(patch, after=5)
        train(make_recipe(made), data=tmp_path, threads=1)
    text = (root / "pairs.tsv").read_text("utf-8")
    (tmp_path / "pairs.tsv").unlink()
    (tmp_path / "pairs.tsv").write_text(text + "old moon sleeps well\t늙은 달이 잘 잔다\n", "utf-8")
    with pytest.raises(DataError, match="pairs.tsv"):
        go(made, tmp_path, resume=True)


def test_two_processes_finish_a_run(root: Path, tmp_path: Path) -> None:
    made = several(root, tmp_path / "run")
    made["distil"] |= {"steps": 0, "minutes": 0.01}  # the clock is one for both
    (tmp_path / "recipe.toml").write_text(as_toml(made), "utf-8")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "-m", "malmoi", "train", "recipe.toml"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MALMOI_DATA": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith(("malmoi", "Error"))]
    assert done.returncode == 0, said
    [row] = [json.loads(line) for line in done.stdout.splitlines()]  # one process prints, not two
    assert row["steps"] >= 1
    vectors = malmoi.load(tmp_path / "run/bundle").encode(["고양이 잔다"])
    assert vectors.shape == (1, 32) and np.isfinite(vectors).all()


def several(root: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """Two teachers of unlike widths, text in one language with and without columns, passages."""
    made = table(
        root, folder,
        teachers=[
            {"model": str(root / "teacher"), "weight": 0.7, "languages": ["en"]},
            {"model": str(root / "strings.onnx"), "weight": 0.3, "sides": "mean"},
        ],
        text=[
            {"files": ["pages.tsv"], "columns": ["text"], "where": {"split": "train"}},
            {"files": ["pages.tsv"], "name": "joined", "columns": ["text"], "join": [2, 3]},
            {"files": ["plain.txt"], "words": [2, 9], "limit": 5},
        ],
    )  # fmt: skip
    made["parallel"].append(made["parallel"][0] | {"name": "both", "join": [2, 2], "limit": 9})
    return made | changes


def test_several_teachers_and_text_in_one_language(root: Path, tmp_path: Path) -> None:
    made = several(root, tmp_path / "run")
    done, told = go(made, root)
    assert done.steps == 20
    assert any("2 teachers joined on 45 texts" in line for line in told)
    found = goals.open_goals(tmp_path / "run")
    material = read_distillation_data(make_recipe(made), root)
    count = sum(map(len, [*material.chosen.values(), *material.texts.values()]))
    assert found.shape == (count, 32) and count > 36 + 9 + 32 + 5
    np.testing.assert_allclose(np.linalg.norm(found.astype(np.float32), axis=1), 1, atol=1e-2)
    assert np.mean(losses(tmp_path / "run")[-5:]) < np.mean(losses(tmp_path / "run")[:5])
    _, told = go(made, root, resume=True)
    assert not any("joined" in line for line in told)  # the goals are there


def test_texts_are_read_with_and_without_columns_and_joined(root: Path, tmp_path: Path) -> None:
    material = read_distillation_data(make_recipe(several(root, tmp_path)), root)
    train_lines = [korean(e) for i, e in enumerate(ENGLISH) if i % 9]
    assert material.lines["pages"] == train_lines and material.texts["pages"] == train_lines
    assert material.lines["plain"] == [korean(e) for e in ENGLISH[:9]]  # no empty lines
    assert len(material.texts["plain"]) == 5
    everything = " ".join(map(korean, ENGLISH))
    for passage in material.texts["joined"]:
        assert passage in everything and len(passage.split()) in (6, 9)
    for source, target in material.chosen["both"]:
        assert target == korean(source) and len(source.split()) == 6


def test_distillation_alone_keeps_the_tokenizer_and_reuses_the_cache(
    root: Path, tmp_path: Path
) -> None:
    made = table(root, tmp_path / "one")
    made["output"]["cache"] = str(tmp_path / "cache")
    _, told = go(made, root)
    assert any("the teacher reads about 36 sentences" in line for line in told)
    encoder = malmoi.load(tmp_path / "one/bundle")
    assert (
        encoder.bundle.manifest.vocabulary
        == malmoi.load(next((tmp_path / "one").glob("teacher-*"))).bundle.manifest.vocabulary
    )
    made["output"]["folder"] = str(tmp_path / "two")
    _, told = go(made, root)
    assert not any("the teacher reads" in line for line in told)
    found = losses(tmp_path / "two")
    assert np.mean(found[-5:]) < np.mean(found[:5])


def test_a_minute_is_a_budget_too(root: Path, tmp_path: Path) -> None:
    made = table(root, tmp_path / "run", teacher=str(root / "teacher"))
    made["distil"] = {"minutes": 0.005, "tokens": 64, "longest": 16}
    done, _ = go(made, root)
    assert done.steps >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paralel": []}, r"paralel is not a key.*mean parallel\?"),
        ({"distil": {"stepz": 1}}, r"distil\.stepz is not a key.*mean distil\.steps\?"),
        ({"distil": {}}, "neither steps nor minutes"),
        ({"distil": {"steps": 1, "source_share": 2.0}}, "source_share is 2.0; expected 0 to 1"),
        ({"parallel": []}, r"no \[\[parallel\]\] has a weight"),
        ({"precision": "int8"}, "known are auto, float32, bfloat16"),
        ({"teacher": "a", "teachers": [{"model": "b"}]}, "teacher and .*teachers.* are both set"),
        ({"teachers": [{"model": "b", "entries": ["pair"]}]},
         r'teachers\[0\].entries is "pair"; known are pairs. Did you mean pairs\?'),
        ({"teachers": [{"model": "b", "languages": ["fr"]}]},
         "no teacher is trusted for pairs in en or ko; expected one or more"),
        ({"teachers": [{"model": "b", "weight": 0.0}]}, "weight is 0.0; expected more than 0"),
        ({"text": [{"files": ["x"], "name": "pairs"}]}, "are called pairs"),
        ({"text": [{"files": ["x"], "join": [3, 2]}]}, r"join is \[3, 2\]; expected \[fewest"),
    ],
)  # fmt: skip
def test_a_slip_in_the_recipe_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_recipe(table(Path("x"), Path("y"), **changes))


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ({"files": ["none.tsv"]}, DataError, "there is no file .*none.tsv"),
        ({"source": ["english"]}, DataError, "has no column english; it has en, ko"),
        ({"source": ["en", "en"]}, OptionError, "2 source and 1 target"),
        ({"words": [9, 10]}, DataError, "no pair within words"),
        ({"where": {"ko": "none"}}, DataError, "give no rows"),
    ],
)
def test_data_that_do_not_fit_are_told_before_anything_is_loaded(
    root: Path, tmp_path: Path, entry: dict[str, Any], error: type[Exception], message: str
) -> None:
    made = table(root, tmp_path / "run")
    made["parallel"][0] |= entry
    with pytest.raises(error, match=message):
        go(made, root)
    assert not (tmp_path / "run").exists()


def test_what_is_held_out_is_never_read(root: Path, tmp_path: Path) -> None:
    material = read_distillation_data(make_recipe(whole(root, tmp_path)), root)
    held = {source for source, _ in material.held}
    assert len(held) == 6 and not held & {source for source, _ in material.pairs["pairs"]}
    assert len(material.pairs["pairs"]) == len(ENGLISH) - 6


def test_another_dimension_of_the_teacher_is_refused(root: Path, tmp_path: Path) -> None:
    tiny.with_dense(tmp_path / "dense", root / "base")
    with pytest.raises(OptionError, match="32 dimensions and the teacher's 12"):
        go(table(root, tmp_path / "run", teacher=str(tmp_path / "dense")), root)
    with pytest.raises(OptionError, match="has a Dense module"):
        go(table(root, tmp_path / "run2", base=str(tmp_path / "dense")), root)


def test_sentence_transformers_opens_the_model_and_agrees(
    root: Path, finished: tuple[Path, list[str]]
) -> None:
    from sentence_transformers import SentenceTransformer

    folder, _ = finished
    model = SentenceTransformer(str(folder / "best"), device="cpu")
    texts = ["고양이 잔다", "the old ship"]
    ours = malmoi.load(folder / "bundle").encode(texts)
    assert (model.encode(texts, show_progress_bar=False) * ours).sum(1).min() > 0.95


def test_set_reaches_every_table(tmp_path: Path) -> None:
    path = ROOT / "recipes/distil.toml"
    recipe: Any = load_recipe(path, sets=["distil.steps=3", "parallel.0.weight=2"])
    assert recipe.distil.steps == 3 and recipe.parallel[0].weight == 2.0
