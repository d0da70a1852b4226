"""Fixed ranges for an 8-bit graph's activations, measured on real sentences.

Ranges found anew for each batch make a text's vector depend on the texts beside it: two runs of
the same sentence differed by as much as 0.03 in cosine. Fixed ones cost nothing in quality, and
a text has one vector.
"""

import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..session import Session
from ..tokens import Batch, Tokens

Range = tuple[float, float]


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
    ranges = _measure(graph, names, batches)
    for node in nodes:
        _fix(model.graph, node, ranges[node.input[0]])


def _measure(graph: Path, names: list[str], batches: Sequence[Batch]) -> dict[str, Range]:
    """Run the float32 graph and keep the least and the greatest value of each named tensor."""
    model = onnx.load(graph)
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    ranges = dict.fromkeys(names, (0.0, 0.0))  # a range must hold 0, which padding is
    with tempfile.TemporaryDirectory(prefix="malmoi-ranges-") as scratch:
        onnx.save(model, Path(scratch) / "open.onnx")
        session = Session(Path(scratch) / "open.onnx")
        for batch in batches:
            real = batch.mask.astype(bool)
            for name, values in zip(names, session.run(batch, names), strict=True):
                kept = values[real] if values.shape[:2] == real.shape else values
                low, high = ranges[name]
                ranges[name] = (min(low, float(kept.min())), max(high, float(kept.max())))
    return ranges


def _fix(graph: onnx.GraphProto, node: onnx.NodeProto, limits: Range) -> None:
    """Make the node quantise with a constant scale and zero point, under the same names."""
    low, high = limits
    scale = np.array(max(high - low, 1e-6) / 255, dtype=np.float32)
    zero = np.array(np.clip(np.rint(-low / scale), 0, 255), dtype=np.uint8)
    _, scale_name, zero_name = node.output
    graph.initializer.append(numpy_helper.from_array(scale, scale_name))
    graph.initializer.append(numpy_helper.from_array(zero, zero_name))
    node.op_type = "QuantizeLinear"
    node.input.extend([scale_name, zero_name])
    del node.output[1:]
