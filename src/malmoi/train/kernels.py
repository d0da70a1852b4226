"""A fused float32 graph → the same graph in the kernels that a processor runs fastest.

onnxruntime's two best known fusions are slow on a processor. Its Attention multiplies by a head's
own columns at a time, where three whole products reach the machine's rate; its
SkipLayerNormalization takes four times as long as two sums and a LayerNormalization. Where a
batch has no padding, ONNX's own Attention is faster again. Graphs with 8-bit weights have theirs
in small_kernels.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .folding import fold_biases

Constants = dict[str, onnx.TensorProto]

_OURS = "com.microsoft"
# The first operator set with Attention; onnxruntime knows it from 1.23 on.
_OPSET = 23
_FULL = "no_padding"  # true for a batch whose rows are all of one length


def choose_kernels(path: Path, chosen: Path, *, fold: bool = True) -> None:
    """Write the graph at `path` with attention and layer normalisation in their faster form.

    With `fold`, some biases are taken into others, and the graph no longer holds the model's own.
    """
    model = onnx.load(path)
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    if fold:
        fold_biases(graph, constants)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if _can_split(node, constants):
            nodes += _split_attention(graph, node, constants)
        elif node.op_type == "SkipLayerNormalization" and len(node.output) == 1:
            nodes += split_normalisation(node)
        elif node.op_type == "BiasGelu":
            nodes += split_activation(node)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    drop_unused(graph)
    raise_opset(model)
    onnx.save(model, chosen)


def _can_split(node: onnx.NodeProto, constants: Constants) -> bool:
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
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Constants
) -> list[onnx.NodeProto]:
    """Three products, then attention proper: without a mask where the batch has no padding."""
    states, weight, bias, mask = node.input
    [found] = node.output
    nodes, sides = [], []
    weights = np.split(numpy_helper.to_array(constants[weight]), 3, axis=1)  # (hidden, hidden)
    biases = np.split(numpy_helper.to_array(constants[bias]), 3)  # (hidden,)
    for side, columns, shift in zip("qkv", weights, biases, strict=True):
        product = f"{found}_{side}"
        add_constant(graph, constants, f"{weight}_{side}", columns)
        nodes.append(helper.make_node("MatMul", [states, f"{weight}_{side}"], [product]))
        # A key's bias adds the same to all scores of a token, which their softmax takes out.
        if side != "k" and shift.any():
            add_constant(graph, constants, f"{bias}_{side}", shift)
            nodes.append(
                helper.make_node("Add", [product, f"{bias}_{side}"], [f"{product}_biased"])
            )
            product = f"{product}_biased"
        sides.append(product)
    return nodes + attend(graph, node, sides, mask)


def attend(
    graph: onnx.GraphProto, node: onnx.NodeProto, sides: list[str], mask: str
) -> list[onnx.NodeProto]:
    """Attention proper in place of a fused node, without a mask where the batch has no padding."""
    [found] = node.output
    nodes = _find_padding(mask) if _first_use(graph, node, mask) else []
    branches = {
        "then_branch": _attend_all(node, sides),
        "else_branch": _attend_masked(node, [*sides, "", mask]),
    }
    return [*nodes, helper.make_node("If", [f"{mask}_{_FULL}"], [found], f"{found}_if", **branches)]


def add_constant(
    graph: onnx.GraphProto, constants: Constants, name: str, array: NDArray[Any]
) -> None:
    """Put an array into the graph, once."""
    if name not in constants:  # layers may share their weights
        constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        graph.initializer.append(constants[name])


def _attend_all(node: onnx.NodeProto, sides: list[str]) -> onnx.GraphProto:
    options = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    heads = {"q_num_heads": options["num_heads"], "kv_num_heads": options["num_heads"]}
    scale = {"scale": options["scale"]} if options.get("scale") else {}  # 0 stands for the usual
    name = f"{node.output[0]}_full"
    return _branch(helper.make_node("Attention", sides, [name], name, **heads, **scale))


def _attend_masked(node: onnx.NodeProto, inputs: list[str]) -> onnx.GraphProto:
    name = f"{node.output[0]}_masked"
    kernel = helper.make_node("MultiHeadAttention", inputs, [name], name, domain=_OURS)
    kernel.attribute.extend(node.attribute)
    return _branch(kernel)


def _branch(kernel: onnx.NodeProto) -> onnx.GraphProto:
    [found] = kernel.output
    output = helper.make_tensor_value_info(found, TensorProto.FLOAT, None)
    return helper.make_graph([kernel], found, [], [output])


def _first_use(graph: onnx.GraphProto, node: onnx.NodeProto, mask: str) -> bool:
    kinds = ("Attention", "QAttention")
    users = [other for other in graph.node if other.op_type in kinds and mask in other.input]
    return list(users[0].output) == list(node.output)


def _find_padding(mask: str) -> list[onnx.NodeProto]:
    """Ask once for all layers whether every token of the batch is real."""
    least, full = f"{mask}_least", f"{mask}_{_FULL}"
    return [
        helper.make_node("ReduceMin", [mask], [least], least, keepdims=0),
        helper.make_node("Cast", [least], [full], full, to=TensorProto.BOOL),
    ]


def split_normalisation(node: onnx.NodeProto) -> list[onnx.NodeProto]:
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


def split_activation(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The bias, then GELU by the error function as before."""
    [found] = node.output
    return [
        helper.make_node("Add", list(node.input), [f"{found}_biased"]),
        helper.make_node("Gelu", [f"{found}_biased"], [found]),
    ]


def raise_opset(model: onnx.ModelProto) -> None:
    """Say which operator set is used now, and write what it writes otherwise than set 17."""
    graph = model.graph
    for number, node in enumerate(graph.node):
        axes = [attribute for attribute in node.attribute if attribute.name == "axes"]
        if node.op_type.startswith("Reduce") and axes:
            name = f"axes_{number}"
            tensor = numpy_helper.from_array(np.array(axes[0].ints, dtype=np.int64), name)
            graph.initializer.append(tensor)
            node.input.append(name)
            node.attribute.remove(axes[0])
        if node.op_type == "Split" and len(node.input) == 1:
            node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    for used in model.opset_import:
        if used.domain in ("", "ai.onnx"):
            used.version = _OPSET
    model.ir_version = max(model.ir_version, 10)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Remove the weights that were split."""
    used = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            used |= {name for inner in attribute.g.node for name in inner.input}
    for tensor in list(graph.initializer):
        if tensor.name not in used:
            graph.initializer.remove(tensor)
