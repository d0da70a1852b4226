"""Graphs for other devices: float16, and float32 with fused kernels; compared like the others."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

import malmoi
from malmoi.errors import BundleError
from malmoi.export import build as building
from malmoi.export.export import export
from malmoi.export.weights_from_graph import export_torch
from tests.support.tiny import TEXTS, assembled, headed, tiny_transformer

Write = Callable[[str], Path]

pytestmark = [
    pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]


@pytest.mark.parametrize("architecture", ["bert", "mpnet", "modernbert", "t5"])
def test_vectors_are_those_of_sentence_transformers(
    architecture: str, tiny: Write, tmp_path: Path
) -> None:
    """On a processor, onnxruntime puts casts around what it has no kernel for."""
    source = tiny(architecture)
    manifest = export(source, tmp_path / "out", precision="float16", layers="all")
    assert (manifest.precision, manifest.layers) == ("float16", 3)
    model = assembled(source, "mean", Normalize())
    expected = model.encode(TEXTS, batch_size=len(TEXTS), show_progress_bar=False)
    encoder: Any = malmoi.load(tmp_path / "out")
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert (found * expected).sum(axis=1).min() > 0.9999
    graph = onnx.load(tmp_path / "out/onnx/model.onnx").graph
    assert {one.type.tensor_type.elem_type for one in graph.output} == {TensorProto.FLOAT}
    assert {one.type.tensor_type.elem_type for one in graph.input} == {TensorProto.INT64}
    large = [one for one in graph.initializer if np.prod(one.dims) > 500]
    halves = [one for one in large if one.data_type == TensorProto.FLOAT16]
    # T5's second feed-forward matrix overflows in float16, so transformers keeps it in float32.
    assert large and len(large) - len(halves) == (2 if architecture == "t5" else 0)


def test_a_long_text_is_pooled_in_float32(tmp_path: Path) -> None:
    """The sum of its states is more than 65,504, which is all that float16 holds."""
    source = tiny_transformer(tmp_path / "source", "bert")
    tensors = load_file(source / "model.safetensors")
    tensors["encoder.layer.1.output.LayerNorm.bias"] = torch.full((32,), 3000.0)
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    export(source, tmp_path / "out", precision="float16", normalize=False)
    found = malmoi.load(tmp_path / "out").encode(" ".join(TEXTS * 4))
    assert np.abs(found).mean() == pytest.approx(3000, rel=0.01)


def test_values_that_float16_cannot_hold_are_refused(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_transformer(tmp_path / "source", "bert")
    tensors = load_file(source / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("output.dense.weight"):
            tensors[name] = tensor * 1e6
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    with pytest.raises(BundleError, match=r"differ by inf .* too large for float16.*float32"):
        export(source, tmp_path / "out", precision="float16")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(building, "_HALF_COSINE", 1.1)
    with pytest.raises(BundleError, match=r"float16 leaves .* a cosine of 1\.0000"):
        export(tiny("bert"), tmp_path / "out", precision="float16")


def test_torch_weights_are_made_from_a_graph_in_float16(tiny: Write, tmp_path: Path) -> None:
    export(tiny("bert"), tmp_path / "half", precision="float16", weights=False)
    export_torch(tmp_path / "half", tmp_path / "torch")
    again = SentenceTransformer(str(tmp_path / "torch"), device="cpu", local_files_only=True)
    found = again.encode(TEXTS, show_progress_bar=False)
    expected = malmoi.load(tmp_path / "half").encode(TEXTS)
    assert (found * expected).sum(axis=1).min() > 0.9999


def test_a_reranker_in_float16(tmp_path: Path) -> None:
    pairs = [(TEXTS[0], text) for text in TEXTS]
    source = headed(tmp_path / "cross", "SequenceClassification", ["relevant"])
    export(source, tmp_path / "whole")
    export(source, tmp_path / "half", precision="float16")
    whole, half = (malmoi.load(tmp_path / name) for name in ("whole", "half"))
    np.testing.assert_allclose(half.score(pairs), whole.score(pairs), atol=1e-2)


def test_a_graph_for_another_device_keeps_the_fused_kernels(
    tiny: Write, tmp_path: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device need not be usable where the graph is made, and the comparison is done without."""
    monkeypatch.setenv("MALMOI_DEVICE", "cpu")  # the command sets it for its process
    done = run_here("--device", "openvino", "model", "export", tiny("bert"), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = Counter(node.op_type for node in onnx.load(tmp_path / "out/onnx/model.onnx").graph.node)
    assert (found["Attention"], found["If"]) == (2, 0)
    expected = assembled(tiny("bert"), "mean", Normalize()).encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(
        malmoi.load(tmp_path / "out", device="cpu").encode(TEXTS), expected, atol=1e-5
    )


def test_info_names_the_precision(tiny: Write, tmp_path: Path, run_here: Any) -> None:
    done = run_here("model", "export", tiny("bert"), tmp_path / "out", "--precision", "float16")
    assert done.returncode == 0
    assert "float16" in run_here("model", "info", tmp_path / "out").stdout
