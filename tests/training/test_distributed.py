"""Two processes under torchrun train as one does with the doubled batch."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from malmoi.training.recipe import make_recipe
from malmoi.training.run import train
from tests.support import runs


def recipe(folder: Path, out: str, batch_size: int) -> dict[str, object]:
    """Every kind of loss at once: by row, by order, in-batch negatives, a head."""
    entries = []
    for objective in ("cosine", "cosent", "contrastive", "softmax"):
        entries += runs.table(folder, objective=objective)["data"]
    return runs.table(
        folder,
        data=entries,
        dropout=0.0,
        matryoshka=[32, 16],
        schedule={"epochs": 1, "batch_size": batch_size, "learning_rate": 1e-4},
        output={"folder": str(folder / out)},
    )


def losses(run: Path) -> list[float]:
    with (run / "log.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def test_two_processes_equal_one_with_the_doubled_batch(tmp_path: Path) -> None:
    # 45 rows leave a last batch of 13, so that the two processes have unequal shares.
    runs.prepare(tmp_path, rows=45)
    alone = train(make_recipe(recipe(tmp_path, "one", 16)), data=tmp_path, threads=1)
    lines = runs.as_toml(recipe(tmp_path, "two", 8))
    (tmp_path / "recipe.toml").write_text(lines, "utf-8")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "-m", "malmoi", "train", "recipe.toml"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MALMOI_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == len(two) == 12
    assert one == pytest.approx(two, rel=1e-3)
    left, right = (load_file(tmp_path / run / "best/model.safetensors") for run in ("one", "two"))
    for name, weight in left.items():
        torch.testing.assert_close(weight, right[name], atol=1e-4, rtol=1e-3)
    assert json.loads(done.stdout)["steps"] == alone.steps  # one process prints, not two
