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

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..runtime.session import Session
from ..runtime.tokenizer import Batch, PairTokenizer, TextTokenizer
from .graph import neighbours
from .rewrite_float import drop_unused
from .rewrite_int8 import rewrite_int8
from .silence import silenced_libraries
from .weights_from_graph import EVENED, FACTORS

Range = tuple[float, float]

# Shares of the range that are tried: a few far values are worth cutting off when every other
# value is then rounded more finely.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


def scale_and_zero(limits: Range) -> tuple[np.ndarray, np.ndarray]:
    """Give the step and the zero point with which 0 … 255 span the range.

    >>> [value.item() for value in scale_and_zero((-1.0, 254.0))]
    [1.0, 1]
    """
    low, high = limits
    scale = np.array(max(high - low, 1e-6) / 255, dtype=np.float32)
    return scale, np.array(np.clip(np.rint(-low / scale), 0, 255), dtype=np.uint8)


def round_values(values: np.ndarray, limits: Range) -> np.ndarray:
    """Round to the 256 values that span the range; what lies outside becomes its end."""
    scale, zero = scale_and_zero(limits)
    offset = np.float32(zero)
    rounded: np.ndarray = (np.clip(np.rint(values / scale) + offset, 0, 255) - offset) * scale
    return rounded


def round_weights(weights: np.ndarray) -> np.ndarray:
    """Round a matrix to 8 bits with one scale a column."""
    scales = np.maximum(np.abs(weights).max(axis=0), np.finfo(np.float32).tiny) / 127
    rounded: np.ndarray = np.rint(weights / scales) * scales
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
    with tempfile.TemporaryDirectory(prefix="malmoi-ranges-") as scratch:
        session = Session(_opened(graph, names, Path(scratch)))
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
    return {name: Flow(lows[name], highs[name], np.concatenate(seen[name])) for name in names}


def _opened(graph: Path, names: Sequence[str], folder: Path) -> Path:
    """Write the graph with the named tensors among its outputs."""
    model = onnx.load(graph)
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    path = folder / "open.onnx"
    onnx.save(model, path)
    return path


def calibration_texts() -> list[str]:
    """The sentences that ranges are measured on: Korean, English and mixed, short and long."""
    return (files(__package__) / "calibration.txt").read_text("utf-8").splitlines()


def calibration_batches(tokens: TextTokenizer, *, pairs: bool = False) -> list[Batch]:
    """The same sentences as a tokenizer's batches, in pairs if the model reads pairs."""
    texts = calibration_texts()
    if pairs:
        return list(tokens.batches(PairTokenizer(tokens).encode(neighbours(texts))[0]))
    return list(tokens.batches(tokens.encode(texts)[0]))


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


_ROWS = 384  # enough to compare the factors
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
    with silenced_libraries():
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
    rewrite_int8(model)
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
        size = np.prod(table.dims) if table is not None and len(table.dims) == 2 else 0
        if table is None or table.data_type != TensorProto.FLOAT or size < _SMALLEST_TABLE:
            nodes.append(node)
        else:
            nodes += _gather_rows(graph, table, node)
    del graph.node[:]
    graph.node.extend(nodes)


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
