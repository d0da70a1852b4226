"""Opening folders: bundles, sentence-transformers folders of both generations, and no models."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import malmoi
from malmoi.bundle.bundle import open_bundle
from malmoi.errors import BundleCorrupt, BundleError, BundleNotFound
from tests.support import graphs

TEXTS = ["배를 타고 바다", "the cat sleeps", "당뇨", "unknown 말", ""]


def expected(pooling: str) -> np.ndarray:
    """What the tiny graph's vectors are, computed without any of malmoi's runtime."""
    table, tokenizer = graphs.embedding_table(), graphs.tiny_tokenizer()
    rows = []
    for text in TEXTS:
        states = table[tokenizer.encode(text).ids]
        rows.append({"mean": states.mean(0), "max": states.max(0), "cls": states[0]}[pooling])
    return np.stack(rows)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("keys", ["old", "new"])
def test_foreign_folders_of_both_generations(tmp_path: Path, pooling: str, keys: str) -> None:
    folder = graphs.write_foreign(tmp_path / "st", pooling=pooling, steps=("pool", "normalize"))
    if keys == "new":
        config = {"embedding_dimension": 16, "pooling_mode": pooling, "include_prompt": True}
        (folder / "1_Pooling/config.json").write_text(json.dumps(config))
        modules = json.loads((folder / "modules.json").read_text())
        homes = ("base.modules.transformer", "sentence_transformer.modules.pooling", "base.modules")
        for module, home in zip(modules, homes, strict=True):
            kind = module["type"].rsplit(".", 1)[-1]
            module["type"] = f"sentence_transformers.{home}.{kind}"
        (folder / "modules.json").write_text(json.dumps(modules[::-1]))  # the order is in idx
    vectors = malmoi.load(folder).encode(TEXTS)
    np.testing.assert_allclose(vectors, unit(expected(pooling)), atol=1e-6)


def test_a_folder_without_normalize_keeps_lengths(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    np.testing.assert_allclose(malmoi.load(folder).encode(TEXTS), expected("mean"), atol=1e-6)


@pytest.mark.parametrize("order", [("pool", "dense", "normalize"), ("pool", "normalize", "dense")])
def test_dense_modules_stand_where_the_folder_says(tmp_path: Path, order: tuple[str, ...]) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=order)
    place = folder / f"{order.index('dense') + 1}_Dense"
    generator = np.random.default_rng(2)
    weight = generator.standard_normal((6, 16)).astype(np.float32)
    bias = generator.standard_normal(6).astype(np.float32)
    tensors = {"linear.weight": weight, "linear.bias": bias}
    safetensors.numpy.save_file(tensors, place / "model.safetensors")
    config = {"activation_function": "torch.nn.modules.activation.Tanh", "out_features": 6}
    (place / "config.json").write_text(json.dumps(config))
    vectors = expected("mean")
    if order[1] == "normalize":
        vectors = unit(vectors)
    vectors = np.tanh(vectors @ weight.T + bias)
    if order[2] == "normalize":
        vectors = unit(vectors)
    encoder = malmoi.load(folder)
    assert encoder.dimension == 6
    np.testing.assert_allclose(encoder.encode(TEXTS), vectors, atol=1e-5)


def test_a_module_that_is_not_known_is_named(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "path": "2_LSTM", "type": "sentence_transformers.models.LSTM"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BundleError, match="has a module 'LSTM'; known are Transformer"):
        open_bundle(folder)


def test_two_poolings_are_refused(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool", "pool"))
    with pytest.raises(BundleError, match="has 2 Pooling modules; expected one"):
        open_bundle(folder)


def test_an_unknown_pooling_of_a_foreign_folder_is_named(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "attention"}')
    with pytest.raises(BundleError, match='says pooling "attention"; known are'):
        open_bundle(folder)


def test_torch_weights_alone_name_the_command(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    (folder / "onnx/model.onnx").unlink()
    with pytest.raises(BundleError, match="neither an ONNX graph nor weights"):
        open_bundle(folder)
    (folder / "model.safetensors").touch()
    with pytest.raises(BundleError, match=f"has only torch weights.*malmoi export {folder} OUT"):
        open_bundle(folder)


def test_a_lone_graph_is_found_wherever_it_is(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    (folder / "onnx/model.onnx").rename(folder / "onnx/model_qint8.onnx")
    assert open_bundle(folder).manifest.graph == "onnx/model_qint8.onnx"
    shutil.copy(folder / "onnx/model_qint8.onnx", folder / "onnx/model_O2.onnx")
    with pytest.raises(BundleError, match="has the graphs onnx/model_O2.onnx, onnx/model_qint8"):
        open_bundle(folder)


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(BundleNotFound, match="there is no folder .*; expected a model"):
        open_bundle(tmp_path / "none")
    with pytest.raises(BundleError, match="is no model: it has neither malmoi.json nor modules"):
        open_bundle(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BundleError, match="a transformer without a pooling.*--pooling mean"):
        open_bundle(tmp_path)
    with pytest.raises(BundleError, match="is a file; expected a model folder"):
        open_bundle(tmp_path / "config.json")


def test_a_model_of_another_kind_names_its_opener(tmp_path: Path) -> None:
    folder = graphs.write_bundle(tmp_path / "r", kind="reranker")
    with pytest.raises(BundleError, match="is of kind 'reranker'.*malmoi.load_reranker"):
        malmoi.load(folder)


def test_a_graph_cut_in_half(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))  # no hashes to find it first
    graph = folder / "onnx/model.onnx"
    graph.write_bytes(graph.read_bytes()[: graph.stat().st_size // 2])
    with pytest.raises(BundleCorrupt, match="cannot be opened as an ONNX graph"):
        malmoi.load(folder)


def test_a_tokenizer_that_does_not_fit_the_graph(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    words = [*graphs.WORDS, "하나", "더"]
    graphs.tiny_tokenizer(words).save(str(folder / "tokenizer.json"))
    with pytest.raises(BundleError, match="has 33 tokens and its graph embeds 31"):
        malmoi.load(folder)
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": 99}
    (folder / "config.json").write_text(json.dumps(config))  # a config that does not tell
    with pytest.raises(BundleError, match="failed on a batch of 1 text with ids up to 32"):
        malmoi.load(folder).encode("더")


def test_a_tokenizer_that_is_none(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(BundleCorrupt, match="cannot be read as a tokenizer"):
        malmoi.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(BundleError, match=r"has no tokenizer.json"):
        malmoi.load(folder)


def test_a_graph_of_another_width_than_the_manifest_says(tmp_path: Path) -> None:
    folder = graphs.write_bundle(tmp_path / "b", dimension=99)
    with pytest.raises(BundleError, match="gives 16 dimensions and malmoi.json says 99"):
        malmoi.load(folder)


def test_models_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import malmoi.bundle.bundle as catalog

    monkeypatch.setattr(catalog, "SHIPPED", tmp_path)
    with pytest.raises(BundleNotFound, match="the model ko-en-small is not in this installation"):
        malmoi.load()
    graphs.write_bundle(tmp_path / "ko-en-small")
    assert malmoi.load().name == malmoi.load("ko-en-small").name == "tiny"
    with pytest.raises(BundleNotFound, match="shipped are: ko-en-small"):
        malmoi.load("ko-en-tiny")


def test_a_hub_id_without_network_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    import huggingface_hub

    def refused(*args: object, **options: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "model_info", refused)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refused)
    with pytest.raises(malmoi.OfflineError, match="could not be fetched from the hub"):
        malmoi.load("nobody/nothing")
