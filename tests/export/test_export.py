"""`malmoi model export`: every architecture, judged by sentence-transformers and by torch."""

import json
import logging
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
)
from tokenizers import Tokenizer

from malmoi.bundle.bundle import Manifest, open_bundle
from malmoi.errors import BundleError
from malmoi.export import build as building
from malmoi.export import int8 as quantise
from malmoi.export import rewrite_float as kernels
from malmoi.export.export import export
from malmoi.export.graph import trace
from malmoi.export.module import GraphModule
from malmoi.runtime.tokenizer import Batch, TextTokenizer
from tests.support.logs import record_messages
from tests.support.tiny import ARCHITECTURES, TEXTS, assembled, tiny_transformer, with_dense

Vectors = NDArray[np.float32]
Write = Callable[[str], Path]


def encode(model: SentenceTransformer | Path) -> Vectors:
    """Encode TEXTS in one padded batch."""
    if isinstance(model, Path):
        model = SentenceTransformer(str(model), device="cpu", local_files_only=True)
    vectors: Vectors = model.encode(TEXTS, batch_size=len(TEXTS), show_progress_bar=False)
    return vectors


def batch_of(bundle: Path, texts: list[str]) -> Batch:
    """Tokenise as malmoi's runtime does."""
    tokens = TextTokenizer.from_file(bundle / "tokenizer.json", max_tokens=64)
    return next(tokens.batches(tokens.encode(texts)[0], budget=1 << 20))


def run(bundle: Path, texts: list[str] = TEXTS) -> dict[str, Vectors]:
    """Run the bundle's graph; every output by its name, rows in the order of the texts."""
    session = ort.InferenceSession(bundle / "onnx" / "model.onnx")
    batch = batch_of(bundle, texts)
    feed = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": batch.types}
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {i.name: feed[i.name] for i in session.get_inputs()})
    back = np.argsort(batch.rows)
    return {name: array[back] for name, array in zip(names, found, strict=True)}


def assert_same(ours: Vectors, theirs: Vectors) -> None:
    """Float32 may differ by the order of sums, no more."""
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert ((ours * theirs).sum(axis=1) / lengths).min() >= 0.9999
    assert np.abs(ours - theirs).max() < 1e-5 * max(1.0, np.abs(theirs).max())


def operators(bundle: Path) -> Counter[str]:
    """Count the graph's nodes by kind."""
    return Counter(node.op_type for node in onnx.load(bundle / "onnx" / "model.onnx").graph.node)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_gives_the_original_vectors(
    architecture: str, tiny: Write, tmp_path: Path
) -> None:
    source, out = tiny(architecture), tmp_path / "out"
    manifest = export(source, out, layers="all")
    expected = encode(assembled(source, "mean", Normalize()))
    found = run(out)
    assert_same(found["sentence_embedding"], expected)
    assert_same(encode(out), expected)
    assert (manifest.layers, manifest.dimension, manifest.max_tokens) == (3, 32, 64)
    assert manifest.architecture == architecture
    assert open_bundle(out).manifest == manifest
    assert_hidden_states(source, out, found)
    assert_fused(out)


def assert_hidden_states(source: Path, out: Path, found: dict[str, Vectors]) -> None:
    """Each layer_i is transformers' own hidden state, wherever there is a token."""
    model = transformers.AutoModel.from_pretrained(source).eval()
    batch = batch_of(out, TEXTS)
    ids, mask = torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)
    with torch.inference_mode():
        states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    back = np.argsort(batch.rows)
    used = batch.mask[back].astype(bool)
    assert sorted(found) == [f"layer_{i}" for i in range(3)] + ["sentence_embedding"]
    for i, state in enumerate(states):
        assert_same(found[f"layer_{i}"][used], state.numpy()[back][used])


def assert_fused(out: Path) -> None:
    """Both layers' attention, normalisation and activation are one kernel each."""
    found = operators(out)
    assert found["If"] + found["MultiHeadAttention"] == 2  # with padding and without
    assert found["LayerNormalization"] >= 5
    assert found["Attention"] == found["SkipLayerNormalization"] == 0
    assert found["Gelu"] + found["FastGelu"] == 2
    assert found["Softmax"] == found["Erf"] == 0


def test_rows_of_one_length_need_no_mask(tiny: Write, tmp_path: Path) -> None:
    """Attention without a mask is another kernel: its vectors are those of the masked one."""
    export(tiny("bert"), tmp_path / "out")
    session = ort.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    ids = np.random.default_rng(0).integers(5, 30, (3, 24))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
    [full] = session.run(None, feed)
    padded = {name: np.pad(array, [(0, 0), (0, 7)]) for name, array in feed.items()}
    [masked] = session.run(None, padded)
    assert_same(full, masked)


def test_long_texts_have_the_same_vectors_by_blocks(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tiny("bert"), tmp_path / "usual")
    monkeypatch.setattr(kernels, "_BLOCKS", 4)
    export(tiny("bert"), tmp_path / "blocks")
    ids = np.random.default_rng(0).integers(5, 30, (1, 24))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
    found = []
    for name in ("usual", "blocks"):
        session = ort.InferenceSession(tmp_path / name / "onnx" / "model.onnx")
        found.append(session.run(None, feed)[0])
    assert_same(*found)


def test_fused_and_plain_graphs_agree(tiny: Write, tmp_path: Path) -> None:
    """The comparison is the exporter's own; here is that it can tell a difference."""
    said = record_messages()
    export(tiny("bert"), tmp_path / "fused")
    assert not any("differs" in line for line in said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "fuse", lambda plain, fused, **_: spoil(plain, fused))
        export(tiny("bert"), tmp_path / "plain")
    assert any("differs from torch" in line for line in said)
    assert "If" not in operators(tmp_path / "plain")
    assert_same(
        run(tmp_path / "plain")["sentence_embedding"], run(tmp_path / "fused")["sentence_embedding"]
    )


def spoil(plain: Path, spoilt: Path) -> None:
    """Write a graph with one wrong bias."""
    model = onnx.load(plain)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("output.dense.bias"):
            # Not a constant more: the layer normalisation after it would take that out again.
            wrong = onnx.numpy_helper.to_array(tensor) * np.float32(-3)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wrong, tensor.name))
            break
    onnx.save(model, spoilt)


def test_a_wrong_graph_is_never_written(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trace_wrongly(module: GraphModule, path: Path) -> None:
        trace(module, path)
        spoil(path, path)

    monkeypatch.setattr(building, "trace", trace_wrongly)
    with pytest.raises(BundleError, match=r"differ by 0\.\d+ of the largest value; .* bert"):
        export(tiny("bert"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "pooling", ["cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken", "mean+cls"]
)
def test_poolings(pooling: str, tiny: Write, tmp_path: Path) -> None:
    source, out = tiny("bert"), tmp_path / "out"
    manifest = export(source, out, pooling=pooling, normalize=False)
    theirs = [name.replace("sqrt_len", "sqrt_len_tokens") for name in pooling.split("+")]
    expected = encode(assembled(source, theirs))
    assert_same(run(out)["sentence_embedding"], expected)
    assert_same(encode(out), expected)
    assert (manifest.pooling, manifest.normalize) == (pooling, False)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_a_row_without_tokens_is_finite(pooling: str, tiny: Write, tmp_path: Path) -> None:
    export(tiny("roberta"), tmp_path / "out", pooling=pooling, layers="all")
    session = ort.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    empty = np.zeros((2, 3), dtype=np.int64)
    for array in session.run(None, {"input_ids": empty + 1, "attention_mask": empty}):
        assert np.isfinite(array).all()


def test_batch_and_length_are_free(tiny: Write, tmp_path: Path) -> None:
    export(tiny("xlm-roberta"), tmp_path / "out")
    together = run(tmp_path / "out")["sentence_embedding"]
    for text, vector in zip(TEXTS, together, strict=True):
        assert_same(run(tmp_path / "out", [text])["sentence_embedding"], vector[None])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_int8_is_small_and_near(
    architecture: str, tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantise, "_SMALLEST_TABLE", 512)  # tiny models have tiny tables
    manifest = export(
        tiny(architecture), tmp_path / "out", precision="int8", layers="all", weights=False
    )
    expected = encode(assembled(tiny(architecture), "mean", Normalize()))
    found = run(tmp_path / "out")["sentence_embedding"]
    assert (manifest.precision, manifest.layers) == ("int8", 3)
    assert (found * expected).sum(axis=1).min() > 0.99
    floats = [
        tensor
        for tensor in onnx.load(tmp_path / "out" / "onnx" / "model.onnx").graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2
    ]
    # What stays float: scales, one a row; types; and MPNet's 32 distances by 4 heads.
    assert all(min(tensor.dims) <= 4 for tensor in floats)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_int8_graphs_run_whole_products(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They add their own biases, and a text has one vector, alone, in a batch and padded."""
    monkeypatch.setattr(quantise, "_SMALLEST_TABLE", 512)
    export(tiny("bert"), tmp_path / "out", precision="int8")
    graph = onnx.load(tmp_path / "out" / "onnx" / "model.onnx").graph
    kinds = Counter(node.op_type for node in graph.node)
    assert kinds["MatMulIntegerToFloat"] == 12 and kinds["If"] == 2  # of two layers
    assert not kinds.keys() & {"MatMulInteger", "QAttention", "SkipLayerNormalization", "BiasGelu"}
    assert all(len(n.input) == 7 for n in graph.node if n.op_type == "MatMulIntegerToFloat")
    together = run(tmp_path / "out")["sentence_embedding"]
    for text, vector in zip(TEXTS, together, strict=True):
        assert_same(run(tmp_path / "out", [text])["sentence_embedding"], vector[None])


def test_int8_that_loses_too_much_is_refused(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_ROUNDING", 1e-6)
    with pytest.raises(BundleError, match="--precision float32"):
        export(tiny("bert"), tmp_path / "out", precision="int8")


def test_albert_shares_its_weights(tmp_path: Path) -> None:
    folder = tiny_transformer(tmp_path / "albert", "albert")
    export(folder, tmp_path / "out")
    graph = tmp_path / "out" / "onnx" / "model.onnx"
    assert graph.stat().st_size < 2 * (folder / "model.safetensors").stat().st_size


@pytest.mark.parametrize("keys", ["new", "old"])
def test_sentence_transformers_folders_keep_their_modules(
    keys: str, tiny: Write, tmp_path: Path
) -> None:
    model = with_dense(tmp_path / "model", tiny("electra"))
    pooling = tmp_path / "model" / "1_Pooling" / "config.json"
    assert json.loads(pooling.read_text())["pooling_mode"] == "cls"
    if keys == "old":
        old = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}
        pooling.write_text(json.dumps(old))
    manifest = export(tmp_path / "model", tmp_path / "out", licence="Apache-2.0")
    assert (manifest.pooling, manifest.normalize, manifest.dimension) == ("cls", True, 12)
    assert (manifest.prompts, manifest.licence) == ({"query": "찾기: "}, "Apache-2.0")
    assert_same(run(tmp_path / "out")["sentence_embedding"], encode(model))
    assert_same(encode(tmp_path / "out"), encode(model))
    written = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert written["pooling_mode_cls_token"] and "pooling_mode" not in written


def test_pooling_overrides_the_folder_s(tiny: Write, tmp_path: Path) -> None:
    assembled(tiny("bert"), "cls").save_pretrained(str(tmp_path / "model"))
    manifest = export(tmp_path / "model", tmp_path / "out", pooling="max", normalize=True)
    expected = encode(assembled(tiny("bert"), "max", Normalize()))
    assert (manifest.pooling, manifest.normalize) == ("max", True)
    assert_same(encode(tmp_path / "out"), expected)
    assert_same(run(tmp_path / "out")["sentence_embedding"], expected)


def test_a_model_in_memory(tiny: Write, tmp_path: Path) -> None:
    model = with_dense(tmp_path / "model", tiny("distilbert"))
    manifest = export(
        model,
        tmp_path / "out",
        name="mine",
        clean=("surrogates", "compose"),
        training={"loss": "none"},
        scores={"sts": 0.5},
        matryoshka=(4, 8),
    )
    assert (manifest.name, manifest.clean) == ("mine", ("surrogates", "compose"))
    assert (manifest.training, manifest.scores) == ({"loss": "none"}, {"sts": 0.5})
    assert manifest.matryoshka == (4, 8)
    assert_same(encode(tmp_path / "out"), encode(model))


def test_an_older_layout_with_lower_case(tiny: Write, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(tiny("roberta"), old / "0_Transformer")
    (old / "1_Pooling").mkdir()
    (old / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    )
    settings = {"max_seq_length": 16, "do_lower_case": True}
    (old / "0_Transformer" / "sentence_bert_config.json").write_text(json.dumps(settings))
    modules = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    (old / "modules.json").write_text(json.dumps(rows))
    manifest = export(old, tmp_path / "out")
    assert (manifest.max_tokens, manifest.clean[-1]) == (16, "lower")
    assert_same(encode(tmp_path / "out"), encode(old))


def test_a_bundle_exported_again_keeps_its_story(tiny: Write, tmp_path: Path) -> None:
    first = export(
        tiny("bert"), tmp_path / "a", licence="MIT", training={"data": "none"}, scores={"sts": 0.5}
    )
    again = export(tmp_path / "a", tmp_path / "b", precision="int8")
    drift = again.training.pop("int8")
    assert drift["mean_cosine"] >= drift["least_cosine"] > 0.99
    assert (again.licence, again.training) == (first.licence, first.training)
    assert (again.precision, again.scores) == ("int8", {})


def test_the_tokenizer_is_read_alike_everywhere(tiny: Write, tmp_path: Path) -> None:
    """transformers 5 rebuilds a BertTokenizer and loses the NFC step; the bundle must not."""
    source = tmp_path / "source"
    shutil.copytree(tiny("bert"), source)
    path = source / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"tokenizer_class": "BertTokenizer"}
    path.write_text(json.dumps(config))
    texts = ["배가 아파서", *TEXTS]
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    truth = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert transformers.AutoTokenizer.from_pretrained(source)(texts)["input_ids"] != truth
    said = record_messages(logging.DEBUG)
    export(source, tmp_path / "out")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out")(texts)["input_ids"] == truth
    assert any("tokenizer.json" in line for line in said)
    assert_same(encode(tmp_path / "out"), encode(assembled(tiny("bert"), "mean", Normalize())))


def test_a_fixed_padding_is_not_kept(tiny: Write, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny("bert"), source)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_padding(length=48)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(source / "tokenizer.json"))
    export(source, tmp_path / "out")
    written = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert written.truncation is None
    assert written.padding is not None and written.padding["length"] is None
    assert_same(encode(tmp_path / "out"), encode(assembled(tiny("bert"), "mean", Normalize())))


def test_a_vocabulary_alone_is_a_tokenizer(tiny: Write, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny("bert"), source)
    words = Tokenizer.from_file(str(source / "tokenizer.json")).get_vocab()
    (source / "vocab.txt").write_text("\n".join(sorted(words, key=words.__getitem__)), "utf-8")
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    export(source, tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert_same(run(tmp_path / "out")["sentence_embedding"], encode(tmp_path / "out"))


def test_export_says_one_line_a_stage_and_nothing_else(
    tiny: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A command that ran before in this process has left its handler, which writes to stderr.
    monkeypatch.setattr(logging.getLogger("malmoi"), "handlers", [])
    said = record_messages(logging.DEBUG)
    source = tiny("roberta")
    capfd.readouterr()  # what making the model has written
    export(source, tmp_path / "out", precision="int8")
    assert capfd.readouterr() == ("", "")
    assert [line.split()[0] for line in said] == [
        "reading",
        "writing",
        "rounding",
        "8",
        "writing",
        "wrote",
    ]


def test_weights_and_files_can_be_read_by_others(tiny: Write, tmp_path: Path) -> None:
    export(tiny("bert"), tmp_path / "out")
    assert (tmp_path / "out/onnx/model.onnx").is_file()
    for path in (tmp_path / "out").rglob("*"):
        assert path.stat().st_mode & 0o044 == 0o044
    Manifest.read(tmp_path / "out").verify(tmp_path / "out")


def test_importing_the_exporter_does_not_load_torch() -> None:
    code = "import sys, malmoi.export.export, malmoi.cli.model; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_model_on_the_hub(
    tiny: Write, tmp_path: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny("bert")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: str(source))
    done = run_here("model", "export", "someone/model", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert_same(encode(tmp_path / "out"), encode(assembled(source, "mean", Normalize())))
