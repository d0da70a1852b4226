"""Training that survives: killed, interrupted, short of disk; the same weights come out."""

import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import malmoi.training.checkpoint
from malmoi.errors import OptionError, OutputError
from malmoi.training.checkpoint import clear_partial
from malmoi.training.recipe import make_recipe
from malmoi.training.run import TrainedRun, train
from tests.support import runs
from tests.support.logs import record_messages

LONG = {"epochs": 15, "batch_size": 8, "learning_rate": 1e-3}  # 90 steps
OFTEN = {"checkpoint_steps": 7, "early_stopping": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.prepare(tmp_path_factory.mktemp("resume"))


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    """A run that nothing disturbed."""
    return run(folder, "whole").folder


def run(
    folder: Path,
    out: str,
    *,
    resume: bool = False,
    **changes: object,
) -> TrainedRun:
    table = runs.table(folder, objective="softmax", schedule=LONG, **changes)
    table["output"] = OFTEN | {"folder": str(folder / out)}
    return train(make_recipe(table), data=folder, resume=resume, threads=1)


def start(folder: Path, out: str) -> "subprocess.Popen[str]":
    """The same run in a process of its own."""
    table = runs.table(folder, objective="softmax", schedule=LONG)
    table["output"] = OFTEN | {"folder": str(folder / out)}
    (folder / f"{out}.json").write_text(json.dumps(table), "utf-8")
    code = (
        "import json, logging, sys; from malmoi.training.run import train;"
        "logging.basicConfig(level='INFO');"
        "from malmoi.training.recipe import make_recipe;"
        "train(make_recipe(json.load(open(sys.argv[1]))), data='.', threads=1)"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, f"{out}.json"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoint(folder: Path, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not any((folder / "checkpoints").glob("step-*/state.json")):
        assert process.poll() is None, "the run ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def assert_same(one: Path, two: Path) -> None:
    """Bit for bit: the encoder, its heads, the optimizer, the exported bundle's weights."""
    for name in ("model", "optimizer"):
        files = [
            sorted(run.glob("checkpoints/*"))[-1] / f"{name}.safetensors" for run in (one, two)
        ]
        left, right = (load_file(file) for file in files)
        assert left.keys() == right.keys()
        assert [key for key in left if not torch.equal(left[key], right[key])] == []
    parts = [run / "bundle/model.safetensors" for run in (one, two)]
    assert parts[0].read_bytes() == parts[1].read_bytes()


@pytest.fixture(scope="module")
def stopped(folder: Path) -> dict[str, tuple[int, str]]:
    """Two runs at once, stopped after their first checkpoint: return code and stderr of each."""

    def stop(out: str, by: signal.Signals) -> tuple[int, str]:
        process = start(folder, out)
        wait_for_checkpoint(folder / out, process)
        time.sleep(0.02)  # into the steps after the checkpoint
        process.send_signal(by)
        _, told = process.communicate(timeout=60)
        return process.returncode, told

    signals = {"killed": signal.SIGKILL, "stopped": signal.SIGINT}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(signals, pool.map(stop, signals, signals.values()), strict=True))


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(
    folder: Path, whole: Path, stopped: dict[str, tuple[int, str]]
) -> None:
    assert stopped["killed"][0] == -signal.SIGKILL
    assert not (folder / "killed/bundle").exists()
    done = run(folder, "killed", resume=True)
    assert done.steps == 90
    assert_same(whole, done.folder)
    steps = [line.split(",")[0] for line in (done.folder / "log.csv").read_text().splitlines()]
    assert steps == ["step", *(str(i) for i in range(1, 91))]


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(
    folder: Path, stopped: dict[str, tuple[int, str]]
) -> None:
    code, told = stopped["stopped"]
    assert code != 0
    assert "--resume" in told
    newest = sorted(folder.glob("stopped/checkpoints/*"))[-1]
    state = json.loads((newest / "state.json").read_text())
    assert f"stopped at step {state['step']}" in told


def test_a_full_disk_keeps_the_checkpoint_before(
    folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def full(tensors: dict[str, torch.Tensor], path: Path) -> None:
        nonlocal count
        count += 1
        if count > 2:  # the first checkpoint has two files
            path.write_bytes(b"half")
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        save_file(tensors, path)

    monkeypatch.setattr(malmoi.training.checkpoint, "save_file", full)
    with pytest.raises(OutputError, match="disk is full"):
        run(folder, "full")
    assert [path.name for path in folder.glob("full/checkpoints/*")] == ["step-00000007"]
    monkeypatch.undo()
    assert_same(whole, run(folder, "full", resume=True).folder)


def test_a_damaged_checkpoint_is_passed_over(folder: Path, whole: Path) -> None:
    copy = folder / "copy"
    shutil.copytree(whole, copy)
    newest = sorted((copy / "checkpoints").iterdir())[-1]
    weights = bytearray((newest / "model.safetensors").read_bytes())
    weights[-3] ^= 1  # a single bit of a weight
    (newest / "model.safetensors").write_bytes(weights)
    told = record_messages()
    done = run(folder, "copy", resume=True)
    assert any("trying the one before" in line for line in told)
    assert_same(whole, done.folder)


def test_checkpoints_are_kept_by_number(whole: Path) -> None:
    names = [path.name for path in sorted((whole / "checkpoints").iterdir())]
    assert names == ["step-00000084", "step-00000090"]
    assert not list(whole.rglob("*.part"))


def test_a_kill_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    for name in (".best.abc.old", ".best.abc.part", ".bundle.x.part"):
        (tmp_path / name).mkdir()
    (tmp_path / ".best.abc.old/kept").touch()
    clear_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert (tmp_path / "best/kept").exists()


def test_a_run_does_not_write_over_another(folder: Path, whole: Path) -> None:
    with pytest.raises(OutputError, match="--resume"):
        run(folder, "whole")
    with pytest.raises(OptionError, match="differs from the recipe in seed"):
        run(folder, "whole", resume=True, seed=2)
