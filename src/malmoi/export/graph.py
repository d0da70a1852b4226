"""A torch module → an ONNX graph → the same graph with fused kernels, each compared with torch."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import AttentionMaskFormat, FusionOptions
from onnxruntime.transformers.onnx_model import OnnxModel

from ..runtime.session import Session
from ..runtime.tokenizer import Batch, PairTokenizer, TextTokenizer, TokenizedText
from .module import GraphModule
from .silence import silenced_libraries

# LayerNormalization is an operator of its own from 17 on; later sets bring nothing used here.
_OPSET = 17


def trace(module: GraphModule, path: Path) -> int:
    """Write the module as a graph with free batch and length; gives the number of layer outputs."""
    ids = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    arrays = (ids, mask, torch.zeros_like(ids))[: len(module.inputs)]
    with torch.no_grad(), silenced_libraries():
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
    # The mask as it is: the shorter form, a length a row, assumes padding on the right.
    options.attention_mask_format = AttentionMaskFormat.AttentionMask
    graph = onnx.load(path)
    with silenced_libraries():
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


Arrays = list[NDArray[np.float32]]

# Real words of both languages: the rounding of int8 is judged on them, and a tokenizer that
# does not know its own model's words would show here.
SAMPLES = (
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "Café, naïve, ｆｕｌｌ width — ㅋㅋ 1,234.5",
    "서울의 봄은 짧고, 여름은 길다. 그래도 사람들은 강가를 걷는다.",
    "How do I reset my password?",
    "비밀번호를 잊어버렸어요",
    "a",
)
_RANDOM_ROWS = 4


def neighbours(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each text with the next, and the last with the first."""
    return list(zip(texts, [*texts[1:], texts[0]], strict=True))


def probes(tokens: TextTokenizer, vocabulary: int, *, pairs: bool = False) -> list[Batch]:
    """Make batches with padding: real words, one text alone, random ids; or pairs of texts."""
    random = np.random.default_rng(0)
    longest = min(tokens.max_tokens, 64)
    rows = []
    if pairs:
        inputs, _ = PairTokenizer(tokens).encode(neighbours(SAMPLES))
        types = sorted({kind for one in inputs for kind in one.types or ()})
        for i, length in enumerate((longest, 9, 3)):
            ids = random.integers(0, vocabulary, length).tolist()
            rows.append(TokenizedText(i, ids, random.choice(types, length).tolist()))
    else:
        inputs, _ = tokens.encode(SAMPLES)
        lengths = [longest, *random.integers(1, longest, _RANDOM_ROWS - 2), 0]
        for i, length in enumerate(lengths):
            rows.append(TokenizedText(i, random.integers(0, vocabulary, length).tolist()))
    words = next(tokens.batches(inputs, budget=1 << 30))
    single = next(tokens.batches(inputs[-1:]))
    return [words, single, next(tokens.batches(rows, budget=1 << 30))]


def run_torch(module: GraphModule, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the module; gives the outputs of each batch."""
    results = []
    with torch.inference_mode():
        for batch in batches:
            arrays = (batch.ids, batch.mask, batch.types)[: len(module.inputs)]
            found = module(*(torch.from_numpy(array) for array in arrays))
            results.append([output.numpy() for output in found])
    return results


def run_graph(path: Path, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the graph on disk; gives the outputs of each batch."""
    session = Session(path)
    return [session.run(batch, session.outputs) for batch in batches]


def agree(found: list[Arrays], expected: list[Arrays], batches: Sequence[Batch]) -> bool:
    """Whether float32 outputs are equal but for the order of sums.

    A thousandth of the largest value is thirty times what kernels differ by, and a hundredth of
    what a wrong mask or a wrong scale does. States of padding are not compared.
    """
    for ours, theirs, batch in zip(found, expected, batches, strict=True):
        if len(ours) != len(theirs) or not all(np.isfinite(array).all() for array in ours):
            return False
        used = [batch.mask.any(axis=1), *[batch.mask.astype(bool)] * (len(ours) - 1)]
        for a, b, rows in zip(ours, theirs, used, strict=True):
            if a.shape != b.shape or np.abs(a - b)[rows].max() > 1e-3 * np.abs(b[rows]).max():
                return False
    return True


def rounding(found: list[Arrays], expected: list[Arrays]) -> float:
    """Measure int8's error in sentence vectors against the distances it must keep apart.

    Gives the largest distance of a vector to its float32 self, divided by the median distance
    between two different sentences. A cosine would flatter a model whose vectors all lean one
    way; this does not.
    """
    ours, theirs = found[0][0], expected[0][0]  # the batch of real words: (n, dim) each
    if not all(np.isfinite(array).all() for batch in found for array in batch):
        return float("inf")
    apart = np.linalg.norm(theirs[:, None] - theirs[None, :], axis=2)
    between = np.median(apart[np.triu_indices(len(theirs), k=1)])
    return float(np.linalg.norm(ours - theirs, axis=1).max() / between)
