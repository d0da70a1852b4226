"""A fused graph → the same graph with 8-bit weights and fixed ranges of its activations.

Ranges are measured on real sentences (`watch`) and chosen so that rounding costs least. Ranges
found again for each batch would make a text's vector depend on the texts next to it: two runs of
the same sentence differed by as much as 0.03 in cosine. Fixed ones cost nothing in quality, and
a text has one vector.

Columns that are far larger than their neighbours are made smaller first (`smooth`): one scale
serves a whole tensor of activations, and in BERT's feed-forward layers one column in a thousand is
ten times as large as the rest, which would be rounded to a handful of values. So the columns are
divided by factors and the rows of the matrix multiplied by them (SmoothQuant): the product stays,
and both sides round well. The division is one more operator, so it is made only where it halves
the error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..runtime.session import Session
from ..runtime.tokenizer import Batch, PairTokenizer, TextTokenizer
from .constants import Constants, load_graph, save_graph
from .graph import neighbours
from .rewrite_float import drop_unused
from .rewrite_int8 import (
    Range,
    add_back,
    is_product,
    rewrite_int8,
    round_columns,
    scale_and_zero,
    split_gemms,
)
from .weights_from_graph import EVENED, FACTORS

# Shares of the range that are tried: a few far values are worth cutting off when every other
# value is then rounded more finely.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


def round_values(values: np.ndarray, limits: Range) -> np.ndarray:
    """Round to the 256 values that span the range; what lies outside becomes its end."""
    scale, zero = scale_and_zero(limits)
    offset = np.float32(zero)
    rounded: np.ndarray = (np.clip(np.rint(values / scale) + offset, 0, 255) - offset) * scale
    return rounded


def round_weights(weights: np.ndarray) -> np.ndarray:
    """Round a matrix to 8 bits with one scale a column."""
    whole, scales = round_columns(weights)
    rounded: np.ndarray = whole * scales
    return rounded


def narrower(limits: Range, shares: tuple[float, ...] = SHARES) -> Iterator[Range]:
    """The range, and those cut at either end."""
    low, high = limits
    for lower in shares if low else (1.0,):
        for upper in shares if high else (1.0,):
            yield low * lower, high * upper


def least_loss(rows: np.ndarray, limits: Range, weights: np.ndarray) -> Range:
    """Choose the range whose rounding changes a product with the weights least.

    `weights` holds what an error in each column costs: the squared length of its row in the
    matrix that the rows are multiplied by.
    """

    def loss(tried: Range) -> float:
        return float(np.square(round_values(rows, tried) - rows).sum(axis=0) @ weights)

    return min(narrower(limits), key=loss)


_CAPTURED_ROWS = 1024  # of a tensor are kept; more say nothing new of its columns


@dataclass(frozen=True)
class Flow:
    """The extremes of a tensor, and a sample of its rows (one a token)."""

    low: float
    high: float
    rows: np.ndarray


def watch(graph: Path, names: Sequence[str], batches: Sequence[Batch]) -> dict[str, Flow]:
    """Run the graph over the batches and say what the named tensors held, padding left out."""
    seen: dict[str, list[np.ndarray]] = {name: [] for name in names}
    lows = dict.fromkeys(names, 0.0)  # a range must hold 0, which padding is
    highs = dict.fromkeys(names, 0.0)
    share = _CAPTURED_ROWS / max(sum(int(batch.mask.sum()) for batch in batches), 1)
    random = np.random.default_rng(0)
    opened = graph.with_suffix(".open.onnx")
    model = load_graph(graph)
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    save_graph(model, opened)
    try:
        session = Session(opened, device="cpu")
        for batch in batches:
            real = batch.mask.astype(bool)
            for name, values in zip(names, session.run(batch, names), strict=True):
                # A text's vector may be as long as the batch; only (n, length, …) has padding.
                tokens = values.ndim > 2 and values.shape[:2] == real.shape
                rows = values[real] if tokens else values
                rows = rows.reshape(-1, rows.shape[-1])
                lows[name] = min(lows[name], float(rows.min()))
                highs[name] = max(highs[name], float(rows.max()))
                seen[name].append(rows[random.random(len(rows)) < share])
    finally:
        opened.unlink()
    return {name: Flow(lows[name], highs[name], np.concatenate(seen[name])) for name in names}


def calibration_texts() -> list[str]:
    """The sentences that ranges are measured on: Korean, English and mixed, short and long."""
    return (files(__package__) / "calibration.txt").read_text("utf-8").splitlines()


def calibration_batches(tokens: TextTokenizer, *, pairs: bool = False) -> list[Batch]:
    """The same sentences as a tokenizer's batches, in pairs if the model reads pairs."""
    texts = calibration_texts()
    if pairs:
        return list(tokens.batches(PairTokenizer(tokens).encode(neighbours(texts))[0]))
    return list(tokens.batches(tokens.encode(texts)[0]))


def find_ranges(
    graph: Path, model: onnx.ModelProto, constants: Constants, batches: Sequence[Batch]
) -> tuple[dict[str, Range], dict[str, np.ndarray]]:
    """Give the range of each tensor that is multiplied by weights, measured on the batches.

    Besides, by the name of the weights, what rounding takes from each column of the product on
    average. `model` is the graph at `graph`, with the same names.
    """
    costs: dict[str, np.ndarray] = {}  # what an error in a column costs: its squared weights
    weights: dict[str, list[str]] = {}
    for node in model.graph.node:
        if is_product(node, constants):
            cost = np.square(constants.array(node.input[1])).sum(axis=1)
            costs[node.input[0]] = costs.get(node.input[0], 0) + cost
            weights.setdefault(node.input[0], []).append(node.input[1])
    ranges, missing = {}, {}
    for name, flow in watch(graph, list(costs), batches).items():
        cost = costs[name]
        if len(cost) != flow.rows.shape[1]:
            cost = np.ones(flow.rows.shape[1])
        ranges[name] = least_loss(flow.rows, (flow.low, flow.high), cost)
        rounded = round_values(flow.rows, ranges[name])
        for own in weights[name]:
            matrix = constants.array(own)
            if matrix.shape[0] == flow.rows.shape[1] and len(flow.rows):
                lost = flow.rows @ matrix - rounded @ round_weights(matrix)
                missing[own] = lost.mean(axis=0).astype(np.float32)
    return ranges, missing


_ROWS = 384  # enough to compare the factors
_WORTH = 0.5  # of the error may remain


def smooth(path: Path, smoothed: Path, batches: Sequence[Batch]) -> None:
    """Write the graph with products whose large columns are evened out where that pays."""
    model = load_graph(path)
    constants = Constants(model.graph, path.parent)
    products = [
        node
        for node in model.graph.node
        if node.op_type == "MatMul" and is_product(node, constants)
    ]
    flows = watch(path, list(dict.fromkeys(node.input[0] for node in products)), batches)
    for node in products:
        weights = constants.array(node.input[1])
        factors = choose_factors(flows[node.input[0]], weights)
        if factors is not None:
            _divide(model.graph, constants, node, factors)
    drop_unused(model.graph)
    save_graph(model, smoothed)


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
    graph: onnx.GraphProto, constants: Constants, node: onnx.NodeProto, factors: np.ndarray
) -> None:
    """Put the division before the product, and the factors into its matrix."""
    name = node.name or node.output[0]
    evened = (constants.array(node.input[1]) * factors[:, None]).astype(np.float32)
    constants.add(name + EVENED, evened)
    constants.add(name + FACTORS, (1 / factors).astype(np.float32))
    at = next(i for i, other in enumerate(graph.node) if other is node)
    graph.node.insert(
        at,
        helper.make_node(
            "Mul", [node.input[0], name + FACTORS], [f"{name}_even"], name=f"{name}_even"
        ),
    )
    node.input[0], node.input[1] = f"{name}_even", name + EVENED


# Tables of fewer numbers than this (token types) are not worth the rounding.
_SMALLEST_TABLE = 1 << 16
_AT_ONCE = 1 << 13  # rows of a table


def quantise(path: Path, quantised: Path, batches: Sequence[Batch]) -> None:
    """Write the graph with int8 weights, one scale a column, and int8 embeddings, one a row.

    Activations are rounded to ranges that are measured on the batches and fixed, after columns
    that stand out were evened; what rounding takes from a product on average is added to its bias,
    which costs nothing. Weights take the full range of 8 bits: processors without VNNI let
    a few sums in a million saturate, which on MiniLM's weights costs less than a seventh bit does
    on every processor.
    """
    evened = quantised.with_suffix(".even.onnx")
    smooth(path, evened, batches)
    model = load_graph(evened)
    constants = Constants(model.graph, path.parent)
    split_gemms(model.graph, constants)
    ranges, missing = find_ranges(evened, model, constants, batches)
    rewrite_int8(model, constants, ranges)
    add_back(model.graph, constants, missing)
    _quantise_tables(model.graph, constants)
    drop_unused(model.graph)
    save_graph(model, quantised)


def _quantise_tables(graph: onnx.GraphProto, constants: Constants) -> None:
    """Replace each large embedding table by int8 rows and their scales.

    One scale a row, because a rare word's row may be ten times as long as a common one's.
    """
    nodes = []
    for node in graph.node:
        table = constants.get(node.input[0]) if node.op_type == "Gather" else None
        size = np.prod(table.dims) if table is not None and len(table.dims) == 2 else 0
        if table is None or table.data_type != TensorProto.FLOAT or size < _SMALLEST_TABLE:
            nodes.append(node)
        else:
            nodes += _gather_rows(constants, node)
    del graph.node[:]
    graph.node.extend(nodes)


def _gather_rows(constants: Constants, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    name, ids, found = node.input[0], node.input[1], node.output[0]
    rows = constants.array(name)  # (vocabulary, hidden)
    scales = np.empty((len(rows), 1), np.float32)
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(rows), _AT_ONCE)]
    for part in parts:
        largest = np.abs(rows[part]).max(axis=1, keepdims=True) / 127
        scales[part] = np.maximum(largest, np.finfo(np.float32).tiny)
    if f"{name}_rows" not in constants:
        small = (np.rint(rows[part] / scales[part]).astype(np.int8) for part in parts)
        constants.stream(f"{name}_rows", rows.shape, np.dtype(np.int8), small)
    constants.add(f"{name}_scales", scales)
    return [
        helper.make_node("Gather", [f"{name}_rows", ids], [f"{found}_small"]),
        helper.make_node("Gather", [f"{name}_scales", ids], [f"{found}_scale"]),
        helper.make_node("Cast", [f"{found}_small"], [f"{found}_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{found}_float", f"{found}_scale"], [found]),
    ]
