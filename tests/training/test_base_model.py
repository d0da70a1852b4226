"""What training starts from: whole encoders; anything else is told before a folder is made."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from malmoi.errors import BundleError
from malmoi.training.run import train
from tests.support import runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.prepare_kinds(tmp_path_factory.mktemp("bases"))


def spoilt(folder: Path, out: Path, *lacking: str) -> Path:
    """Copy the base without the weights whose names hold one of `lacking`."""
    shutil.copytree(folder / "base", out)
    weights = load_file(out / "model.safetensors")
    kept = {name: w for name, w in weights.items() if not any(part in name for part in lacking)}
    assert len(kept) < len(weights)
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.mark.parametrize("kind", runs.KINDS)
def test_a_base_without_some_of_its_weights(folder: Path, tmp_path: Path, kind: str) -> None:
    output = {"folder": str(tmp_path / "run")}
    for name, lacking, message in (
        ("layer", "layer.1.", r"lack layer\.1; expected a whole encoder"),
        ("table", "word_embeddings", r"lack (embeddings\.)?word_embeddings"),
        ("one", "layer.1.output.dense.bias", r"lack encoder\.layer\.1\.output\.dense\.bias"),
    ):
        base = str(spoilt(folder, tmp_path / name, lacking))
        with pytest.raises(BundleError, match=message):
            train(runs.recipe(kind, folder, base=base, output=output), data=folder)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", runs.KINDS)
def test_a_base_that_was_cut_short(folder: Path, tmp_path: Path, kind: str) -> None:
    shutil.copytree(folder / "base", tmp_path / "base")
    file = tmp_path / "base/model.safetensors"
    whole, base, output = file.read_bytes(), str(tmp_path / "base"), str(tmp_path / "run")
    for length in (0, 4, 200, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(BundleError, match="cannot be read as safetensors"):
            train(runs.recipe(kind, folder, base=base, output={"folder": output}), data=folder)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", sorted(set(runs.KINDS) - {"reranker"}))
def test_a_cross_encoder_is_a_base_for_rerankers_alone(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    from malmoi.training.objectives.cross_encoder import build_cross_encoder

    build_cross_encoder(folder / "base").save_pretrained(str(tmp_path / "cross"))
    output = {"folder": str(tmp_path / "run")}
    with pytest.raises(BundleError, match="is a cross-encoder; expected an encoder"):
        recipe = runs.recipe(kind, folder, base=str(tmp_path / "cross"), output=output)
        train(recipe, data=folder)


@pytest.mark.parametrize("kind", ["reranker", "note-classification", "pretrain"])
def test_frozen_weights_stay_in_every_kind(folder: Path, tmp_path: Path, kind: str) -> None:
    schedule = {"steps": 2, "learning_rate": 0.01, "freeze": ["embeddings"]}
    output = {"folder": str(tmp_path / "run")}
    train(runs.recipe(kind, folder, schedule=schedule, output=output), data=folder, threads=1)
    saved = load_file(sorted((tmp_path / "run/checkpoints").iterdir())[-1] / "model.safetensors")
    moved = set()
    for name, weight in load_file(folder / "base/model.safetensors").items():
        [found] = [w for other, w in saved.items() if other.endswith(f".{name}")] or [weight]
        if not torch.equal(weight, found):
            moved.add(name.split(".")[0])
    assert moved == {"encoder"}


def test_a_recipe_that_freezes_all_is_told(folder: Path, tmp_path: Path) -> None:
    from malmoi.errors import OptionError

    schedule = {"steps": 2, "freeze": ["embeddings", "encoder"]}
    output = {"folder": str(tmp_path / "run")}
    with pytest.raises(OptionError, match="is all that the model has"):
        train(runs.recipe("encoder", folder, schedule=schedule, output=output), data=folder)
    assert not (tmp_path / "run").exists()
