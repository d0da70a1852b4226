"""Columns that are far larger than their neighbours, made smaller before rounding to 8 bits.

One scale serves a whole tensor of activations. In BERT's feed-forward layers one column in a
thousand is ten times as large as the rest, which are then rounded to a handful of values. So the
columns are divided by factors and the rows of the matrix multiplied by them (SmoothQuant): the
product stays, and both sides round well. The division is one more operator, so it is made only
where it halves the error.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..tokens import Batch
from .activations import Flow, watch
from .kernels import drop_unused
from .rounding import EVENED, FACTORS, narrower, round_values, round_weights

_ROWS = 384  # enough to tell the factors apart
_WORTH = 0.5  # of the error may remain


def smooth(path: Path, smoothed: Path, batches: Sequence[Batch]) -> None:
    """Write the graph with products whose large columns are evened out where that pays."""
    model = onnx.load(path)
    constants = {one.name: one for one in model.graph.initializer}
    products = [
        node
        for node in model.graph.node
        if node.op_type == "MatMul"
        and node.input[1] in constants
        and node.input[0] not in constants
    ]
    flows = watch(path, list(dict.fromkeys(node.input[0] for node in products)), batches)
    for node in products:
        weights = numpy_helper.to_array(constants[node.input[1]])
        factors = choose_factors(flows[node.input[0]], weights)
        if factors is not None:
            _divide(model.graph, node, weights, factors)
    drop_unused(model.graph)
    onnx.save(model, smoothed)


def choose_factors(flow: Flow, weights: np.ndarray) -> np.ndarray | None:
    """Give each column's factor so that rounding costs least, or None if none is worth it."""
    rows = flow.rows[:_ROWS]
    if not rows.size or weights.ndim != 2:
        return None
    exact = rows @ weights

    def loss(factors: np.ndarray) -> float:
        small, large = rows / factors, round_weights(weights * factors[:, None])
        limits = (min(0.0, float(small.min())), max(0.0, float(small.max())))
        return min(
            float(np.square(round_values(small, tried) @ large - exact).sum())
            for tried in narrower(limits, (1.0, 0.8))
        )

    tried = list(_candidates(np.abs(rows).max(axis=0), np.abs(weights).max(axis=1)))
    losses = [loss(factors) for factors in tried]
    best = int(np.argmin(losses))
    plain = loss(np.ones(rows.shape[1], np.float32))
    return tried[best] if losses[best] < _WORTH * plain else None


def _candidates(columns: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield factors that share a column's size with its weights, or only cut the largest."""
    tiny = np.float32(1e-6)
    columns, rows = np.maximum(columns, tiny), np.maximum(rows, tiny)
    for share in (0.7, 0.85):
        yield columns**share / rows ** (1 - share)
    for share in (0.1, 0.2, 0.3):
        yield np.maximum(columns / (columns.max() * share), 1).astype(np.float32)


def _divide(
    graph: onnx.GraphProto, node: onnx.NodeProto, weights: np.ndarray, factors: np.ndarray
) -> None:
    """Put the division before the product, and the factors into its matrix."""
    name = node.name or node.output[0]
    evened = (weights * factors[:, None]).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(evened, name + EVENED))
    factor = numpy_helper.from_array((1 / factors).astype(np.float32), name + FACTORS)
    graph.initializer.append(factor)
    at = next(place for place, other in enumerate(graph.node) if other is node)
    graph.node.insert(
        at,
        helper.make_node(
            "Mul", [node.input[0], name + FACTORS], [f"{name}_even"], name=f"{name}_even"
        ),
    )
    node.input[0], node.input[1] = f"{name}_even", name + EVENED
