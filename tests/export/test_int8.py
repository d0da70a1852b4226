"""Rounding to 8 bits: ranges that cost least, and columns that are evened before it."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from malmoi.export.int8 import (
    Flow,
    choose_factors,
    least_loss,
    round_values,
    round_weights,
    smooth,
    watch,
)
from malmoi.runtime.session import Session
from malmoi.runtime.tokenizer import Batch

WIDTH = 16


@pytest.fixture
def rows() -> np.ndarray:
    """Activations of which one column is fifty times as large as the rest."""
    found = np.random.default_rng(1).normal(size=(300, WIDTH)).astype(np.float32)
    found[:, 3] *= 50
    return found


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(WIDTH, 8)).astype(np.float32)


def flow(rows: np.ndarray) -> Flow:
    return Flow(min(0.0, float(rows.min())), max(0.0, float(rows.max())), rows)


def test_one_far_value_is_cut_off() -> None:
    rows = np.random.default_rng(3).normal(size=(20_000, WIDTH)).astype(np.float32)
    rows[0, 0] = 12
    cost = np.ones(WIDTH)
    low, high = least_loss(rows, (float(rows.min()), 12.0), cost)
    assert high < 12
    wide = np.square(round_values(rows, (float(rows.min()), 12.0)) - rows).sum()
    assert np.square(round_values(rows, (low, high)) - rows).sum() < wide


def test_a_far_value_that_matters_is_kept() -> None:
    rows = np.random.default_rng(3).normal(size=(200, WIDTH)).astype(np.float32)
    rows[:, 0] = 40
    cost = np.ones(WIDTH)
    cost[0] = 1e6
    assert least_loss(rows, (float(rows.min()), 40.0), cost)[1] == 40


def test_a_large_column_is_evened_out(rows: np.ndarray, weights: np.ndarray) -> None:
    factors = choose_factors(flow(rows), weights)
    assert factors is not None
    assert factors[3] > 5 * np.median(factors)
    exact = rows @ weights

    def error(by: np.ndarray) -> float:
        small = rows / by
        limits = (float(small.min()), float(small.max()))
        rounded = round_values(small, limits) @ round_weights(weights * by[:, None])
        return float(np.square(rounded - exact).sum())

    assert error(factors) < 0.3 * error(np.ones(WIDTH, np.float32))


def test_even_columns_are_left_alone(weights: np.ndarray) -> None:
    rows = np.random.default_rng(4).uniform(-1, 1, size=(300, WIDTH)).astype(np.float32)
    assert choose_factors(flow(rows), weights) is None


def test_smoothing_keeps_the_product(rows: np.ndarray, weights: np.ndarray, tmp_path: Path) -> None:
    batches = write_graph(tmp_path / "plain.onnx", rows, weights)
    smooth(tmp_path / "plain.onnx", tmp_path / "even.onnx", batches)
    even = onnx.load(tmp_path / "even.onnx")
    assert [node.op_type for node in even.graph.node] == ["Gather", "Mul", "MatMul"]
    assert "weights" not in {one.name for one in even.graph.initializer}
    for batch in batches:
        plain = Session(tmp_path / "plain.onnx").run(batch, ["out"])[0]
        assert np.allclose(
            Session(tmp_path / "even.onnx").run(batch, ["out"])[0], plain, rtol=1e-4, atol=1e-3
        )


def test_padding_is_not_watched(rows: np.ndarray, weights: np.ndarray, tmp_path: Path) -> None:
    rows[0] = 1000  # the row of padding
    batches = write_graph(tmp_path / "plain.onnx", rows, weights)
    seen = watch(tmp_path / "plain.onnx", ["rows"], batches)["rows"]
    assert seen.high < 1000
    assert seen.rows.shape[1] == WIDTH


def test_a_vector_as_long_as_the_batch_is_no_padding(rows: np.ndarray, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["pooled"], axes=[1], keepdims=0),
    ]
    names = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["n", "length"]) for n in names]
    output = helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["n", WIDTH])
    table = numpy_helper.from_array(rows, "table")
    graph = helper.make_graph(nodes, "g", inputs, [output], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "pooled.onnx")
    ids = np.arange(2 * WIDTH).reshape(2, WIDTH)
    mask = np.ones_like(ids)
    mask[1, -1] = 0
    batch = Batch(np.arange(2), ids, mask, np.zeros_like(ids))
    seen = watch(tmp_path / "pooled.onnx", ["pooled"], [batch])["pooled"]
    assert seen.rows.shape == (2, WIDTH)


def write_graph(path: Path, rows: np.ndarray, weights: np.ndarray) -> list[Batch]:
    """A graph that looks rows up and multiplies them, and two batches for it."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], name="look"),
        helper.make_node("MatMul", ["rows", "weights"], ["out"], name="product"),
    ]
    shape = ["batch", "length"]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [*shape, 8])],
        [numpy_helper.from_array(rows, "table"), numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    ids = np.random.default_rng(5).integers(1, len(rows), size=(20, 6))
    mask = np.ones_like(ids)
    ids[:, 4:] = 0
    mask[:, 4:] = 0
    halves = (slice(0, 10), slice(10, 20))
    return [Batch(np.arange(10), ids[h], mask[h], np.zeros_like(ids[h])) for h in halves]
