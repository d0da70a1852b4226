"""A torch module → an ONNX graph → the same graph with fused kernels."""

import hashlib
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import AttentionMaskFormat, FusionOptions
from onnxruntime.transformers.onnx_model import OnnxModel

from .module import GraphModule
from .quiet import quiet

# LayerNormalization is an operator of its own from 17 on; later sets bring nothing used here.
_OPSET = 17


def trace(module: GraphModule, path: Path) -> int:
    """Write the module as a graph with free batch and length; gives the number of layer outputs."""
    ids = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    arrays = (ids, mask, torch.zeros_like(ids))[: len(module.inputs)]
    with torch.no_grad(), quiet():
        layers = len(module(*arrays)) - 1
        names = [f"layer_{i}" for i in range(layers)]
        free = {name: {0: "batch", 1: "length"} for name in (*module.inputs, *names)}
        # The older, tracing exporter: the newer one's graphs are larger and fuse less.
        torch.onnx.export(
            module,
            arrays,
            path,
            input_names=list(module.inputs),
            output_names=[module.output, *names],
            dynamic_axes=free | {module.output: module.axes},
            opset_version=_OPSET,
            dynamo=False,
        )
    return layers


def fuse(path: Path, fused: Path, *, heads: int, hidden: int) -> None:
    """Write the graph with attention, layer normalisation and GELU as single kernels."""
    options = FusionOptions("bert")
    # The fused embedding kernel has no output for layer_0, and was not faster.
    options.enable_embed_layer_norm = False
    # The mask as it is: the shorter form, a length a row, takes padding to stand on the right.
    options.attention_mask_format = AttentionMaskFormat.AttentionMask
    graph = onnx.load(path)
    with quiet():
        _put_attention_first(OnnxModel(graph))
        fuser = optimizer.optimize_by_fusion(graph, "bert", heads, hidden, options)
        _fuse_biased_attention(fuser, heads)
    done = fuser.model
    _share_constants(done)
    if all(used.domain != "com.microsoft" for used in done.opset_import):
        done.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(done, fused)


def _put_attention_first(graph: Any) -> None:
    """Swap the sides of a residual sum where the fuser would follow the wrong one.

    It looks for attention behind the first side that is a sum itself; in ALBERT's first layer
    that is the embedding's projection.
    """
    attention = ["Add", "MatMul", "Reshape", "Transpose", "MatMul", "Softmax"]
    for node in graph.get_nodes_by_op_type("Add"):
        if graph.match_parent_path(node, attention, [1, None, 0, 0, 0, 0]) is not None:
            node.input[0], node.input[1] = node.input[1], node.input[0]


def _fuse_biased_attention(graph: Any, heads: int) -> None:
    """Make one kernel of attention that adds a bias to its scores, which the fuser leaves alone.

    That is MPNet, whose bias depends on the distance between tokens. Bias and mask are added up
    once for all layers.
    """
    projected = ["Transpose", "Reshape", "Add"]
    for softmax in graph.get_nodes_by_op_type("Softmax"):
        scores = graph.match_parent_path(softmax, ["Add", "Add", "Div", "MatMul"], [0, 0, 0, 0])
        if scores is None:
            continue
        masked, biased, _, product = scores
        weighted = graph.get_children(softmax)[0]
        merged = graph.get_children(graph.get_children(weighted)[0])[0]
        sides = ((product, 0), (product, 1), (weighted, 1))
        paths = [graph.match_parent_path(node, projected, [i, 0, 0]) for node, i in sides]
        total = f"{biased.input[1]}_masked"
        if total not in graph.output_name_to_node():
            both = [biased.input[1], masked.input[1]]
            graph.add_node(helper.make_node("Add", both, [total], total))
        inputs = [*(path[-1].output[0] for path in paths), "", "", total]
        name = f"{softmax.name}_fused"
        kernel = helper.make_node("MultiHeadAttention", inputs, list(merged.output), name)
        kernel.domain = "com.microsoft"
        kernel.attribute.append(helper.make_attribute("num_heads", heads))
        graph.remove_node(merged)
        graph.add_node(kernel)
    graph.prune_graph()
    graph.topological_sort()


def _share_constants(model: onnx.ModelProto) -> None:
    """Keep one of equal constants: ALBERT's layers share weights, and the fuser copied them."""
    first: dict[bytes, str] = {}
    renamed = {}
    for tensor in list(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        key = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).digest()
        renamed[tensor.name] = first.setdefault(key, tensor.name)
        if renamed[tensor.name] != tensor.name:
            model.graph.initializer.remove(tensor)
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
