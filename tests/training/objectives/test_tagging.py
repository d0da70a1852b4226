"""`objective = "tag"`: marked files in, a tagger that runs without torch out."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import malmoi
from malmoi.errors import BundleError, DataError, OptionError, TextError
from malmoi.evaluation import evaluate
from malmoi.heads.entity_files import EntitySpan, Marked, read_marked
from malmoi.heads.windows import Pieces
from malmoi.training import loop
from malmoi.training.objectives.tagging_task import mark_units
from malmoi.training.recipe import make_recipe
from malmoi.training.run import TrainedRun, train
from tests.support import tiny as tiny_models
from tests.support.logs import record_messages

SENTENCES = [
    "the ship left/O 배가 아파서 병원에/P 갔다",
    "DM/D nephropathy/D 로 f / u 중",
    "The harbour/P was at dawn",
    "병원에서/P DM/D 을 보았다",
    "배/P the ship/P dawn",
]


def write_conll(path: Path, *, times: int = 6) -> Path:
    """Write sentences whose words end in /TYPE; neighbours of one type are one entity."""
    lines = []
    for sentence in SENTENCES * times:
        before = "O"
        for cell in sentence.split():
            word, _, name = cell.partition("/") if cell != "/" else ("/", "", "")
            name = name or "O"
            mark = "O" if name == "O" else f"{'I' if name == before else 'B'}-{name}"
            lines.append(f"{word}\t{mark}")
            before = name
        lines.append("")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def table(folder: Path, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "tiny-tagger",
        "objective": "tag",
        "base": str(folder / "base"),
        "max_tokens": 32,
        "data": {"train": ["train.tsv"], "dev": ["train.tsv"], "test": ["train.tsv"]},
        "schedule": {"epochs": 12, "batch_size": 6, "learning_rate": 3e-3},
        "output": {"folder": str(folder / "run")},
        "dropout": 0.0,
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(made.get(key), dict) else value
    return made


def run(folder: Path, **changes: Any) -> TrainedRun:
    recipe = make_recipe(table(folder, **changes), where="the recipe")
    return train(recipe, data=folder, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tag")
    tiny_models.tiny_transformer(made / "base")
    write_conll(made / "train.tsv")
    return made


@pytest.fixture(scope="module")
def trained(folder: Path) -> TrainedRun:
    return run(folder, output={"precision": ["float32", "int8"], "licence": "MIT"})


def test_it_learns_and_says_how_well(trained: TrainedRun) -> None:
    assert trained.scores["dev:f1"] > 0.9 and trained.scores["test:f1"] > 0.9
    manifest = malmoi.load(trained.bundles[0]).manifest
    assert manifest.kind == "tagger"
    assert manifest.labels == ("O", "B-D", "I-D", "B-P", "I-P")
    assert manifest.scores["test:f1"] == pytest.approx(trained.scores["test:f1"], abs=1e-4)
    card = (trained.bundles[0] / "README.md").read_text("utf-8")
    assert f"| train.tsv | {manifest.training['data']['train.tsv'][:16]}… |" in card
    assert f"Seed 1, {trained.steps} steps." in card and "- torch " in card
    assert json.loads((trained.folder / "report.json").read_text("utf-8"))["task"] == "tagging"


@pytest.mark.parametrize("number", [0, 1])
def test_entities_have_places_in_the_text_as_given(trained: TrainedRun, number: int) -> None:
    tagger = malmoi.load(trained.bundles[number])
    text = "  병원에서   DM 을 보았다"
    found = tagger.tag(text)
    assert [(e.text, e.type) for e in found] == [("병원에서", "P"), ("DM", "D")]
    for entity in found:
        assert text[entity.start : entity.end] == entity.text and 0 < entity.score <= 1
    assert tagger.types == ("D", "P")
    assert tagger.tag("") == [] and tagger.tag(" \n") == []
    assert tagger.tag_all([]) == []
    with pytest.raises(TextError, match="texts is str"):
        tagger.tag_all("배")
    with pytest.raises(TextError):
        tagger.tag(3)  # type: ignore[arg-type]


def test_long_texts_are_tagged_by_windows_that_agree(trained: TrainedRun) -> None:
    tagger = malmoi.load(trained.bundles[0])
    sentence = "병원에서 DM 을 보았다 . "
    text = sentence * 400  # many windows of 32 tokens
    found = tagger.tag(text)
    assert all(text[e.start : e.end] == e.text for e in found)
    starts = [e.start for e in found]
    assert starts == sorted(set(starts))  # nothing twice, in order
    assert all(one.end <= two.start for one, two in pairwise(found))
    right = {(e.start, e.text) for e in found}
    expected = {
        (i * len(sentence) + sentence.index(word), word) for i in range(400) for word in ("DM",)
    }
    assert len(right & expected) >= 380
    # The same text gives the same entities, alone and beside others.
    assert tagger.tag_all(["배", text, "DM"])[1] == found


def test_one_long_word_and_odd_letters_do_no_harm(trained: TrainedRun) -> None:
    tagger = malmoi.load(trained.bundles[0])
    for odd in ("배" * 5000, "a\x00b\ud800c", "\u200b", "DM" + "-" * 3000 + "DM"):
        text = f"{odd} . 병원에서 DM 을 보았다"
        found = tagger.tag(text)
        assert any(entity.start > len(odd) for entity in found)  # what follows is still read
        for entity in [*found, *tagger.tag(odd)]:
            assert 0 <= entity.start < entity.end <= len(text)
            assert text[entity.start : entity.end] == entity.text


def test_the_bundle_runs_without_torch(trained: TrainedRun) -> None:
    code = (
        "import sys, malmoi; t = malmoi.load(sys.argv[1]); print(len(t.tag('DM')));"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(trained.bundles[0])], check=True)


def test_the_command_prints_entities(trained: TrainedRun, run: Any, run_here: Any) -> None:
    done = run("tag", trained.bundles[0], "병원에서 DM 을 보았다", "DM")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0] | {"score": 0} == {
        "index": 0, "text": "병원에서", "type": "P", "start": 0, "end": 4, "score": 0,
    }  # fmt: skip
    assert {row["index"] for row in rows} == {0, 1}
    piped = run_here("tag", trained.bundles[0], "-", "--csv", stdin="DM\n\n병원에서 DM\n")
    assert piped.stdout.splitlines()[0] == "index,text,type,start,end,score"
    whole = run_here("tag", trained.bundles[0], "-", "--whole", stdin="병원에서\nDM 을 보았다")
    assert [json.loads(line)["index"] for line in whole.stdout.splitlines()] == [0, 0]
    bad = run_here("tag", trained.folder / "best", "DM")
    assert bad.returncode == 1 and "malmoi:" in bad.stderr


def test_the_task_measures_a_bundle(trained: TrainedRun, folder: Path, run: Any) -> None:
    tagger = malmoi.load(trained.bundles[0])
    report = evaluate(tagger, "tagging", folder / "train.tsv", rounds=20)
    assert report.metrics["f1"].value == pytest.approx(trained.scores["test:f1"])
    done = run(
        "evaluate", trained.bundles[0], "--task", "tagging", "--data", folder / "train.tsv",
        "--rounds", "0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["f1"]["value"] == pytest.approx(
        report.metrics["f1"].value
    )


@pytest.mark.parametrize("architecture", ["roberta", "xlm-roberta", "distilbert"])
def test_any_encoder_and_pieces_as_units(tmp_path: Path, architecture: str) -> None:
    tiny_models.tiny_transformer(tmp_path / "base", architecture)
    write_conll(tmp_path / "train.tsv", times=2)
    done = run(tmp_path, unit="piece", schedule={"epochs": 2}, balance=0.5, weights={"O": 0.7})
    tagger = malmoi.load(done.bundles[0])
    assert tagger.unit == "piece"
    text = "병원에서 DM"
    assert all(text[e.start : e.end] == e.text for e in tagger.tag(text))


def test_files_are_divided_by_the_seed(folder: Path) -> None:
    from malmoi.training.objectives.tagging import TagObjective

    data = {"train": [], "dev": [], "test": [], "files": ["train.tsv"], "shares": {"dev": 0.2}}
    recipes = [make_recipe(table(folder, data=data, seed=seed), where="") for seed in (1, 1, 2)]
    found = [TagObjective().read(r, folder, strict=False) for r in recipes]
    assert [len(found[0].parts[part]) for part in ("train", "dev", "test")] == [24, 6, 0]
    assert found[0].parts == found[1].parts != found[2].parts


def test_a_faster_head_is_a_group_of_its_own() -> None:
    from malmoi.training.recipe import Schedule

    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    scales = {id(p): 5.0 for p in module[1].parameters()}
    optimizer = loop.make_optimizer(module, Schedule(), scales=scales)
    assert sorted(group["scale"] for group in optimizer.param_groups) == [1.0, 1.0, 5.0, 5.0]


def units(*places: tuple[int, int]) -> Pieces:
    starts, ends = (np.array(side) for side in zip(*places, strict=True))
    number = np.arange(len(places))
    return Pieces(number, number, number, starts, ends)


def test_entities_that_end_inside_a_word() -> None:
    labels = ("O", "B-X", "I-X")
    words = units((0, 4), (5, 9), (10, 12))
    assert mark_units(words, [EntitySpan(0, 9, "X")], labels)[0].tolist() == [1, 2, 0]
    assert mark_units(words, [EntitySpan(0, 3, "X")], labels)[0].tolist() == [
        1,
        0,
        0,
    ]  # most of a word
    targets, lost = mark_units(words, [EntitySpan(0, 1, "X"), EntitySpan(5, 9, "Y")], labels)
    assert targets.tolist() == [0, 0, 0] and lost == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "letter"}, "unit"),
        ({"data": {"scheme": "bio"}}, "scheme"),
        ({"data": {"train": []}}, "no files"),
        ({"data": {"dev": []}}, "data.dev is missing"),
        ({"data": {"files": ["x"]}}, "both files and train"),
        ({"balance": 2.0}, "balance"),
        ({"head_rate": 0.0}, "head_rate"),
        ({"pooling": "cls"}, "pooling"),
    ],
)
def test_recipes_that_make_no_sense(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_recipe(table(folder, **changes), where="the recipe")


def test_files_without_entities_and_types_that_only_dev_has(folder: Path) -> None:
    from malmoi.training.objectives.tagging import TagObjective

    (folder / "none.tsv").write_text("a\tO\nb\tO\n", "utf-8")
    (folder / "other.tsv").write_text("a\tB-Z\n", "utf-8")
    recipe = make_recipe(table(folder, data={"train": ["none.tsv"]}), where="")
    with pytest.raises(DataError, match="mark no entity"):
        TagObjective().read(recipe, folder, strict=False)
    recipe = make_recipe(table(folder, data={"types": ["Q"]}), where="")
    with pytest.raises(DataError, match="no entity of the types Q"):
        TagObjective().read(recipe, folder, strict=False)
    told = record_messages()
    recipe = make_recipe(table(folder, data={"test": ["other.tsv"]}), where="")
    TagObjective().read(recipe, folder, strict=False)
    assert any("type Z, which train has not" in line for line in told)


def test_a_tagger_without_its_settings(trained: TrainedRun, tmp_path: Path) -> None:
    import shutil

    from malmoi.bundle.bundle import Manifest

    copy = tmp_path / "copy"
    shutil.copytree(trained.bundles[0], copy)
    (copy / "tagger.json").unlink()
    Manifest.read(copy).write(copy)
    with pytest.raises(BundleError, match="tagger.json"):
        malmoi.load(copy)
    with pytest.raises(BundleError, match="is of kind 'tagger'; expected encoder"):
        malmoi.load(trained.bundles[0], kind="encoder")


def test_marked_files_round_trip(folder: Path) -> None:
    found = read_marked(folder / "train.tsv")
    assert found[1] == Marked("DM nephropathy 로 f / u 중", (EntitySpan(0, 14, "D"),))
