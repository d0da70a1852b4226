"""Bundles and foreign folders: what opens, what is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

import malmoi
from malmoi.bundle.bundle import GRAPH, find_model, open_bundle, outside_files
from malmoi.errors import BundleCorrupt, BundleError, BundleNotFound, OptionError
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
    with pytest.raises(
        BundleError, match=f"has only torch weights.*malmoi model export {folder} OUT"
    ):
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
    with pytest.raises(BundleError, match="is of kind 'reranker'; expected encoder"):
        malmoi.load(folder, kind="encoder")


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
    with pytest.raises(malmoi.errors.OfflineError, match="could not be fetched from the hub"):
        malmoi.load("nobody/nothing")


MIXED = ["배를 타고 바다", "the cat sleeps", "당뇨", "unknown 말"]


def states(texts: list[str] = MIXED) -> list[np.ndarray]:
    """The tiny graph's token states, computed without any of malmoi's runtime."""
    table, tokenizer = graphs.embedding_table(), graphs.tiny_tokenizer()
    return [table[tokenizer.encode(text).ids] for text in texts]


def unit_rows(rows: list[np.ndarray]) -> np.ndarray:
    vectors = np.stack(rows)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a graph of token states and no modules.json."""
    made = graphs.write_foreign(tmp_path / "model", steps=("pool", "normalize"))
    (made / "modules.json").unlink()
    return made


def write_config(folder: Path, **fields: object) -> None:
    config = {"model_type": "bert", "hidden_size": graphs.DIM, "vocab_size": len(graphs.WORDS)}
    (folder / "config.json").write_text(json.dumps(config | fields))


def test_pooling_comes_from_a_file_or_an_option(folder: Path) -> None:
    means = unit_rows([rows.mean(axis=0) for rows in states()])
    np.testing.assert_allclose(malmoi.load(folder).encode(MIXED), means, atol=1e-6)
    shutil.rmtree(folder / "1_Pooling")
    with pytest.raises(BundleError, match=r'does not say how .* malmoi.load\(path, pooling="mean"'):
        malmoi.load(folder)
    found = malmoi.load(folder, pooling="cls").encode(MIXED)
    np.testing.assert_allclose(found, unit_rows([rows[0] for rows in states()]), atol=1e-6)
    with pytest.raises(OptionError, match="pooling is 'average'; known are cls"):
        malmoi.load(folder, pooling="average")
    graphs.write_graph(folder / "onnx/model.onnx", pooled=True)  # says it itself
    np.testing.assert_allclose(malmoi.load(folder).encode(MIXED), means, atol=1e-6)


def test_an_option_does_not_overrule_what_a_folder_says(tmp_path: Path) -> None:
    foreign = graphs.write_foreign(tmp_path / "st", steps=("pool",))
    with pytest.raises(OptionError, match="says that it pools by mean, and pooling is 'cls'"):
        malmoi.load(foreign, pooling="cls")
    bundle = graphs.write_bundle(tmp_path / "bundle")
    with pytest.raises(OptionError, match=r"is a bundle with the graph onnx/model\.onnx"):
        malmoi.load(bundle, graph="model_int8")


def test_a_graph_is_chosen_by_name(folder: Path) -> None:
    graphs.write_graph(folder / "onnx/model_quantized.onnx", pooled=True)
    assert malmoi.load(folder)._output == "token_embeddings"
    for name in ("model_quantized", "model_quantized.onnx", "onnx/model_quantized.onnx"):
        assert malmoi.load(folder, graph=name).manifest.graph == "onnx/model_quantized.onnx"
    with pytest.raises(OptionError, match="graph is 'fp16'; .* has onnx/model.onnx, onnx/model_q"):
        malmoi.load(folder, graph="fp16")
    named = malmoi.load(folder / "onnx/model_quantized.onnx")  # as the command line can
    assert (named.manifest.graph, named.name) == ("onnx/model_quantized.onnx", "model")


def test_the_command_line_names_a_graph(
    folder: Path, run_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bundles have one graph, which the option leaves alone."""
    monkeypatch.setenv(GRAPH, "")
    graphs.write_graph(folder / "onnx/model_quantized.onnx", pooled=True)
    found = run_here("--graph", "model_quantized", "model", "info", folder)
    assert found.returncode == 0 and "model_quantized" in os.environ[GRAPH]
    assert malmoi.load(folder).manifest.graph == "onnx/model_quantized.onnx"
    assert malmoi.load(folder, graph="model").manifest.graph == "onnx/model.onnx"
    assert malmoi.load(graphs.write_bundle(folder.parent / "bundle")).dimension == graphs.DIM
    assert run_here("--graph", "model_q4", "model", "info", folder).returncode == 1


def test_weights_next_to_a_graph(folder: Path) -> None:
    path = folder / "onnx/model.onnx"
    expected = malmoi.load(folder).encode(MIXED)
    model = onnx.load(path)
    options = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 0}
    onnx.save(model, path, **options)
    np.testing.assert_array_equal(malmoi.load(folder).encode(MIXED), expected)
    (folder / "onnx/model.onnx_data").rename(folder / "onnx/elsewhere")
    with pytest.raises(BundleCorrupt, match="weights in model.onnx_data, which is missing"):
        malmoi.load(folder)
    data = path.read_bytes()
    assert data.count(b"model.onnx_data") == 1
    path.write_bytes(data.replace(b"model.onnx_data", b"../onnx/elsewhe"))
    with pytest.raises(BundleCorrupt, match=r"reads its weights from '\.\./onnx/elsewhe'"):
        malmoi.load(folder)
    far = "../" * 70 + "weights"  # its length takes two bytes
    entry = onnx.StringStringEntryProto(key="location", value=far).SerializeToString()
    (folder / "far.onnx").write_bytes(entry)
    assert outside_files(folder / "far.onnx") == [far]


def write_decoder(path: Path) -> None:
    """Token and position rows added up, as float16; its past is an input that it ignores."""
    table = numpy_helper.from_array(graphs.embedding_table().astype(np.float16), "table")
    places = numpy_helper.from_array(np.eye(20, graphs.DIM, dtype=np.float16), "places")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Gather", ["places", "position_ids"], ["at"]),
        helper.make_node("Add", ["rows", "at"], ["hidden"]),
        helper.make_node("Shape", ["past_key_values.0.key"], ["length"]),
    ]
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT32, ["n", "length"])
        for name in ("input_ids", "position_ids")
    ]
    past = ["n", 2, "past", 4]
    ids.append(helper.make_tensor_value_info("past_key_values.0.key", TensorProto.FLOAT16, past))
    out = [
        helper.make_tensor_value_info("hidden", TensorProto.FLOAT16, ["n", "length", graphs.DIM]),
        helper.make_tensor_value_info("length", TensorProto.INT64, [4]),
    ]
    graph = helper.make_graph(nodes, "decoder", ids, out, [table, places])
    sets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)


@pytest.mark.parametrize(("architecture", "first"), [("qwen3", 0), ("xlm-roberta", 1)])
def test_positions_half_precision_and_an_empty_past(
    folder: Path, architecture: str, first: int
) -> None:
    """RoBERTa counts positions from its padding on, which has the id 0 here."""
    write_decoder(folder / "onnx/model.onnx")
    write_config(folder, model_type=architecture)
    places = np.eye(20, graphs.DIM)
    rows = [one + places[first : first + len(one)] for one in states()]
    found = malmoi.load(folder, pooling="mean").encode(MIXED)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, unit_rows([one.mean(axis=0) for one in rows]), atol=2e-3)


def test_an_input_that_is_not_known_is_named(folder: Path) -> None:
    model = onnx.load(folder / "onnx/model.onnx")
    value = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3])
    model.graph.input.append(value)
    onnx.save(model, folder / "onnx/model.onnx")
    with pytest.raises(BundleError, match="asks for the inputs pixel_values; known are input_ids"):
        malmoi.load(folder)


def test_a_reranker_and_a_classifier(folder: Path) -> None:
    graphs.write_score_graph(folder / "onnx/model.onnx", outputs=1)
    head = {"architectures": ["XLMRobertaForSequenceClassification"]}
    write_config(folder, **head, id2label={"0": "LABEL_0"})
    bundle = graphs.write_reranker(folder.parent / "bundle")
    pairs = [("배를 타고", "the cat"), ("당뇨", "당뇨")]
    scores = malmoi.load(folder).score(pairs)
    np.testing.assert_allclose(scores, malmoi.load(bundle).score(pairs), atol=1e-6)
    graphs.write_score_graph(folder / "onnx/model.onnx", outputs=3)
    write_config(folder, **head, id2label={"0": "가", "1": "나", "2": "다"})
    with pytest.raises(BundleError, match="is of kind 'classifier'; expected reranker"):
        malmoi.load(folder, kind="reranker")
    decided = malmoi.load(folder).classify("배를 타고 바다")
    logits = graphs.embedding_table(dim=3)[graphs.tiny_tokenizer().encode("배를 타고 바다").ids]
    shares = np.exp(logits.sum(axis=0)) / np.exp(logits.sum(axis=0)).sum()
    assert list(decided.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-5)
    write_config(folder, **head, problem_type="multi_label_classification")
    with pytest.raises(BundleError, match="problem_type multi_label_classification"):
        malmoi.load(folder)


def test_a_tagger_whose_labels_stand_elsewhere(folder: Path) -> None:
    table = graphs.embedding_table(dim=3)
    node = helper.make_node("Gather", ["table", "input_ids"], ["logits"])
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "length"])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", "length", 3])
    rows = [numpy_helper.from_array(table, "table")]
    graph = helper.make_graph([node], "tags", [ids], [out], rows)
    sets = [helper.make_opsetid("", 17)]
    path = folder / "onnx/model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
    labels = {"0": "DIS-B", "1": "O", "2": "PER-B"}
    write_config(folder, architectures=["BertForTokenClassification"], id2label=labels)
    tagger = malmoi.load(folder)
    assert (tagger.labels, tagger.unit) == (("O", "B-DIS", "B-PER"), "word")
    text = "배를 타고 바다 the cat sleeps 당뇨"
    likely = table[graphs.tiny_tokenizer().encode(text).ids[1:-1]].argmax(axis=1)
    expected = [
        (word, ["DIS", "", "PER"][label])
        for word, label in zip(text.split(), likely, strict=True)
        if label != 1
    ]
    assert [(one.text, one.type) for one in tagger.tag(text)] == expected and expected


def test_a_head_that_is_not_known(folder: Path) -> None:
    write_config(folder, architectures=["BertForMultipleChoice"])
    with pytest.raises(BundleError, match="names the class BertForMultipleChoice"):
        malmoi.load(folder)


def on_the_hub(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> list[Any]:
    """Let the hub have these files; gives the patterns that are asked for."""
    asked: list[Any] = []

    def fetch(name: str, *, allow_patterns: list[str] | None = None) -> str:
        asked.append(allow_patterns)
        return str(folder)

    found = SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])
    monkeypatch.setattr(huggingface_hub, "model_info", lambda name: found)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    return asked


def test_the_hub_is_asked_for_one_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        "model.onnx",
        "model_fp16.onnx",
        "model_fp16.onnx_data",
        "Constant_7",
        "model.onnx_data",
    ]
    files = ["config.json", "pytorch_model.bin", *(f"onnx/{name}" for name in names)]
    asked = on_the_hub(monkeypatch, folder, *files)
    malmoi.load("someone/model")
    assert [one for one in asked[0] if one.startswith("onnx/")] == [
        "onnx/model.onnx",
        "onnx/Constant_7",
        "onnx/model.onnx_data",
    ]
    with pytest.raises(OptionError, match="graph is 'model_q4'; someone/model has onnx/model.onnx"):
        malmoi.load("someone/model", graph="model_q4")
    shutil.copy(folder / "onnx/model.onnx", folder / "onnx/model_fp16.onnx")
    malmoi.load("someone/model", graph="model_fp16")
    wanted = ["onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data", "onnx/Constant_7"]
    assert asked[1][-3:] == wanted


def test_a_bundle_on_the_hub_is_fetched_whole(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that its manifest lists must be there."""
    asked = on_the_hub(monkeypatch, bundle, "malmoi.json", "onnx/model.onnx", "README.md")
    assert malmoi.load("someone/model").encode("배").ndim == 1
    assert asked == [None]


def test_torch_weights_on_the_hub_are_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_the_hub(monkeypatch, folder, "config.json", "model.safetensors")
    with pytest.raises(BundleError, match="malmoi model export someone/model OUT"):
        malmoi.load("someone/model")
    assert find_model("someone/model", weights=True) == folder
    assert asked and "*.safetensors" in asked[0]


def test_a_model_that_was_fetched_before_opens_without_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(name: str) -> str:
        raise ConnectionError("no route")

    def kept(name: str, **options: object) -> str:
        assert options == {"local_files_only": True}
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "model_info", refused)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", kept)
    assert malmoi.load("someone/model").encode("배").ndim == 1
    assert "someone/model is used as it was fetched before" in caplog.text


def test_the_command_line_names_the_pooling(
    folder: Path, tmp_path: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / "1_Pooling")
    (tmp_path / "texts.txt").write_text("배를 타고\n", "utf-8")
    command = ("encode", tmp_path / "texts.txt", "--model", folder)
    failed = run_here(*command)
    assert failed.returncode == 1 and "malmoi --pooling" in failed.stderr
    monkeypatch.setenv("MALMOI_POOLING", "mean")  # the command sets it for its process
    done = run_here("--pooling", "cls", *command)
    expected = malmoi.load(folder, pooling="cls").encode("배를 타고")
    np.testing.assert_allclose(json.loads(done.stdout)["vector"], expected, atol=1e-5)
