"""Biases that are taken into others: fewer of them, the same numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from malmoi.export import rewrite_float as kernels
from malmoi.export.constants import Constants
from malmoi.export.export import export
from malmoi.export.rewrite_float import fold_biases
from tests.support.tiny import tiny_transformer

WIDTH = 8


def biases(bundle: Path) -> int:
    """Count the sums of a bundle's graph that have a constant side."""
    graph = onnx.load(bundle / "onnx" / "model.onnx").graph
    constants = {tensor.name for tensor in graph.initializer}
    sums = [node for node in graph.node if node.op_type in ("Add", "FastGelu")]
    return sum(bool(constants.intersection(node.input)) for node in sums)


# ALBERT's layers share their weights, and its embedding has a projection with a bias.
@pytest.mark.parametrize(("architecture", "before", "after"), [("bert", 10, 6), ("albert", 11, 7)])
def test_two_biases_a_layer_vanish(
    architecture: str, before: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_transformer(tmp_path / "source", architecture)
    export(source, tmp_path / "folded")
    monkeypatch.setattr(kernels, "fold_biases", lambda graph, constants: None)
    export(source, tmp_path / "unfolded")
    assert (biases(tmp_path / "unfolded"), biases(tmp_path / "folded")) == (before, after)


def feed_forward(*, outputs: list[str]) -> onnx.ModelProto:
    """Normalisation, product, bias and GELU, product, then the residual with another bias."""
    random = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)

    vectors = [constant(name, WIDTH) for name in ("scale", "shift", "bias_out")]
    weights = [constant("in", WIDTH, 16), constant("out", 16, WIDTH), constant("bias_in", 16)]
    ours = {"domain": "com.microsoft"}
    last = ["y", "states", "scale", "shift", "bias_out"]
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["states"]),
        helper.make_node("MatMul", ["states", "in"], ["h"]),
        helper.make_node("BiasGelu", ["h", "bias_in"], ["active"], **ours),
        helper.make_node("MatMul", ["active", "out"], ["y"]),
        helper.make_node("SkipLayerNormalization", last, ["found"], epsilon=1e-5, **ours),
    ]
    shape = [1, 3, WIDTH]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs]
    first = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "ffn", first, given, vectors + weights)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def fold(model: onnx.ModelProto) -> int:
    """Fold in place; gives how many inputs the last normalisation has then."""
    graph = model.graph
    fold_biases(graph, Constants(graph, Path()))
    return len(graph.node[-1].input)


def test_the_last_bias_goes_into_the_normalisation_before() -> None:
    model = feed_forward(outputs=["found"])
    compute = running(model)
    assert fold(model) == 4
    states = np.random.default_rng(1).normal(size=(1, 3, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(running(model)(states), compute(states), atol=1e-5)


def test_states_that_are_given_out_stay_as_they_are() -> None:
    assert fold(feed_forward(outputs=["found", "states"])) == 5


def running(model: onnx.ModelProto) -> Callable[[np.ndarray], np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda states: session.run(["found"], {"x": states})[0]
