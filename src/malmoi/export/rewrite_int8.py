"""A float32 graph and the ranges of its activations → a graph of 8-bit products.

onnxruntime's QAttention multiplies by a head's own columns at a time; three whole products and
attention proper take half as long. Its products of whole numbers turn their sums into floats and
add a bias themselves. Its SkipLayerNormalization and BiasGelu take up to four times as long as
what they fuse.
"""

from collections import Counter

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from .constants import Constants
from .rewrite_float import (
    attend,
    branch_inputs,
    drop_unused,
    is_self_attention,
    raise_opset,
    split_kernels,
)

Range = tuple[float, float]

_OURS = "com.microsoft"
_PRODUCT = "MatMulIntegerToFloat"
_BIAS = 6  # the inputs of such a product before its bias


def scale_and_zero(limits: Range) -> tuple[np.ndarray, np.ndarray]:
    """Give the step and the zero point with which 0 … 255 span the range.

    >>> [value.item() for value in scale_and_zero((-1.0, 254.0))]
    [1.0, 1]
    """
    low, high = limits
    scale = np.array(max(high - low, 1e-6) / 255, dtype=np.float32)
    return scale, np.array(np.clip(np.rint(-low / scale), 0, 255), dtype=np.uint8)


def round_columns(weights: np.ndarray) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round a matrix to 8 bits with one scale a column; gives both."""
    scales = np.maximum(np.abs(weights).max(axis=0), np.finfo(np.float32).tiny) / 127
    return np.rint(weights / scales).astype(np.int8), scales.astype(np.float32)


def is_product(node: onnx.NodeProto, constants: Constants) -> bool:
    """Tell whether a node multiplies states by a matrix of weights, and can do so in 8 bits."""
    if node.op_type not in ("MatMul", "Attention") or node.input[0] in constants:
        return False
    weight = constants.get(node.input[1])
    if weight is None or len(weight.dims) != 2:
        return False
    return node.op_type == "MatMul" or _can_split(node, constants)


def _can_split(node: onnx.NodeProto, constants: Constants) -> bool:
    """Tell whether this is attention of a token matrix on itself, with a mask and no more."""
    whole = len(node.input) == 4 and all(node.input)
    return whole and is_self_attention(node, constants.get(node.input[1]))


def split_gemms(graph: onnx.GraphProto, constants: Constants) -> None:
    """Write a product and a sum for products with a bias, as dense layers of vectors are traced."""
    nodes = []
    for node in graph.node:
        options = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        plain = options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0
        weight = constants.get(node.input[1]) if node.op_type == "Gemm" else None
        if weight is None or not plain or options.get("transA"):
            nodes.append(node)
            continue
        name = node.input[1]
        if options.get("transB"):
            name = f"{name}_transposed"
            constants.add(name, constants.array(node.input[1]).T)
        product = f"{node.output[0]}_product" if len(node.input) > 2 else node.output[0]
        nodes.append(helper.make_node("MatMul", [node.input[0], name], [product], product))
        if len(node.input) > 2:
            nodes.append(helper.make_node("Add", [product, node.input[2]], list(node.output)))
    _replace(graph, nodes)


def rewrite_int8(model: onnx.ModelProto, constants: Constants, ranges: dict[str, Range]) -> None:
    """Rewrite the graph in place; what has a range is multiplied in 8 bits."""
    graph = model.graph
    rounded: set[str] = set()

    def rewrite(
        graph: onnx.GraphProto, node: onnx.NodeProto, constants: Constants
    ) -> list[onnx.NodeProto] | None:
        if node.input[:1] and node.input[0] in ranges and is_product(node, constants):
            return [
                *_round(node.input[0], ranges, constants, rounded),
                *_products(graph, node, constants),
            ]
        return None

    nodes = split_kernels(graph, constants, rewrite)
    # The names that must stay: outputs, and what the branches of a choice read.
    fixed = {output.name for output in graph.output}.union(*map(branch_inputs, nodes))
    _replace(graph, _with_biases(nodes, constants, fixed))
    drop_unused(graph)
    raise_opset(model)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _round(
    name: str, ranges: dict[str, Range], constants: Constants, rounded: set[str]
) -> list[onnx.NodeProto]:
    """Round a tensor to 8 bits, before the first of the products that read it."""
    if name in rounded:
        return []
    rounded.add(name)
    scale, zero = scale_and_zero(ranges[name])
    constants.add(f"{name}_scale", scale)
    constants.add(f"{name}_zero_point", zero)
    inputs = [name, f"{name}_scale", f"{name}_zero_point"]
    return [helper.make_node("QuantizeLinear", inputs, [f"{name}_quantized"])]


def _products(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Constants
) -> list[onnx.NodeProto]:
    """One product; or three with their biases, then attention proper."""
    states, weight = node.input[:2]
    [found] = node.output
    if node.op_type == "MatMul":
        return [_product(states, weight, constants.array(weight), found, constants)]
    bias, mask = node.input[2:]
    weights = np.split(constants.array(weight), 3, axis=1)
    biases = np.split(constants.array(bias), 3)
    nodes = []
    for side, columns, shift in zip("qkv", weights, biases, strict=True):
        product = _product(states, f"{weight}_{side}", columns, f"{found}_{side}", constants)
        constants.add(f"{bias}_{side}", shift)
        product.input.append(f"{bias}_{side}")
        nodes.append(product)
    return nodes + attend(graph, node, [one.output[0] for one in nodes], mask)


def _product(
    states: str, weight: str, array: np.ndarray, found: str, constants: Constants
) -> onnx.NodeProto:
    """A product of rounded states and a matrix that is rounded here."""
    if f"{weight}_quantized" not in constants:
        whole, scales = round_columns(array)
        constants.add(f"{weight}_quantized", whole)
        constants.add(f"{weight}_scale", scales)
        constants.add(f"{weight}_zero_point", np.zeros(len(scales), np.int8))
    sides = (states, weight)
    inputs = [f"{name}_{part}" for part in ("quantized", "scale", "zero_point") for name in sides]
    return helper.make_node(_PRODUCT, inputs, [found], found, domain=_OURS)


def add_back(graph: onnx.GraphProto, constants: Constants, missing: dict[str, np.ndarray]) -> None:
    """Add to the biases of products what rounding takes from them, by the names of the weights.

    A column of states that is nearly the same for all tokens, and large, makes the rounding of its
    weights an offset: in the first layers of BERT that is most of the error.
    """
    uses = Counter(name for node in graph.node for name in node.input)
    for node in graph.node:
        if node.op_type != _PRODUCT:
            continue
        weight = node.input[1].removesuffix("_quantized")
        found = missing.get(weight)
        if found is None and weight[:-2] in missing:  # one of three of an attention
            found = np.split(missing[weight[:-2]], 3)["qkv".index(weight[-1])]
        if found is None:
            continue
        if len(node.input) > _BIAS and uses[node.input[_BIAS]] == 1:
            # Under its own name, by which the weights of a graph are found again.
            own = node.input[_BIAS]
            constants.replace(own, (constants.array(own) + found).astype(np.float32))
            continue
        name = f"{node.output[0]}_bias"
        if len(node.input) > _BIAS:  # layers that share a bias lose different values
            constants.add(name, (constants.array(node.input[_BIAS]) + found).astype(np.float32))
            node.input[_BIAS] = name
        else:
            constants.add(name, found)
            node.input.append(name)


def _with_biases(
    nodes: list[onnx.NodeProto], constants: Constants, fixed: set[str]
) -> list[onnx.NodeProto]:
    """Let products add the biases that follow them; what a product gives keeps its name."""
    uses = Counter(name for node in nodes for name in node.input)
    products = {node.output[0]: node for node in nodes if node.op_type == _PRODUCT}
    kept: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for node in nodes:
        product, bias = _biased(node, products)
        if (
            product is not None
            and not fixed & {node.output[0], product.output[0]}
            and _can_add(product, constants.get(bias), uses)
        ):
            product.input.append(bias)
            renamed[node.output[0]] = product.output[0]
        else:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            kept.append(node)
    return kept


def _biased(
    node: onnx.NodeProto, products: dict[str, onnx.NodeProto]
) -> tuple[onnx.NodeProto | None, str]:
    """The product that this node adds something to, on either side, and what it adds."""
    if node.op_type != "Add":
        return None, ""
    first, second = node.input
    return (products[first], second) if first in products else (products.get(second), first)


def _can_add(product: onnx.NodeProto, bias: onnx.TensorProto | None, uses: Counter[str]) -> bool:
    alone = uses[product.output[0]] == 1 and len(product.input) == _BIAS
    return alone and bias is not None and len(bias.dims) == 1
