"""A bundle's graph → torch weights: what ships as 8 bits can be trained on."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

import malmoi
from malmoi.bundle.bundle import find_model
from malmoi.errors import BundleError
from malmoi.export.export import export
from malmoi.export.weights_from_graph import read_weights
from malmoi.training.data import find_trainable
from malmoi.training.recipe import make_recipe
from malmoi.training.run import train
from tests.support import runs, tiny
from tests.support.graphs import Run
from tests.support.tiny import TEXTS


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_weights_in_a_graph_are_the_model_s(
    tmp_path: Path, architecture: str, precision: str
) -> None:
    tiny.tiny_transformer(tmp_path / "base", architecture)
    export(tmp_path / "base", tmp_path / "bundle", precision=precision, weights=False)
    expected = load_file(tmp_path / "base" / "model.safetensors")
    found = read_weights(tmp_path / "bundle" / "onnx/model.onnx")
    kept = {name for name in expected if not name.startswith("pooler.") and "_ids" not in name}
    if architecture != "bert":  # a table of zeros' row alone is folded into the graph
        kept = {name for name in kept if "token_type" not in name}
    assert kept <= set(found)
    if precision == "float32":  # its graph has no bias of keys, which a softmax takes out
        zeros = {name for name in kept if name.endswith("key.bias")}
        assert zeros and not any(found[name].any() for name in zeros)
        kept -= zeros
    for name in kept:
        scale = np.abs(expected[name]).max()
        bound = 1e-6 if precision == "float32" else scale / 60
        if precision == "int8" and name.endswith(".bias"):  # holds what rounding took on average
            bound = max(bound, 0.05)
        assert np.abs(found[name] - expected[name]).max() <= bound, name


def test_training_starts_from_an_int8_bundle(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    export(tmp_path / "base", tmp_path / "bundle", precision="int8", weights=False)
    before = malmoi.load(tmp_path / "bundle").encode(["배가 아파서 병원에 갔다", "the ship"])
    table = runs.table(tmp_path, schedule={"epochs": 1, "learning_rate": 1e-9})
    table["base"] = str(tmp_path / "bundle")
    done = train(make_recipe(table), data=tmp_path, threads=1)
    after = malmoi.load(done.bundles[0]).encode(["배가 아파서 병원에 갔다", "the ship"])
    assert (before * after).sum(axis=1).min() > 0.99


def test_the_shipped_encoder_can_be_trained_on() -> None:
    folder = find_trainable("ko-en-small")
    weights = load_file(folder / "model.safetensors")
    assert weights["embeddings.word_embeddings.weight"].shape[1] == 384
    assert sum(name.endswith("query.weight") for name in weights) == 6


def test_a_graph_without_attention(tmp_path: Path) -> None:
    from tests.support import graphs

    bundle = graphs.write_bundle(tmp_path / "tiny")
    with pytest.raises(BundleError, match="no attention"):
        find_trainable(str(bundle))
    (bundle / "onnx/model.onnx").write_bytes(b"no graph")
    with pytest.raises(BundleError, match="cannot be read as ONNX"):
        read_weights(bundle / "onnx/model.onnx")


def test_a_bundle_gets_torch_weights_from_its_graph(run_here: Run, tmp_path: Path) -> None:
    """The shipped encoder, which has none, opens in sentence-transformers with the same vectors."""
    done = run_here("model", "export", find_model(None), tmp_path / "out", "--torch")
    assert done.returncode == 0, done.stderr
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    ours = malmoi.load(tmp_path / "out")
    expected = ours.encode(TEXTS, prompt="")
    found = theirs.encode(TEXTS, prompt="", show_progress_bar=False)
    assert (found * expected).sum(axis=1).min() > 0.99  # 8-bit activations are the difference
    refused = run_here(
        "model", "export", tmp_path / "out", tmp_path / "b", "--torch", "--name", "x"
    )
    assert refused.returncode == 2
