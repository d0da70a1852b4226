"""A fused float32 graph → the same graph in the kernels that a processor runs fastest.

onnxruntime's two best known fusions are slow on a processor. Its Attention multiplies by a head's
own columns at a time, where three whole products reach the machine's rate; its
SkipLayerNormalization takes four times as long as two sums and a LayerNormalization. Graphs with
8-bit weights keep both: there the change brought nothing.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OURS = "com.microsoft"
_FULL = "no_padding"  # true for a batch whose rows are all of one length


def choose_kernels(path: Path, chosen: Path) -> None:
    """Write the graph at `path` with attention and layer normalisation in their faster form."""
    model = onnx.load(path)
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if _can_split(node, constants):
            nodes += _split_attention(graph, node, constants)
        elif node.op_type == "SkipLayerNormalization" and len(node.output) == 1:
            nodes += _split_normalisation(node)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    _drop_unused(graph)
    onnx.save(model, chosen)


def _can_split(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    """Whether this is attention of a token matrix on itself, with a mask and nothing more."""
    if node.op_type != "Attention" or len(node.input) != 4 or not all(node.input):
        return False
    weight = constants.get(node.input[1])
    known = {"num_heads", "mask_filter_value", "scale"}
    return (
        weight is not None
        and weight.dims[1] == 3 * weight.dims[0]
        and all(attribute.name in known for attribute in node.attribute)
    )


def _split_attention(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]
) -> list[onnx.NodeProto]:
    """Three products, then attention proper: without a mask where the batch has no padding."""
    states, weight, bias, mask = node.input
    [found] = node.output
    nodes = _find_padding(mask) if _first_use(graph, node, mask) else []
    sides = []
    parts = np.split(numpy_helper.to_array(constants[weight]), 3, axis=1)  # each (hidden, hidden)
    for name, part in zip("qkv", parts, strict=True):
        side = f"{weight}_{name}"
        if side not in constants:  # layers may share their weights
            constants[side] = numpy_helper.from_array(np.ascontiguousarray(part), side)
            graph.initializer.append(constants[side])
        sides.append(f"{found}_{name}")
        nodes.append(helper.make_node("MatMul", [states, side], [sides[-1]], f"{found}_{name}"))
    branches = {
        "then_branch": _attend(node, [*sides, bias]),
        "else_branch": _attend(node, [*sides, bias, mask]),
    }
    nodes.append(helper.make_node("If", [f"{mask}_{_FULL}"], [found], f"{found}_if", **branches))
    return nodes


def _attend(node: onnx.NodeProto, inputs: list[str]) -> onnx.GraphProto:
    """A branch of one kernel. Only without a mask does it work in blocks that fit the cache."""
    name = f"{node.output[0]}_{'masked' if len(inputs) == 5 else 'full'}"
    kernel = helper.make_node("MultiHeadAttention", inputs, [name], name, domain=_OURS)
    kernel.attribute.extend(node.attribute)
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([kernel], name, [], [output])


def _first_use(graph: onnx.GraphProto, node: onnx.NodeProto, mask: str) -> bool:
    users = [other for other in graph.node if other.op_type == "Attention" and mask in other.input]
    return list(users[0].output) == list(node.output)


def _find_padding(mask: str) -> list[onnx.NodeProto]:
    """Ask once for all layers whether every token of the batch is real."""
    least, full = f"{mask}_least", f"{mask}_{_FULL}"
    return [
        helper.make_node("ReduceMin", [mask], [least], least, keepdims=0),
        helper.make_node("Cast", [least], [full], full, to=TensorProto.BOOL),
    ]


def _split_normalisation(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The projection's bias, the residual sum and the normalisation, one after another."""
    [found] = node.output
    first, skip, scale, shift, *bias = node.input
    nodes = []
    if bias:
        nodes.append(helper.make_node("Add", [first, *bias], [f"{found}_biased"]))
        first = f"{found}_biased"
    nodes.append(helper.make_node("Add", [first, skip], [f"{found}_sum"]))
    epsilon = {attribute.name: attribute.f for attribute in node.attribute}["epsilon"]
    inputs = [f"{found}_sum", scale, shift]
    nodes.append(helper.make_node("LayerNormalization", inputs, [found], axis=-1, epsilon=epsilon))
    return nodes


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Remove the weights that were split."""
    used = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            used |= {name for inner in attribute.g.node for name in inner.input}
    for tensor in list(graph.initializer):
        if tensor.name not in used:
            graph.initializer.remove(tensor)
