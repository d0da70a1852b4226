"""A recipe with `objective = "distil"`: the whole way from files to a bundle, tiny and in two
languages made up here.
"""

import csv
import json
import os
import shutil
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
from malmoi import DataError, OptionError  # noqa: E402
from malmoi.errors import OutputError  # noqa: E402
from malmoi.export.export import export  # noqa: E402
from malmoi.train.distil import distillation, training  # noqa: E402
from malmoi.train.distil.data import is_held, read_distillation_data  # noqa: E402
from malmoi.train.distil.recipe import HeldRows, LessonRecipe  # noqa: E402
from malmoi.train.recipe import load_recipe, make_recipe  # noqa: E402
from malmoi.train.run import train  # noqa: E402
from tests.support import tiny  # noqa: E402
from tests.support.runs import as_toml  # noqa: E402
from tests.train.distil.test_teachers import string_graph  # noqa: E402

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
    nli = [(korean(a), korean(b), label) for a, b in zip(ENGLISH, other, strict=True)
           for label in ("entailment", "contradiction")]  # fmt: skip
    write(root / "nli.tsv", "premise hypothesis label", nli)
    sets = [(i // 3, korean(e)) for i, e in enumerate(ENGLISH)]
    write(root / "sets.tsv", "set sentence", sets)
    senses = [(f"[{w}]이 {i}", f"큰 [{w}]을 {i}", w, str(i % 2 == 0), i % 3, i % 2)
              for w in "배눈" for i in range(12)]  # fmt: skip
    write(root / "wic.tsv", "one two target same first second", senses)
    write(
        root / "terms.tsv",
        "code en ko",
        [(f"A{i}", e, k) for i, (e, k) in enumerate(WORDS.items())],
    )
    write(root / "lay.tsv", "id said", [("A0", "나비; 야옹이"), ("A1", "강아지")])
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
    """Every stage and every kind of task."""
    tasks: list[dict[str, Any]] = [
        {"kind": "scores", "name": "sts", "files": ["sts.tsv"], "size": 8,
         "teacher_share": 0.4, "highest": 3,
         "columns": {"left": ["en1", "ko1"], "right": ["en2", "ko2"], "score": "score"}},
        {"kind": "pairs", "name": "nli", "files": ["nli.tsv"], "size": 8,
         "columns": {"a": "premise", "b": "hypothesis", "label": "label"},
         "positive": "entailment", "negative": "contradiction"},
        {"kind": "pairs", "files": ["terms.tsv"], "columns": {"a": "en", "b": "ko", "key": "code"},
         "held_out": {"by": "code", "one_in": 5}, "run": 2, "size": 4},
        {"kind": "groups", "files": ["sets.tsv"], "most": 2, "size": 6,
         "columns": {"group": "set", "text": "sentence"}},
        {"kind": "senses", "files": ["wic.tsv"], "layers": [1, 2], "size": 6,
         "columns": {"a": "one", "b": "two", "target": "target", "same": "same"}},
        {"kind": "senses", "name": "all", "files": ["wic.tsv"], "layers": [2], "weight": 0,
         "columns": {"a": "one", "b": "two", "target": "target", "sense_a": "first",
                     "sense_b": "second"}},
        {"kind": "neighbours", "draws": {"pairs": 20}, "near": 9, "size": 4, "weight": 0},
        {"kind": "swaps", "parallel": ["pairs"], "size": 8, "near": 2, "mixed": 0.5, "weight": 0},
        {"kind": "groups", "name": "lay", "files": ["terms.tsv"], "size": 4, "weight": 0,
         "columns": {"group": "code", "text": "ko"},
         "also": [{"files": ["lay.tsv"], "columns": {"group": "id", "text": "said"},
                   "split": ";"}]},
        {"kind": "translations", "parallel": ["pairs"], "size": 8},
        {"kind": "teacher", "tokens": 64, "dropped": 0.1},
    ]  # fmt: skip
    stage = {"steps": 12, "longest": 16, "average": 0.9}
    made = table(
        root, folder,
        held_out={"files": ["pairs.tsv"], "source": "en", "target": "ko", "pairs": 6},
        vocabulary={"size": 200, "text": [{"files": ["sets.tsv"], "columns": ["sentence"]}],
                    "terms": [{"files": ["terms.tsv"], "columns": ["en"]}]},
        align={"epochs": 40, "batch": 16},
        task=tasks,
        tune=[stage, stage | {"together": 1, "lead": ["sts"], "others": 0.5,
                              "sizes": {"sts": 6}, "weights": {"nli": 2.0, "teacher": 0},
                              "mix": {"base": 0.1, "distil": 0.2, "tune-1": 0.7}},
              stage | {"steps": 6, "own_goals": True, "together": 1,
                       "turns": [["neighbours", "teacher"],
                                 ["all", "swaps", "lay", ""]],
                       "dropout": 0.05,
                       "factors": {"all": 0.3}}],
        evaluation=[{"task": "sts", "file": "sts.tsv", "name": "ko",
                     "columns": {"a": "ko1", "b": "ko2", "score": "score"}}],
        matryoshka=[32, 16],
        languages=["en", "ko"],
    )  # fmt: skip
    made["output"] |= {"precision": ["int8"], "layers": "all", "weights": False, "licence": "MIT",
                       "static": {"name": "twin", "dim": 16}}  # fmt: skip
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
    folder, told = finished
    encoder = malmoi.load(folder / "bundle")
    manifest = encoder.bundle.manifest
    assert manifest.precision == "int8" and manifest.layers == 3 and manifest.licence == "MIT"
    assert manifest.matryoshka == (32, 16) and manifest.languages == ("en", "ko")
    assert not list((folder / "bundle").glob("*.safetensors"))
    assert set(manifest.scores) > {"ko", "held-out source>target @1"}
    assert manifest.training["data"].keys() >= {"pairs.tsv", "sts.tsv", "wic.tsv"}
    vectors = encoder.encode(["고양이 잔다", "cat sleeps"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    twin = malmoi.load(folder / "static")
    assert twin.name == "twin" and twin.dimension == 16
    assert twin.manifest.training["texts"] > 20 and twin.manifest.licence == "MIT"
    assert any("new pieces" in line for line in told)
    for title, steps in (("distil", 20), ("tune-1", 12), ("tune-3", 6)):
        assert len(losses(folder / title)) == steps
        stage = json.loads((folder / title / "stage.json").read_text("utf-8"))
        assert stage["steps"] == steps and 0 <= stage["scores"]["ko"] <= 1
        assert (folder / title / "training.png").is_file()
    assert "고양이" in json.loads((folder / "vocabulary/rows.json").read_text("utf-8"))
    card = (folder / "bundle/README.md").read_text("utf-8")
    assert "| ko |" in card and "6 sentence pairs were held out" in card


def losses(stage: Path) -> list[float]:
    with (stage / "log.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]


def test_a_finished_run_has_nothing_left_to_do(
    root: Path, finished: tuple[Path, list[str]]
) -> None:
    folder, _ = finished
    with pytest.raises(OutputError, match="holds a run already"):
        go(whole(root, folder), root)
    done, told = go(whole(root, folder), root, resume=True)
    assert [line for line in told if "took" in line] == [] and done.steps == 50
    assert done.bundles == (folder / "bundle",) and "ko" in done.scores


def test_a_changed_setting_runs_its_stage_and_the_later_ones(
    root: Path, finished: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    made = whole(root, folder)
    made["tune"][1] = made["tune"][1] | {"steps": 3}
    _, told = go(made, root, resume=True)
    assert "tune-1 is done already" in told
    assert "tune-2 was done with other settings or data, and is done again" in told
    assert any(line.startswith("bundles took") for line in told)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model/model.safetensors")


class Killed(BaseException):
    """What a process that is killed does not live to see."""


def kill(monkeypatch: pytest.MonkeyPatch, task: type[Any], *, after: int) -> None:
    """Let a task's loss end the process after so many steps."""
    count, loss = iter(range(after)), task.loss

    def dying(self: Any, step: Any) -> Any:
        if next(count, None) is None:
            raise Killed
        return loss(self, step)

    monkeypatch.setattr(task, "loss", dying)


def test_a_killed_stage_resumes_to_the_same_bits(root: Path, tmp_path: Path) -> None:
    stage = {"steps": 20, "longest": 16, "average": 0.9, "dropout": 0.1}
    changes = {"task": whole(root, tmp_path)["task"], "tune": [stage]}
    changes["teacher"] = str(root / "teacher")
    go(table(root, tmp_path / "once", **changes), root)
    made = table(root, tmp_path / "twice", **changes)
    made["output"]["checkpoint_minutes"] = 1e-9  # after every step
    for task in (distillation.DistilTask, training.TuneTask):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            kill(patch, task, after=12)
            train(make_recipe(made), data=root, threads=1, resume=True)
    _, told = go(made, root, resume=True)
    assert "distil is done already" in told
    assert losses(tmp_path / "once/tune-1") == losses(tmp_path / "twice/tune-1")
    assert len(losses(tmp_path / "twice/tune-1")) == 20
    for name, value in weights(tmp_path / "once").items():
        assert torch.equal(value, weights(tmp_path / "twice")[name]), name


def test_a_stage_that_had_begun_with_other_data_says_so(root: Path, tmp_path: Path) -> None:
    for name in ("pairs.tsv", "base", "teacher"):
        (tmp_path / name).symlink_to(root / name)
    made = table(tmp_path, tmp_path / "run", teacher=str(root / "teacher"))
    made["output"]["checkpoint_minutes"] = 1e-9
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill(patch, distillation.DistilTask, after=5)
        train(make_recipe(made), data=tmp_path, threads=1)
    text = (root / "pairs.tsv").read_text("utf-8")
    (tmp_path / "pairs.tsv").unlink()
    (tmp_path / "pairs.tsv").write_text(text + "old moon sleeps well\t늙은 달이 잘 잔다\n", "utf-8")
    _, told = go(made, tmp_path, resume=True)
    assert "vocabulary was done with other settings or data, and is done again" in told
    assert "distil was started with other settings or data; it starts again" in told
    assert len(losses(tmp_path / "run/distil")) == 20


def test_a_damaged_checkpoint_is_told_with_what_to_remove(root: Path, tmp_path: Path) -> None:
    made = table(root, tmp_path / "run", teacher=str(root / "teacher"))
    go(made, root)
    for saved in (tmp_path / "run/distil/checkpoints").glob("*/*.safetensors"):
        saved.write_bytes(saved.read_bytes()[:100])
    (tmp_path / "run/stages/distil.json").unlink()
    with pytest.raises(DataError, match=r"can be read; expected one. Remove .*checkpoints"):
        go(made, root, resume=True)
    shutil.rmtree(tmp_path / "run/distil/checkpoints")
    assert go(made, root, resume=True)[0].steps == 20


def test_a_run_of_the_old_engine_is_told_how_to_begin_again(root: Path, tmp_path: Path) -> None:
    made = table(root, tmp_path / "run", teacher=str(root / "teacher"))
    (tmp_path / "run/distil").mkdir(parents=True)
    (tmp_path / "run/recipe.json").write_text(json.dumps(made), "utf-8")
    old = tmp_path / "run/distil/step-00000100.safetensors"
    old.write_bytes(b"weights")
    with pytest.raises(DataError, match=r"older malmoi.*Remove the folder and run again"):
        go(made, root, resume=True)
    assert old.is_file()  # it may be wanted
    shutil.rmtree(old.parent)
    assert go(made, root, resume=True)[0].steps == 20


def test_two_processes_finish_a_run(root: Path, tmp_path: Path) -> None:
    made = several(root, tmp_path / "run")
    made["distil"] |= {"steps": 0, "minutes": 0.01}  # the clock is one for both
    made["tune"] = [{"steps": 4, "longest": 16, "average": 0, "own_goals": True}]
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
    assert row["steps"] >= 5
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
        vocabulary={"size": 0, "rare": True},
        task=[{"kind": "passages", "text": ["pages", "plain"], "join": [1, 3], "size": 6},
              {"kind": "teacher", "tokens": 64}],
        tune=[{"steps": 4, "longest": 16, "average": 0}],
    )  # fmt: skip
    made["parallel"].append(made["parallel"][0] | {"name": "both", "join": [2, 2], "limit": 9})
    return made | changes


def test_several_teachers_and_text_in_one_language(root: Path, tmp_path: Path) -> None:
    done, told = go(several(root, tmp_path / "run"), root)
    assert done.steps == 24
    assert any("2 teachers joined on 45 texts" in line for line in told)
    goals = training.open_goals(tmp_path / "run/goals")
    material = read_distillation_data(make_recipe(several(root, tmp_path)), root)
    count = sum(map(len, [*material.chosen.values(), *material.texts.values()]))
    assert goals.shape == (count, 32) and count > 36 + 9 + 32 + 5
    np.testing.assert_allclose(np.linalg.norm(goals.astype(np.float32), axis=1), 1, atol=1e-2)
    found = losses(tmp_path / "run/distil")
    assert np.mean(found[-5:]) < np.mean(found[:5])
    _, told = go(several(root, tmp_path / "run"), root, resume=True)
    assert "goals is done already" in told
    heavier = several(root, tmp_path / "run")
    heavier["teachers"][0]["weight"] = 0.9
    _, told = go(heavier, root, resume=True)
    assert "align is done already" in told
    assert "goals was done with other settings or data, and is done again" in told
    assert "distil was started with other settings or data; it starts again" in told


def test_a_projection_is_thrown_away(root: Path, tmp_path: Path) -> None:
    made = several(root, tmp_path / "run", task=[], tune=[])
    made["distil"] |= {"goal": "projection", "steps": 6}
    go(made, root)
    wide = training.open_goals(tmp_path / "run/goals", projected=True)
    assert wide.shape[1] == 32 + 24
    assert not any("projection" in name for name in weights(tmp_path / "run"))
    assert malmoi.load(tmp_path / "run/bundle").dimension == 32


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


def test_every_syllable_is_read_everywhere(root: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from malmoi.export.static import export_static

    made = table(
        root, tmp_path / "run", teacher=str(root / "teacher"),
        vocabulary={"size": 120, "fewest": 1, "rare": True, "init": "mean"},
    )  # fmt: skip
    made["distil"]["steps"] = 2
    go(made, root)
    bundle = tmp_path / "run/bundle"
    export_static(bundle, tmp_path / "static", dim=8)
    syllables = [chr(code) for code in range(0xAC00, 0xD7A4)]
    jamo = [chr(code) for code in range(0x3131, 0x318F)]
    texts = [*syllables, *("가" + one for one in syllables), *jamo]
    for folder in (tmp_path / "run/model", bundle, tmp_path / "static"):
        opened = AutoTokenizer.from_pretrained(folder)
        fast = opened.backend_tokenizer
        unknown = opened.unk_token_id
        found = [encoding.ids for encoding in fast.encode_batch(texts, add_special_tokens=False)]
        missed = [text for text, ids in zip(texts, found, strict=True) if unknown in ids]
        assert missed == [], folder.name
        rows = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
        assert max(rows.values()) < 3000  # they share rows
    encoder = malmoi.load(bundle)
    vectors = encoder.encode(["쇽", "삠", "뮴", "왤", "됬"])
    assert np.isfinite(vectors).all() and encoder.similarity("쇽 잔다", "숃 잔다") > 0.999


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
    found = losses(tmp_path / "two/distil")
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
        ({"vocabulary": {"size": -1}}, r"vocabulary\.size is -1; expected 0 or more"),
        ({"vocabulary": {"size": 9, "init": "alin"}}, "known are align, mean, random"),
        ({"vocabulary": {"size": 9, "reuse": "("}}, "no pattern"),
        ({"align": {"method": "ibm1"}}, 'align.method is "ibm1"; known are regression'),
        ({"align": {"sharp": 1.5}}, "sharp is a key of older recipes; .* Remove the key"),
        ({"precision": "int8"}, "known are auto, float32, bfloat16"),
        ({"tune": [{"steps": 1}]}, "no .*task.* to learn"),
        ({"task": [{"kind": "score"}]}, "known are scores, pairs"),
        ({"task": [{"kind": "likeness"}]}, 'kind "likeness" of older recipes is "neighbours" now'),
        ({"task": [{"kind": "links"}]}, 'kind "links" of older recipes is gone; "senses" teaches'),
        ({"task": [{"kind": "names"}]}, 'kind "names" of older recipes is "groups" now'),
        ({"task": [{"kind": "groups", "files": ["x"], "columns": {"group": "g"}}]}, "has no text"),
        ({"task": [{"kind": "teacher", "columns": {"x": "y"}}]}, "x is not a key"),
        ({"task": [{"kind": "teacher", "mixed": 2.0}]}, r"mixed is 2.0; expected 0 to 1"),
        ({"task": [{"kind": "groups", "files": ["x"], "columns": {"group": "g", "text": "t"},
                    "also": [{"files": ["y"], "columns": {"group": "g"}}]}]},
         r"also\[0\].columns names group; expected the task's group, text"),
        ({"task": [{"kind": "translations", "parallel": ["pair"]}]}, r"mean pairs\?"),
        ({"task": [{"kind": "teacher"}, {"kind": "teacher"}]}, "two .*task.* are called teacher"),
        ({"task": [{"kind": "teacher"}], "tune": [{"steps": 1, "lead": ["sts"]}]}, "sts is not"),
        ({"teacher": "a", "teachers": [{"model": "b"}]}, "teacher and .*teachers.* are both set"),
        ({"teachers": [{"model": "b", "entries": ["pair"]}]}, r"mean pairs\?"),
        ({"teachers": [{"model": "b", "languages": ["fr"]}]},
         "no teacher is trusted for pairs in en or ko; expected one or more"),
        ({"teachers": [{"model": "b", "weight": 0.0}]}, "weight is 0.0; expected more than 0"),
        ({"text": [{"files": ["x"], "name": "pairs"}]}, "are called pairs"),
        ({"text": [{"files": ["x"], "join": [3, 2]}]}, r"join is \[3, 2\]; expected \[fewest"),
        ({"task": [{"kind": "passages", "text": ["page"]}]}, "page is not a key"),
        ({"distil": {"steps": 1, "goal": "turn"}}, "known are turned, projection"),
        ({"mix": {"distil": -1.0}}, "add up to 0 or less"),
        ({"mix": {"tune-1": 1.0}}, "tune-1 is not a key; known are base, distil"),
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
    made = whole(root, tmp_path)
    material = read_distillation_data(make_recipe(made), root)
    held = {source for source, _ in material.held}
    assert len(held) == 6 and not held & {source for source, _ in material.pairs["pairs"]}
    assert len(material.pairs["pairs"]) == len(ENGLISH) - 6
    codes = [row[2] for row in material.rows["terms"]]
    assert codes and not any(is_held(code, HeldRows(by="code", one_in=5)) for code in codes)


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
    model = SentenceTransformer(str(folder / "model"), device="cpu")
    texts = ["고양이 잔다", "the old ship"]
    ours = malmoi.load(folder / "bundle").encode(texts)
    assert (model.encode(texts, show_progress_bar=False) * ours).sum(1).min() > 0.95


def test_tasks_read_their_rows(root: Path) -> None:
    from malmoi.train.distil.lessons import build as tasks

    nli = LessonRecipe(
        kind="pairs",
        files=("x",),
        columns={"a": "a", "b": "b", "label": "l"},
        positive="e",
        negative="c",
    )
    made = tasks.pairs(nli, [("p", "x", "e"), ("p", "y", "c"), ("p", "z", "e"), ("q", "w", "e"),
                             ("r", "v", "c")])  # fmt: skip
    assert made.groups == [("p", "x"), ("q", "w")] and made.hard == [["y"], []]
    terms = LessonRecipe(
        kind="groups", files=("x",), columns={"group": "code", "text": "name"}, most=2
    )
    rows = [("1", "a"), ("1", "b"), ("1", "c"), ("2", "d"), ("3", "e"), ("3", "f")]
    assert tasks.groups(terms, rows).groups == [("a", "b"), ("e", "f")]
    with pytest.raises(DataError, match="expected two or more"):
        tasks.groups(terms, [("1", "a")])


def test_set_reaches_every_table(tmp_path: Path) -> None:
    path = ROOT / "recipes/distil.toml"
    recipe: Any = load_recipe(path, sets=["distil.steps=3", "parallel.0.weight=2"])
    assert recipe.distil.steps == 3 and recipe.parallel[0].weight == 2.0


def test_further_files_may_hold_several_texts_in_a_cell(root: Path, tmp_path: Path) -> None:
    made = make_recipe(whole(root, tmp_path))
    material = read_distillation_data(made, root)
    named = [name for code, name in material.rows["lay"] if code == "A0"]
    assert named == ["고양이", "나비", "야옹이"]
    assert "lay.tsv" in material.hashes
