"""A torch module → an ONNX graph → the same graph with fused kernels, each compared with torch."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import AttentionMaskFormat, FusionOptions
from onnxruntime.transformers.onnx_model import OnnxModel
from transformers import masking_utils

from ..runtime.session import Session, arrays_of
from ..runtime.tokenizer import Batch, PairTokenizer, TextTokenizer, TokenizedText
from .constants import Constants, is_outside, load_graph, save_graph
from .module import GraphModule
from .rewrite_float import keep_live
from .silence import silenced_libraries
from .source import SAMPLES

# LayerNormalization is an operator of its own from 17 on; later sets bring nothing used here.
_OPSET = 17


def trace(module: GraphModule, path: Path) -> int:
    """Write the module as a graph with free batch and length; gives the number of layer outputs.

    Its weights are written next to it, one after another.
    """
    ids = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    types = torch.zeros_like(ids)
    made = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    arrays = tuple(made.get(name, mask) for name in module.inputs)
    with torch.no_grad(), silenced_libraries(), _masks_by_index(), _shapes_without_weights():
        layers = len(module(*arrays)) - 1 - len(module.extras)
        names = [*module.extras, *(f"layer_{i}" for i in range(layers))]
        free = {name: {0: "batch", 1: "length"} for name in (*module.inputs, *names)}
        # The older, tracing exporter: the newer one's graphs are larger and fuse less. Weights are
        # left out and put in below: it would hold them three times.
        torch.onnx.export(
            module,
            arrays,
            path,
            input_names=list(module.inputs),
            output_names=[module.output, *names],
            dynamic_axes=free | {module.output: module.axes},
            opset_version=_OPSET,
            dynamo=False,
            export_params=False,
            do_constant_folding=False,
        )
    model = onnx.load(path)
    constants = Constants(model.graph, path.parent)
    _place_weights(model.graph, module, constants)
    _fold_constants(model.graph, constants)
    keep_live(model.graph)
    save_graph(model, path)
    return layers


@contextlib.contextmanager
def _masks_by_index() -> Iterator[None]:
    """Let transformers make every mask by broadcast indices: vmap cannot be traced."""
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    usual = masks["eager"]
    masks["eager"] = lambda *args, **options: usual(*args, **options | {"use_vmap": False})
    try:
        yield
    finally:
        masks.pop("eager")


_SHAPED = 1 << 12  # values of a weight that may say something of shapes


@contextlib.contextmanager
def _shapes_without_weights() -> Iterator[None]:
    """Let the exporter infer shapes without large weights, which it would copy into its graph."""
    usual = getattr(torch._C, _INFER, None)
    if usual is None:  # another version of torch, which may take more memory
        yield
        return

    def infer(graph: Any, weights: dict[str, torch.Tensor], opset: int) -> Any:
        small = {name: one for name, one in weights.items() if one.numel() <= _SHAPED}
        return usual(graph, small, opset)

    setattr(torch._C, _INFER, infer)
    try:
        yield
    finally:
        setattr(torch._C, _INFER, usual)


_INFER = "_jit_pass_onnx_graph_shape_type_inference"


def _place_weights(graph: onnx.GraphProto, module: GraphModule, constants: Constants) -> None:
    """Write the weights that a traced graph takes as inputs, transposed where it says so.

    A Transpose of a weight is one of a linear layer's, of which no other form is needed.
    """
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    turned = {
        node.input[0]: node
        for node in graph.node
        if node.op_type == "Transpose" and node.input[0] in tensors
    }
    direct = {name for node in graph.node if node not in turned.values() for name in node.input}
    for one in [one for one in graph.input if one.name not in module.inputs]:
        tensor = tensors[one.name].detach()
        if one.name in direct:
            constants.add(one.name, tensor.contiguous().numpy())
        graph.input.remove(one)
    for name, node in turned.items():
        order = next(tuple(one.ints) for one in node.attribute if one.name == "perm")
        constants.add(f"{name}_transposed", tensors[name].detach().permute(order).numpy())
        _rename(graph, node.output[0], f"{name}_transposed")
        graph.node.remove(node)


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]


_FOLDED = 4096  # values that a folded constant may have


def _fold_constants(graph: onnx.GraphProto, constants: Constants) -> None:
    """Compute what depends on small constants alone: the fuser looks for the results."""
    known: dict[str, NDArray[Any]] = {}
    for node in graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = _value(node)
            continue
        if not node.input or not all(name in known or not name for name in node.input):
            continue
        if any(one.HasField("g") for one in node.attribute) or len(node.output) != 1:
            continue
        feed = {name: known[name] for name in node.input if name}
        [found] = ReferenceEvaluator(node, opsets={"": _OPSET}).run(None, feed)
        if np.size(found) <= _FOLDED:
            known[node.output[0]] = np.asarray(found)
            constants.add(node.output[0], known[node.output[0]])
    for node in [one for one in graph.node if one.op_type != "Constant"]:
        if node.output[0] in constants:
            graph.node.remove(node)


def _value(node: onnx.NodeProto) -> NDArray[Any]:
    [found] = node.attribute
    value = helper.get_attribute_value(found)
    return numpy_helper.to_array(value) if found.name == "value" else np.asarray(value)


def fuse(path: Path, fused: Path, *, heads: int, hidden: int) -> None:
    """Write the graph with attention, layer normalisation and GELU as single kernels."""
    options = FusionOptions("bert")
    # The fused embedding kernel has no output for layer_0, and was not faster.
    options.enable_embed_layer_norm = False
    # The mask as it is: the shorter form, a length a row, assumes padding on the right.
    options.attention_mask_format = AttentionMaskFormat.AttentionMask
    graph = load_graph(path)
    constants = Constants(graph.graph, path.parent)
    for name in _attention_weights(graph.graph, constants):
        constants.put_inside(name)
    with silenced_libraries():
        _put_attention_first(OnnxModel(graph))
        fuser = optimizer.optimize_by_fusion(graph, "bert", heads, hidden, options)
        _fuse_biased_attention(fuser, heads)
    done = fuser.model
    _share_constants(done)
    Constants(done.graph, path.parent).put_outside()
    if all(used.domain != "com.microsoft" for used in done.opset_import):
        done.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    save_graph(done, fused)


def _attention_weights(graph: onnx.GraphProto, constants: Constants) -> list[str]:
    """Name the matrices of queries, keys and values, which the fuser packs into one.

    They are three products of the same states.
    """
    found: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            found.setdefault(node.input[0], []).append(node.input[1])
    return sorted({name for names in found.values() if len(names) >= 3 for name in names})


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
        if is_outside(tensor):  # each was written once
            renamed[tensor.name] = tensor.name
            continue
        array = numpy_helper.to_array(tensor)
        key = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).digest()
        renamed[tensor.name] = first.setdefault(key, tensor.name)
        if renamed[tensor.name] != tensor.name:
            model.graph.initializer.remove(tensor)
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]


Arrays = list[NDArray[np.float32]]

_RANDOM_ROWS = 4
# More than the windows of layers that look at near tokens only: 128 in ModernBERT, 512 in Gemma.
_LONG = 640


def neighbours(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each text with the next, and the last with the first."""
    return list(zip(texts, [*texts[1:], texts[0]], strict=True))


def probes(
    tokens: TextTokenizer, vocabulary: int, *, pairs: bool = False, window: int = 0
) -> list[Batch]:
    """Make batches: real words, one text alone, a long text, random ids; or pairs of texts.

    Batches of several texts have padding. The long text is longer than the `window` of layers that
    see only what is near: on shorter ones they agree whatever was traced of their masks.
    """
    random = np.random.default_rng(0)
    most = min(tokens.max_tokens, max(_LONG, window + _LONG // 10))
    usual = min(tokens.max_tokens, 64)
    rows = []
    long = " ".join(SAMPLES * (most // 16))
    if pairs:
        inputs, _ = PairTokenizer(tokens).encode(neighbours(SAMPLES))
        extended, _ = PairTokenizer(tokens).encode([(SAMPLES[0], long), (SAMPLES[1], SAMPLES[2])])
        types = sorted({kind for one in inputs for kind in one.types or ()})
        for i, length in enumerate((usual, 9, 3)):
            ids = random.integers(0, vocabulary, length).tolist()
            rows.append(TokenizedText(i, ids, random.choice(types, length).tolist()))
    else:
        inputs, _ = tokens.encode(SAMPLES)
        extended, _ = tokens.encode([long, SAMPLES[0]])
        lengths = [usual, *random.integers(1, usual, _RANDOM_ROWS - 2), 0]
        for i, length in enumerate(lengths):
            rows.append(TokenizedText(i, random.integers(0, vocabulary, length).tolist()))
    extended = [_cut(one, most) for one in extended]
    parts = (inputs, inputs[-1:], extended, extended[:1], rows)
    return [next(tokens.batches(part, budget=1 << 30)) for part in parts]


def _cut(one: TokenizedText, most: int) -> TokenizedText:
    types = None if one.types is None else one.types[:most]
    return TokenizedText(one.owner, one.ids[:most], types)


def run_torch(module: GraphModule, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the module; gives the outputs of each batch."""
    results = []
    with torch.inference_mode():
        for batch in batches:
            named = arrays_of(batch)
            found = module(*(torch.from_numpy(named[name]) for name in module.inputs))
            results.append([output.numpy() for output in found])
    return results


def run_graph(path: Path, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the graph on disk; gives the outputs of each batch."""
    session = Session(path, device="cpu")
    return [session.run(batch, session.outputs) for batch in batches]


# What float32 outputs may differ by: thirty times what kernels do, and a hundredth of what a wrong
# mask or a wrong scale does.
APART = 1e-3
# The same of float16, which has 11 bits for a value: random models of great weights reach a half
# of it in their logits, others a fiftieth. Sentence vectors have a bound of their own.
HALF_APART = 5e-2


def difference(found: list[Arrays], expected: list[Arrays], batches: Sequence[Batch]) -> float:
    """Give the largest difference of two lists of outputs, as a share of the largest value.

    It is infinite where outputs are missing, of another shape or no numbers. States of padding are
    not compared.
    """
    largest = 0.0
    for ours, theirs, batch in zip(found, expected, batches, strict=True):
        if len(ours) != len(theirs) or not all(np.isfinite(array).all() for array in ours):
            return float("inf")
        for a, b in zip(ours, theirs, strict=True):
            if a.shape != b.shape:
                return float("inf")
            real = batch.mask.astype(bool) if a.ndim > 2 else batch.mask.any(axis=1)
            apart = np.abs(a - b)[real].max() / max(float(np.abs(b[real]).max()), 1e-12)
            largest = max(largest, float(apart))
    return largest


def least_cosine(found: list[Arrays], expected: list[Arrays], batches: Sequence[Batch]) -> float:
    """Give the least cosine of a vector to its float32 self, over all texts with a token."""
    least = 1.0
    for ours, theirs, batch in zip(found, expected, batches, strict=True):
        real = batch.mask.any(axis=1)
        a, b = ours[0][real], theirs[0][real]
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        least = min(least, float(((a * b).sum(axis=1) / np.maximum(lengths, 1e-12)).min()))
    return least


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
