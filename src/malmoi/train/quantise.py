"""A fused graph → the same graph with 8-bit weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..tokens import Batch
from .calibrate import fix_ranges
from .quiet import quiet
from .small_kernels import choose_small_kernels
from .smoothing import smooth

# Tables of fewer numbers than this (token types) are not worth the rounding.
_SMALLEST_TABLE = 1 << 16


def quantise(path: Path, quantised: Path, batches: Sequence[Batch]) -> None:
    """Write the graph with int8 weights, one scale a column, and int8 embeddings, one a row.

    Activations are rounded to ranges that are measured on the batches and fixed, after columns
    that stand out were evened. Weights take the full range of 8 bits: processors without VNNI let
    a few sums in a million saturate, which on MiniLM's weights costs less than a seventh bit does
    on every processor.
    """
    evened = quantised.with_suffix(".even.onnx")
    try:
        smooth(path, evened, batches)
        _quantise_evened(evened, quantised, batches)
    finally:
        evened.unlink(missing_ok=True)


def _quantise_evened(path: Path, quantised: Path, batches: Sequence[Batch]) -> None:
    with quiet():
        quantize_dynamic(
            path,
            quantised,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT, "MatMulConstBOnly": True},
        )
    model = onnx.load(quantised)
    fix_ranges(model, path, batches)
    _quantise_tables(model)
    choose_small_kernels(model)
    onnx.save(model, quantised)


def _quantise_tables(model: onnx.ModelProto) -> None:
    """Replace each large embedding table by int8 rows and their scales.

    One scale a row, because a rare word's row may be ten times as long as a common one's; the
    quantiser above knows only one scale a table.
    """
    graph = model.graph
    tables = {table.name: table for table in graph.initializer}
    nodes = []
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or not _is_large(table):
            nodes.append(node)
        else:
            nodes += _gather_rows(graph, table, node)
    del graph.node[:]
    graph.node.extend(nodes)


def _is_large(table: onnx.TensorProto) -> bool:
    floats = table.data_type == TensorProto.FLOAT and len(table.dims) == 2
    return floats and int(np.prod(table.dims)) >= _SMALLEST_TABLE


def _gather_rows(
    graph: onnx.GraphProto, table: onnx.TensorProto, node: onnx.NodeProto
) -> list[onnx.NodeProto]:
    name, ids, found = table.name, node.input[1], node.output[0]
    rows = numpy_helper.to_array(table)  # (vocabulary, hidden)
    scales = np.abs(rows).max(axis=1, keepdims=True) / 127
    scales = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)
    small = np.rint(rows / scales).astype(np.int8)
    graph.initializer.remove(table)
    graph.initializer.append(numpy_helper.from_array(small, f"{name}_rows"))
    graph.initializer.append(numpy_helper.from_array(scales, f"{name}_scales"))
    return [
        helper.make_node("Gather", [f"{name}_rows", ids], [f"{found}_small"]),
        helper.make_node("Gather", [f"{name}_scales", ids], [f"{found}_scale"]),
        helper.make_node("Cast", [f"{found}_small"], [f"{found}_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{found}_float", f"{found}_scale"], [found]),
    ]
