"""A graph of 8-bit weights → the same graph in the kernels that a processor runs fastest.

onnxruntime's QAttention multiplies by a head's own columns at a time; three whole products and
attention proper take half as long. Its products of whole numbers can turn their sums into floats
and add a bias themselves, where the quantiser leaves that to three passes over memory. Its
SkipLayerNormalization and BiasGelu take up to four times as long as what they fuse.
"""

from collections import Counter

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .rewrite_float import (
    Constants,
    add_constant,
    attend,
    branch_inputs,
    drop_unused,
    is_self_attention,
    raise_opset,
    split_kernels,
)

_OURS = "com.microsoft"
_PRODUCT = "MatMulIntegerToFloat"
_BIAS = 6  # the inputs of such a product before its bias


def rewrite_int8(model: onnx.ModelProto) -> None:
    """Rewrite the 8-bit graph in place."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    _join_products(graph, constants)
    nodes = split_kernels(graph, constants, _split_attention)
    # The names that must stay: outputs, and what the branches of a choice read.
    fixed = {output.name for output in graph.output}.union(*map(branch_inputs, graph.node))
    _replace(graph, _with_biases(nodes, constants, fixed))
    drop_unused(graph)
    raise_opset(model)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _join_products(graph: onnx.GraphProto, constants: Constants) -> None:
    """Make one node of a product of whole numbers, its cast to floats and its scales."""
    producers = {name: node for node in graph.node for name in node.output}
    uses = Counter(name for node in graph.node for name in node.input)
    joined: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        product = _product_under(node, producers, uses)
        if product is None:
            continue
        scales = _scales_of(node, product, producers, constants)
        if scales is not None:
            whole, weight, *zeros = product.input
            inputs = [whole, weight, *scales, *zeros]
            joined[node.output[0]] = helper.make_node(
                _PRODUCT, inputs, list(node.output), node.output[0], domain=_OURS
            )
    nodes = [joined.get(node.output[0], node) for node in graph.node]
    _replace(graph, _live(nodes, {output.name for output in graph.output}))


def _product_under(
    node: onnx.NodeProto, producers: dict[str, onnx.NodeProto], uses: Counter[str]
) -> onnx.NodeProto | None:
    """The product of whole numbers that this node scales, if it does so and nothing else reads."""
    if node.op_type != "Mul":
        return None
    cast = producers.get(node.input[0])
    if cast is None or cast.op_type != "Cast" or uses[cast.output[0]] > 1:
        return None
    product = producers.get(cast.input[0])
    if product is None or product.op_type != "MatMulInteger" or uses[product.output[0]] > 1:
        return None
    return product if len(product.input) == 4 else None


def _scales_of(
    node: onnx.NodeProto,
    product: onnx.NodeProto,
    producers: dict[str, onnx.NodeProto],
    constants: Constants,
) -> list[str] | None:
    """The scales of both sides of a product, which the quantiser multiplies before it uses them."""
    both, producer = producers.get(node.input[1]), producers.get(product.input[0])
    if (
        both is None
        or both.op_type != "Mul"
        or producer is None
        or producer.op_type != "QuantizeLinear"
    ):
        return None
    own = producer.input[1]
    others = [name for name in both.input if name != own]
    return [own, *others] if len(others) == 1 and others[0] in constants else None


def _live(nodes: list[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """Leave out the nodes that nothing reads any more."""
    wanted, kept = set(wanted), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted |= {*node.input, *branch_inputs(node)}
    return kept[::-1]


def _with_biases(
    nodes: list[onnx.NodeProto], constants: Constants, fixed: set[str]
) -> list[onnx.NodeProto]:
    """Let products add the biases that follow them; what a product gives keeps its name."""
    uses = Counter(name for node in nodes for name in node.input)
    products = {node.output[0]: node for node in nodes if node.op_type == _PRODUCT}
    kept: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for node in nodes:
        product = products.get(node.input[0]) if node.op_type == "Add" else None
        if (
            product is not None
            and not fixed & {node.output[0], product.output[0]}
            and _can_add(product, constants.get(node.input[1]), uses)
        ):
            product.input.append(node.input[1])
            renamed[node.output[0]] = product.output[0]
        else:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            kept.append(node)
    return kept


def _can_add(product: onnx.NodeProto, bias: onnx.TensorProto | None, uses: Counter[str]) -> bool:
    alone = uses[product.output[0]] == 1 and len(product.input) == _BIAS
    return alone and bias is not None and len(bias.dims) == 1


def _can_split(node: onnx.NodeProto, constants: Constants) -> bool:
    """Whether this is 8-bit attention of a token matrix on itself, with a mask and no more."""
    if node.op_type != "QAttention" or len(node.input) < 8 or any(node.input[8:]):
        return False
    weight, scale, zero = (constants.get(node.input[i]) for i in (1, 4, 7))
    return (
        is_self_attention(node, weight)
        and weight is not None
        and scale is not None
        and zero is not None
        and list(scale.dims) == list(zero.dims) == [weight.dims[1]]
        and bool(node.input[5])
    )


def _split_attention(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Constants
) -> list[onnx.NodeProto] | None:
    """Three products with their biases, then attention proper."""
    if not _can_split(node, constants):
        return None
    whole, weight, bias, own, scale, mask, own_zero, zero = node.input[:8]
    [found] = node.output
    nodes, sides = [], []
    for number, side in enumerate("qkv"):
        parts = []
        for name in (weight, scale, zero, bias):
            array = np.split(numpy_helper.to_array(constants[name]), 3, axis=-1)[number]
            parts.append(side_name(name, side))
            add_constant(graph, constants, parts[-1], array)
        inputs = [whole, parts[0], own, parts[1], own_zero, parts[2], parts[3]]
        product = f"{found}_{side}"
        nodes.append(helper.make_node(_PRODUCT, inputs, [product], product, domain=_OURS))
        sides.append(product)
    return nodes + attend(graph, node, sides, mask)


def side_name(name: str, side: str) -> str:
    """Name the columns of queries, keys or values of a weight, its ending still at the end.

    >>> side_name("layer_qkv_weight_quantized", "q")
    'layer_qkv_weight_q_quantized'
    """
    for ending in ("_quantized", "_scale", "_zero_point"):
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}_{side}{ending}"
    return f"{name}_{side}"
