"""A fused float32 graph → the same graph in the kernels that a processor runs fastest.

onnxruntime's two best known fusions are slow on a processor. Its Attention multiplies by a head's
own columns at a time, where three whole products reach the machine's rate; its
SkipLayerNormalization takes four times as long as two sums and a LayerNormalization. Where a
batch has no padding, ONNX's own Attention is faster again. Graphs with 8-bit weights have theirs
in rewrite_int8.py.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .constants import Constants, load_graph, save_graph

_SKIP = "SkipLayerNormalization"
_OURS = "com.microsoft"
# The first operator set with Attention; onnxruntime knows it from 1.23 on.
_OPSET = 23
_FULL = "no_padding"  # true for a batch whose rows are all of one length
_LONG = "long"  # true for one of more tokens a row than this
_BLOCKS = 512


def rewrite_float(path: Path, chosen: Path) -> None:
    """Write the graph at `path` with attention and layer normalisation in their faster form."""
    model = load_graph(path)
    graph = model.graph
    constants = Constants(graph, path.parent)
    nodes = split_kernels(graph, constants, _split_attention)
    del graph.node[:]
    graph.node.extend(nodes)
    drop_unused(graph)
    raise_opset(model)
    save_graph(model, chosen)


SplitAttention = Callable[[onnx.GraphProto, onnx.NodeProto, Constants], list[onnx.NodeProto] | None]


def split_kernels(
    graph: onnx.GraphProto, constants: Constants, split_attention: SplitAttention
) -> list[onnx.NodeProto]:
    """Give the nodes with attention, normalisation and activation split into faster ones."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        split = split_attention(graph, node, constants)
        if split is not None:
            nodes += split
        elif node.op_type == _SKIP and len(node.output) == 1:
            nodes += split_normalisation(node)
        elif node.op_type == "BiasGelu":
            nodes += split_activation(node)
        else:
            nodes.append(node)
    return nodes


def is_self_attention(node: onnx.NodeProto, weight: onnx.TensorProto | None) -> bool:
    """Whether a fused node attends from a token matrix to itself, with a mask and nothing more."""
    known = {"num_heads", "mask_filter_value", "scale"}
    return (
        weight is not None
        and weight.dims[1] == 3 * weight.dims[0]
        and all(attribute.name in known for attribute in node.attribute)
    )


def _split_attention(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Constants
) -> list[onnx.NodeProto] | None:
    """Three products, then attention proper: without a mask where the batch has no padding."""
    if node.op_type != "Attention" or len(node.input) != 4 or not all(node.input):
        return None
    if not is_self_attention(node, constants.get(node.input[1])):
        return None
    states, weight, bias, mask = node.input
    [found] = node.output
    nodes, sides = [], []
    weights = np.split(constants.array(weight), 3, axis=1)  # (hidden, hidden)
    biases = np.split(constants.array(bias), 3)  # (hidden,)
    for side, columns, shift in zip("qkv", weights, biases, strict=True):
        product = f"{found}_{side}"
        constants.add(f"{weight}_{side}", columns)
        nodes.append(helper.make_node("MatMul", [states, f"{weight}_{side}"], [product]))
        # A key's bias adds the same to all scores of a token, which their softmax takes out.
        if side != "k" and shift.any():
            constants.add(f"{bias}_{side}", shift)
            nodes.append(
                helper.make_node("Add", [product, f"{bias}_{side}"], [f"{product}_biased"])
            )
            product = f"{product}_biased"
        sides.append(product)
    return nodes + attend(graph, node, sides, mask)


def attend(
    graph: onnx.GraphProto, node: onnx.NodeProto, sides: list[str], mask: str
) -> list[onnx.NodeProto]:
    """Attention proper in place of a fused node, without a mask where the batch has no padding.

    Long texts without padding, which come one by one, go to a kernel that never holds the scores of
    all pairs of tokens: of 8,192 tokens those would be gigabytes.
    """
    [found] = node.output
    nodes = _find_padding(mask) if _first_use(graph, node, mask) else []
    unmasked = _branch(
        helper.make_node(
            "If",
            [f"{mask}_{_LONG}"],
            [f"{found}_unmasked"],
            f"{found}_unmasked",
            then_branch=_attend_in_blocks(node, sides, f"{found}_long"),
            else_branch=_attend_all(node, sides),
        )
    )
    masked = _attend_in_blocks(node, [*sides, "", mask], f"{found}_masked")
    choice = {"then_branch": unmasked, "else_branch": masked}
    return [*nodes, helper.make_node("If", [f"{mask}_{_FULL}"], [found], f"{found}_if", **choice)]


def _attend_all(node: onnx.NodeProto, sides: list[str]) -> onnx.GraphProto:
    options = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    heads = {"q_num_heads": options["num_heads"], "kv_num_heads": options["num_heads"]}
    scale = {"scale": options["scale"]} if options.get("scale") else {}  # 0 stands for the usual
    name = f"{node.output[0]}_full"
    return _branch(helper.make_node("Attention", sides, [name], name, **heads, **scale))


def _attend_in_blocks(node: onnx.NodeProto, inputs: list[str], name: str) -> onnx.GraphProto:
    """Give onnxruntime's own attention; without a mask it works block by block."""
    kernel = helper.make_node("MultiHeadAttention", inputs, [name], name, domain=_OURS)
    kernel.attribute.extend(node.attribute)
    return _branch(kernel)


def _branch(kernel: onnx.NodeProto) -> onnx.GraphProto:
    [found] = kernel.output
    output = helper.make_tensor_value_info(found, TensorProto.FLOAT, None)
    return helper.make_graph([kernel], found, [], [output])


def _first_use(graph: onnx.GraphProto, node: onnx.NodeProto, mask: str) -> bool:
    users = [other for other in graph.node if other.op_type == "Attention" and mask in other.input]
    return list(users[0].output) == list(node.output)


def _find_padding(mask: str) -> list[onnx.NodeProto]:
    """Ask once for all layers whether every token of the batch is real, and whether it is long."""
    least, full = f"{mask}_least", f"{mask}_{_FULL}"
    shape, length, long = f"{mask}_shape", f"{mask}_length", f"{mask}_{_LONG}"
    bound = numpy_helper.from_array(np.array([_BLOCKS], dtype=np.int64))
    return [
        helper.make_node("Shape", [mask], [shape], shape, start=1),
        helper.make_node("Constant", [], [f"{length}_bound"], f"{length}_bound", value=bound),
        helper.make_node("Greater", [shape, f"{length}_bound"], [long], long),
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
    if all(used.domain != _OURS for used in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_OURS, 1))
    model.ir_version = max(model.ir_version, 10)


def branch_inputs(node: onnx.NodeProto) -> set[str]:
    """Name what the branches of a choice, and choices in them, read from outside."""
    inner = [one for attribute in node.attribute for one in attribute.g.node]
    return {name for one in inner for name in (*one.input, *branch_inputs(one))}


def keep_live(graph: onnx.GraphProto) -> None:
    """Leave out the nodes, and then the constants, that nothing reads."""
    wanted = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
            wanted |= {*node.input, *branch_inputs(node)}
    del graph.node[:]
    graph.node.extend(reversed(kept))
    drop_unused(graph)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Remove the weights that were split."""
    used = {name for node in graph.node for name in (*node.input, *branch_inputs(node))}
    for tensor in list(graph.initializer):
        if tensor.name not in used:
            graph.initializer.remove(tensor)
