"""A recipe in, a bundle out: every objective, on a tiny transformer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from transformers import AutoModel

import malmoi
from malmoi import cli
from malmoi.bundle.bundle import Manifest
from malmoi.errors import BundleError, BundleNotFound, DataError, MissingExtra, OptionError
from malmoi.training.checkpoint import draw_log, read_log
from malmoi.training.objectives.pairs import pair_objectives
from malmoi.training.recipe import make_recipe
from malmoi.training.run import TrainedRun, prepare, train
from tests.pins.golden import to_toml
from tests.support import ROOT, runs
from tests.support.logs import record_messages

DEV: dict[str, Any] = {
    "task": "sts",
    "file": "pairs.tsv",
    "columns": {"a": "a", "b": "b", "score": "score"},
}
ENCODER_OBJECTIVES = [name for name, found in pair_objectives().items() if "encoder" in found.kinds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.prepare(tmp_path_factory.mktemp("train"))


def run(folder: Path, out: str, **changes: Any) -> TrainedRun:
    changes["output"] = changes.get("output", {}) | {"folder": str(folder / out)}
    recipe = make_recipe(runs.table(folder, **changes))
    return train(recipe, data=folder, threads=1)


def weights(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.numpy() for name, tensor in load_file(path).items()}


@pytest.mark.parametrize(
    "objective", ["softmax", "cosine", "triplet", "contrastive", "angle", "margin-mse"]
)
def test_every_objective_trains_and_writes_a_bundle(folder: Path, objective: str) -> None:
    done = run(folder, objective, objective=objective, schedule={"epochs": 8}, dropout=0.0)
    encoder = malmoi.load(done.bundles[0])
    vectors = encoder.encode(["배가 아파서 병원에 갔다", "the ship"])
    assert vectors.shape == (2, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    losses = [float(row["loss"]) for row in read_log(done.folder / "log.csv")]
    assert len(losses) == done.steps == 48
    assert np.mean(losses[-6:]) < np.mean(losses[:6])


def test_the_test_above_names_every_objective() -> None:
    pairs = {"softmax", "cosine", "triplet", "contrastive", "angle", "cosent", "margin-mse"}
    # Both of these have tests of their own.
    assert {*ENCODER_OBJECTIVES} <= pairs | {"term-alignment", "gist"}


def test_a_guide_and_mined_negatives_are_used(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="gist has no guide"):
        run(folder, "none", objective="gist")
    guide = run(folder, "guide", objective="cosine", schedule={"steps": 1}).bundles[0]
    plain = runs.table(folder, objective="gist")["data"][0]
    entry = plain | {"options": {"guide": str(guide), "margin": 0.05}}
    schedule = {"epochs": 2, "mine_steps": 4}
    done = run(folder, "gist", data=[entry], objective="gist", schedule=schedule)
    assert done.steps == 12
    mined = [np.load(done.folder / f"negatives/0-{i}.npy") for i in range(3)]
    assert all((found >= 0).sum() > 8 for found in mined)


def test_steps_of_several_batches_and_pieces_computed_again(folder: Path) -> None:
    small = {"epochs": 2, "batch_size": 8}
    done = run(folder, "small", objective="cosine", schedule=small | {"accumulate": 4})
    assert done.steps == 4  # of 6 batches an epoch: four and two
    large = {"epochs": 2, "batch_size": 48, "piece_tokens": 64}
    one, two = (
        run(folder, f"large-{again}", schedule=large | {"recompute": again}, dropout=0.2)
        for again in (False, True)
    )
    left, right = (weights(found.bundles[0] / "model.safetensors") for found in (one, two))
    assert all(np.allclose(left[name], right[name], atol=1e-6) for name in left)
    base = weights(folder / "base/model.safetensors")
    assert not np.allclose(
        left["embeddings.word_embeddings.weight"], base["embeddings.word_embeddings.weight"]
    )


def test_lora_trains_additions_and_ships_them_merged(folder: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    done = run(folder, "lora", objective="cosine", lora={"rank": 4}, schedule={"epochs": 8})
    losses = [float(row["loss"]) for row in read_log(done.folder / "log.csv")]
    assert np.mean(losses[-6:]) < np.mean(losses[:6])
    base, made = (
        weights(path / "model.safetensors") for path in (folder / "base", done.bundles[0])
    )
    name = "encoder.layer.0.attention.self.query.weight"
    assert base.keys() >= made.keys() and not np.allclose(base[name], made[name])
    assert np.array_equal(
        base["embeddings.word_embeddings.weight"], made["embeddings.word_embeddings.weight"]
    )
    kept = weights(done.folder / "best/adapter/adapter_model.safetensors")
    assert all("lora_" in name for name in kept)
    plain = AutoModel.from_pretrained(folder / "base")
    read = peft.PeftModel.from_pretrained(plain, done.folder / "best/adapter").merge_and_unload()
    assert np.allclose(read.state_dict()[name].numpy(), made[name], atol=1e-6)
    with pytest.raises(OptionError, match=r"lora.modules has nothing_of_that_name"):
        run(folder, "none", lora={"modules": ["nothing_of_that_name"]})


def test_a_report_is_written_where_it_is_asked_for(folder: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    done = run(folder, "board", schedule={"steps": 1}, output={"report": ["tensorboard"]})
    assert any((done.folder / "tensorboard").iterdir())
    with pytest.raises(MissingExtra, match="pip install wandb"):
        run(folder, "none", schedule={"steps": 1}, output={"report": ["wandb"]})


def test_the_bundle_says_how_it_was_made(folder: Path) -> None:
    told = record_messages()
    done = run(
        folder,
        "cosent",
        evaluation=[DEV],
        matryoshka=[32, 8],
        output={"precision": ["float32", "int8"], "licence": "MIT"},
    )
    manifest = Manifest.read(done.bundles[0])
    manifest.verify(done.bundles[0])
    training = manifest.training
    assert training["recipe"]["data"][0]["objective"] == "cosent"
    assert len(training["data"]["pairs.tsv"]) == 64
    assert {"malmoi", "torch", "sentence-transformers"} <= set(training["versions"])
    assert training["repeated"] == {"pairs.tsv": 48}
    assert any("48 of the 48 pairs of pairs.tsv are trained on too" in line for line in told)
    assert manifest.matryoshka == (32, 8)
    assert manifest.scores == {"sts:pairs": round(done.scores["sts:pairs"], 4)}
    assert training["seed"] == training["recipe"]["seed"] == 1
    card = (done.bundles[0] / "README.md").read_text("utf-8")
    assert "cosent" in card
    assert "MIT" in card
    digest = training["data"]["pairs.tsv"][:16]
    assert f"| pairs.tsv | cosent | {digest}… |" in card
    assert f"| pairs.tsv | evaluation sts:pairs | {digest}… |" in card
    assert f"| sts:pairs | {manifest.scores['sts:pairs']:.4f} |" in card
    assert f"Seed 1, {done.steps} steps." in card and "- torch " in card
    assert [path.name for path in done.bundles] == ["bundle", "bundle-int8"]
    assert Manifest.read(done.bundles[1]).precision == "int8"


def test_the_bundle_gives_the_vectors_that_were_measured(folder: Path) -> None:
    from malmoi.evaluation import sts

    done = run(folder, "measured", evaluation=[DEV])
    rows = sts.read(folder / "pairs.tsv", columns=DEV["columns"]).rows
    found = sts.measure(malmoi.load(done.bundles[0]), rows).values()["spearman"]
    assert found == pytest.approx(done.scores["sts:pairs"], abs=2e-3)


def test_every_task_measures_during_training(folder: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    lines = (folder / "pairs.tsv").read_text("utf-8").splitlines()
    rows = ["query\tdocument", *("\t".join(line.split("\t")[:2]) for line in lines[1:])]
    (folder / "searches.tsv").write_text("\n".join(rows), "utf-8")
    labelled = {"file": "pairs.tsv", "columns": {"a": "a", "b": "b", "same": "label"}}
    entries = [
        DEV,
        {"task": "pairs"} | labelled,
        {"task": "retrieval", "file": "searches.tsv"},
        {"task": "nli", "file": "pairs.tsv", "columns": {"a": "a", "b": "b", "label": "label"}},
    ]
    done = run(folder, "tasks", evaluation=entries, schedule={"steps": 2})
    assert list(done.scores) == ["sts:pairs", "pairs:pairs", "retrieval:searches", "nli:pairs"]
    assert all(-1 <= score <= 1 for score in done.scores.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limit": 1}, "has the score .* in all of its 1 row"),
        ({"task": "pairs", "columns": {"same": "label"}, "limit": 1}, "only pairs that are"),
        ({"task": "nli", "columns": {"label": "label"}, "limit": 1}, "the only row has one label"),
    ],
)
def test_an_evaluation_that_cannot_be_made_is_told_before_training(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    entry = {"task": "sts", "file": "pairs.tsv"} | changes
    with pytest.raises(DataError, match=message):
        run(folder, "none", evaluation=[entry])
    assert not (folder / "none").exists()


def test_an_evaluation_that_needs_another_part_is_told_before_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    entry = {"task": "nli", "file": "pairs.tsv", "columns": {"label": "label"}}
    with pytest.raises(MissingExtra, match=r"malmoi\[evaluate\]"):
        run(folder, "none", evaluation=[entry])


def test_the_first_queries_are_asked_among_all_documents(folder: Path) -> None:
    from malmoi.training.data import read_measure
    from malmoi.training.recipe import Evaluation

    columns = {"query": "a", "document": "b"}
    measure = read_measure(
        Evaluation(task="retrieval", file="pairs.tsv", columns=columns, limit=5), folder
    )
    assert len(measure.data.queries) == len(measure.pairs) == 5
    assert len(measure.data.documents) == 48


def test_a_file_that_is_measured_twice_keeps_what_was_repeated(folder: Path) -> None:
    across = DEV | {"columns": DEV["columns"] | {"b": "other"}, "name": "other"}
    recipe = make_recipe(runs.table(folder, evaluation=[DEV, across]))
    prepared = prepare(recipe, folder)
    assert prepared.repeated == {"pairs.tsv": 48}


def test_heads_stay_in_the_checkpoint(folder: Path) -> None:
    done = run(folder, "heads", objective="softmax")
    newest = sorted((done.folder / "checkpoints").iterdir())[-1]
    heads = [name for name in load_file(newest / "model.safetensors") if name.startswith("heads.")]
    assert heads == ["heads.0.parts.0.classifier.bias", "heads.0.parts.0.classifier.weight"]
    assert not any("classifier" in name for name in weights(done.bundles[0] / "model.safetensors"))


def test_the_best_model_is_kept_and_a_run_ends_early(folder: Path) -> None:
    told = record_messages()
    done = run(
        folder,
        "early",
        evaluation=[DEV],
        # A rate at which the model gets worse at once: the first evaluation stays the best.
        schedule={"epochs": 50, "evaluate_steps": 1, "learning_rate": 0.5, "warmup": 0},
        output={"early_stopping": 3},
    )
    base, *rows = [row for row in read_log(done.folder / "log.csv") if row["score"]]
    # The base is measured before the first step, and is never the best.
    assert base["step"] == "0" and done.base_scores["sts:pairs"] > max(done.scores.values())
    best = max(rows, key=lambda row: float(row["score"]))
    assert done.steps == int(best["step"]) + 3
    assert any("stopping early" in line for line in told)
    assert Manifest.read(done.bundles[0]).training["best_step"] == int(best["step"])


def test_a_mixed_run_of_several_sets(folder: Path) -> None:
    entries = [runs.table(folder, objective=name)["data"][0] for name in ("cosent", "softmax")]
    entries[1]["weight"] = 0.5
    done = run(folder, "mixed", data=entries, schedule={"epochs": 1, "batch_tokens": 128})
    assert done.steps > 6


def test_frozen_weights_do_not_move(folder: Path) -> None:
    done = run(
        folder, "frozen", schedule={"epochs": 1, "freeze": ["embeddings", "encoder.layer.0"]}
    )
    before, after = (
        weights(path / "model.safetensors") for path in (folder / "base", done.bundles[0])
    )
    moved = {name for name in after if not np.array_equal(before[name], after[name])}
    assert moved
    assert all(name.startswith("encoder.layer.1") for name in moved)
    with pytest.raises(OptionError, match="they start with embeddings, encoder"):
        run(folder, "unfrozen", schedule={"freeze": ["layers"]})


def test_a_share_of_the_base_is_mixed_in(folder: Path) -> None:
    # Saved in between, which must not move what is being trained.
    output = {"checkpoint_steps": 2, "precision": ["float32"]}
    whole, mixed = (
        weights(run(folder, out, output=output, base_share=share).bundles[0] / "model.safetensors")
        for out, share in (("unmixed", 0.0), ("mixed-in", 0.25))
    )
    before = weights(folder / "base" / "model.safetensors")
    for name, value in mixed.items():
        expected = 0.75 * whole[name] + 0.25 * before[name]
        np.testing.assert_allclose(value, expected, atol=1e-6)
    with pytest.raises(OptionError, match="base_share is 1.0"):
        run(folder, "nothing", base_share=1.0)


def test_a_loss_that_is_no_number_stops_the_run(folder: Path) -> None:
    with pytest.raises(DataError, match="the loss became nan"):
        run(folder, "nan", schedule={"learning_rate": 1e30, "epochs": 20, "clip": 0})


def test_a_dimension_that_the_model_has_not(folder: Path) -> None:
    with pytest.raises(OptionError, match="the model's own dimension 32"):
        run(folder, "wide", matryoshka=[64, 32])


def test_a_base_that_cannot_be_trained(folder: Path, bundle: Path) -> None:
    with pytest.raises(BundleError, match="no attention whose weights"):
        run(folder, "none", base=str(bundle))
    with pytest.raises(BundleNotFound, match="no folder nowhere"):
        run(folder, "none", base="nowhere")
    with pytest.raises(BundleNotFound, match="pip install no-such-package"):
        run(folder, "none", base="package:no_such_package/model")
    data = json.loads((bundle / "malmoi.json").read_text())
    del data["checksum"]  # as whoever changes a manifest by hand does
    (bundle / "malmoi.json").write_text(json.dumps(data | {"kind": "reranker", "files": {}}))
    with pytest.raises(BundleError, match="of kind 'reranker'"):
        run(folder, "none", base=str(bundle))
    assert not (folder / "none").exists()


def test_a_missing_file_names_the_data_root(folder: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*gone\.tsv.*--data"):
        run(folder, "none", evaluation=[DEV | {"file": "gone.tsv"}])


def test_the_plot_is_drawn_when_matplotlib_is_there(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    done = run(folder, "plot", evaluation=[DEV])
    assert (done.folder / "training.png").stat().st_size > 1000
    assert draw_log(done.folder / "log.csv", tmp_path / "again.png")


def test_a_machine_that_dies_of_bfloat16_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    monkeypatch.setattr("malmoi.training.loop._PROBE", dies)
    with pytest.raises(OptionError, match="kills the process on this machine"):
        run(folder, "dies", schedule={"bf16": True})


def test_bfloat16_trains_in_a_process_of_its_own(folder: Path) -> None:
    # Some virtual machines promise matrix instructions that they do not have; without them here.
    code = (
        "import sys; from pathlib import Path; from tests.support import runs;"
        "from malmoi.training.recipe import make_recipe; from malmoi.training.run import train;"
        "table = runs.table(Path(sys.argv[1]), schedule={'bf16': True, 'steps': 4},"
        " output={'folder': sys.argv[1] + '/bf16'});"
        "print(train(make_recipe(table), data=sys.argv[1]).steps)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(folder)],
        cwd=ROOT,  # where the package `tests` is
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "4\n", done.stderr


def test_the_command_prints_bundle_and_scores(folder: Path, run: Any, run_here: Any) -> None:
    lines = [
        'name = "tiny"',
        f"base = {json.dumps(str(folder / 'base'))}",
        'objective = "cosent"',
        "[[data]]",
        'files = ["pairs.tsv"]',
        'columns = { a = "a", b = "b", score = "score" }',
        "range = [0, 5]",
        "[output]",
        'folder = "out"',
    ]
    recipe = folder / "recipe.toml"
    recipe.write_text("\n".join(lines), "utf-8")
    done = run("train", recipe, "--data", folder, "--set", "schedule.steps=2", "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"bundle": "out/bundle", "steps": 2}
    assert "training 0.0 million weights on 48 examples" in done.stderr
    wrong = run_here("train", recipe, "--data", folder, "--set", "schedule.epoch=2")
    assert wrong.returncode == 1
    assert wrong.stderr.count("\n") == 1
    assert "Did you mean schedule.epochs" in wrong.stderr


def test_layers_keep_the_first_ones_of_an_encoder(folder: Path) -> None:
    done = run(folder, "one-layer", layers=1, schedule={"epochs": 1}, dropout=0.0)
    kept = weights(done.folder / "best/model.safetensors")
    assert {name.split(".")[2] for name in kept if name.startswith("encoder.layer.")} == {"0"}
    config = json.loads((done.folder / "bundle/config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == 1
    assert malmoi.load(done.bundles[0]).encode("배가 아프다").shape == (32,)


def test_more_layers_than_there_are_is_told(folder: Path) -> None:
    with pytest.raises(OptionError, match="layers is 9; .* has 2. Choose a number from 1 to 2"):
        run(folder, "nine-layers", layers=9)
    assert not (folder / "nine-layers").exists()


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A recipe for the command line, with an evaluation whose pairs are all the same."""
    runs.prepare(tmp_path)
    same = [f"the ship left\tthe harbour\t{score}" for score in (0, 1, 2, 3, 4, 5)]
    (tmp_path / "dev.tsv").write_text("\n".join(["a\tb\tscore", *same]) + "\n", "utf-8")
    made = runs.table(tmp_path, evaluation=[{"task": "sts", "file": "dev.tsv"}])
    (tmp_path / "recipe.toml").write_text(to_toml(made), "utf-8")
    return tmp_path


def test_an_undefined_score_is_null_and_told(command: Path, run_here: Any) -> None:
    done = run_here("train", command / "recipe.toml", "--data", command, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sts:dev"] is None and "NaN" not in done.stdout
    assert "sts:dev is undefined: the model gives every example the same" in done.stderr
    assert "NaN" not in (command / "run/bundle/malmoi.json").read_text("utf-8")


def test_an_undefined_score_chooses_no_model(folder: Path, monkeypatch: Any) -> None:
    found = iter([0.9, float("nan"), 0.25, float("nan"), 0.5, 0.25, float("nan")])
    monkeypatch.setattr("malmoi.training.data.Measure.__call__", lambda *_: next(found))
    made = runs.table(folder, evaluation=[DEV], schedule={"epochs": 6, "steps": 36})
    made["output"] = {"folder": str(folder / "undefined")}
    assert train(make_recipe(made), data=folder, threads=1).scores == {"sts:pairs": 0.5}
    state = sorted((folder / "undefined/checkpoints").glob("*/state.json"))[-1]
    assert json.loads(state.read_text("utf-8"))["best_step"] == 24


def test_ctrl_c_says_what_is_left_and_how_to_continue(command: Path, run_here: Any) -> None:
    from malmoi.training import loop

    def stop(*args: object) -> float:
        raise KeyboardInterrupt

    args = ("-q", "train", command / "recipe.toml", "--data", command, "--threads", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "check_loss", stop)
        done = run_here(*args)
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr == "malmoi: stopped before anything was saved; nothing was left behind\n"
    sets = ("--set", "output.checkpoint_steps=2")
    with pytest.MonkeyPatch.context() as patch:
        real = loop.check_loss
        patch.setattr(loop, "check_loss", lambda x, n: real(x, n) if n < 4 else stop())
        done = run_here(*args, *sets)
    assert done.returncode == 130
    assert done.stderr == (
        f"malmoi: stopped; {command / 'run'} holds the run so far. Continue with the same command "
        "and --resume\n"
    )
    assert run_here(*args, *sets, "--resume").returncode == 0


def test_under_torchrun_the_first_process_reports(command: Path, run_here: Any) -> None:
    args = ("train", command / "recipe.toml", "--data", command / "none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "_PATIENCE", 0.01)
        patched: list[float] = []
        patch.setattr(cli.time, "sleep", patched.append)
        first = run_here(*args)
        assert (first.returncode, patched) == (1, [])
        patch.setenv("LOCAL_RANK", "1")
        patch.setenv("RANK", "1")
        assert run_here(*args).returncode == 1
        assert patched == [0.01]  # torchrun ends it while it waits
