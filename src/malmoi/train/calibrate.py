"""Fixed ranges for an 8-bit graph's activations, measured on real sentences.

Ranges found anew for each batch make a text's vector depend on the texts beside it: two runs of
the same sentence differed by as much as 0.03 in cosine. Fixed ones cost nothing in quality, and
a text has one vector.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ..tokens import Batch, Tokens
from .activations import watch
from .rounding import Range, least_loss, scale_and_zero


def calibration_texts() -> list[str]:
    """The sentences that ranges are measured on: Korean, English and mixed, short and long."""
    return (files(__package__) / "calibration.txt").read_text("utf-8").splitlines()


def calibration_batches(tokens: Tokens) -> list[Batch]:
    """The same sentences as a tokenizer's batches."""
    return list(tokens.batches(tokens.cut(calibration_texts())[0]))


def fix_ranges(model: onnx.ModelProto, graph: Path, batches: Sequence[Batch]) -> None:
    """Replace the ranges that an 8-bit model finds while running by fixed ones, in place.

    `graph` is the float32 graph it was made from; its activations on the batches set the ranges.
    """
    nodes = [node for node in model.graph.node if node.op_type == "DynamicQuantizeLinear"]
    names = list(dict.fromkeys(node.input[0] for node in nodes))
    costs = _costs(onnx.load(graph), names)
    ranges = {}
    for name, flow in watch(graph, names, batches).items():
        cost = costs.get(name)
        if cost is None or len(cost) != flow.rows.shape[1]:
            cost = np.ones(flow.rows.shape[1])
        ranges[name] = least_loss(flow.rows, (flow.low, flow.high), cost)
    for node in nodes:
        _fix(model.graph, node, ranges[node.input[0]])


def _costs(model: onnx.ModelProto, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Say what an error in a tensor's column costs: its squared weights in what multiplies it."""
    constants = {one.name: one for one in model.graph.initializer}
    costs: dict[str, np.ndarray] = {}
    for node in model.graph.node:
        if len(node.input) > 1 and node.input[0] in names and node.input[1] in constants:
            weights = numpy_helper.to_array(constants[node.input[1]])
            if node.op_type in ("MatMul", "Attention") and weights.ndim == 2:
                cost = np.square(weights).sum(axis=1)
                costs[node.input[0]] = costs.get(node.input[0], 0) + cost
    return costs


def _fix(graph: onnx.GraphProto, node: onnx.NodeProto, limits: Range) -> None:
    """Make the node quantise with a constant scale and zero point, under the same names."""
    scale, zero = scale_and_zero(limits)
    _, scale_name, zero_name = node.output
    graph.initializer.append(numpy_helper.from_array(scale, scale_name))
    graph.initializer.append(numpy_helper.from_array(zero, zero_name))
    node.op_type = "QuantizeLinear"
    node.input.extend([scale_name, zero_name])
    del node.output[1:]
