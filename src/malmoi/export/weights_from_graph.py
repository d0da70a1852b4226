"""A bundle without torch weights → the weights in its graph, as a folder that can be trained.

A shipped bundle holds one graph of 8-bit weights. They are the model: each is a whole number
times its column's scale, which float32 holds exactly. Training starts from there, a rounding
away from the model that was exported.
"""

import atexit
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import find_model, open_bundle
from ..bundle.manifest import Manifest
from ..errors import BundleError, require
from ..io.files import writing_folder

Arrays = dict[str, NDArray[Any]]

# Names in 8-bit graphs, which smoothing (int8.py) gives.
EVENED = "_even_weights"  # a matrix whose input's columns are divided
FACTORS = "_even_factors"  # … by multiplying with these

_PREFIX = "transformer."
_DENSE = re.compile(r"^/transformer/(.+)/MatMul_output_0")
_ATTENTION = re.compile(r"^/transformer/(.+/attention/self)/")
_SIDE = re.compile(r"(.+_qkv)_weight_([qkv])(_quantized)?$")
_PARTS = ("query", "key", "value")


def rebuild(folder: Path) -> Path:
    """Write a bundle's weights as safetensors into a folder that is removed at exit."""
    require("onnx", extra="train", purpose="malmoi train")
    require("safetensors", extra="train", purpose="malmoi train")
    from safetensors.numpy import save_file

    made = Path(tempfile.mkdtemp(prefix="malmoi-base-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for item in folder.iterdir():
        if item.is_dir() and item.name != "onnx":
            shutil.copytree(item, made / item.name)
        elif item.is_file():
            shutil.copyfile(item, made / item.name)
    weights = read_weights(folder / Manifest.read(folder).graph)
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    return made


def export_torch(source: str | Path | None, out: str | Path) -> Manifest:
    """Write a bundle with torch weights made from its graph at `out`; gives its manifest.

    sentence-transformers can open the result. 8-bit weights are the numbers that the graph has.
    """
    require("onnx", extra="train", purpose="malmoi model export --torch")
    require("safetensors", extra="train", purpose="malmoi model export --torch")
    from safetensors.numpy import save_file

    folder = open_bundle(find_model(source), kinds=("encoder", "reranker")).folder
    manifest = Manifest.read(folder)
    with writing_folder(out) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)
        weights = read_weights(folder / manifest.graph)
        save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
        (partial / "model.safetensors").chmod(0o644)
        return manifest.write(partial)


def read_weights(graph: Path) -> Arrays:
    """Give a transformer's parameters by their torch names, float32, from its ONNX graph."""
    import onnx
    from onnx import numpy_helper

    try:
        model = onnx.load(graph)
    except Exception as error:  # protobuf's own errors share no base class
        raise BundleError(
            f"{graph} cannot be read as ONNX; expected a whole graph. Copy the bundle again."
        ) from error
    held: Arrays = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    weights = _plain(held) | _tables(held)
    for node in model.graph.node:
        if node.op_type in ("MatMul", "MatMulInteger", "MatMulIntegerToFloat"):
            weights |= _dense(node, held)
        elif node.op_type in ("Attention", "QAttention"):
            weights |= _attention(node, held)
    if not any(name.endswith("query.weight") for name in weights):
        raise BundleError(
            f"{graph} has no attention whose weights can be read; expected a BERT, RoBERTa or "
            "XLM-R encoder. Name the folder it was exported from."
        )
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}


def _plain(held: Arrays) -> Arrays:
    """Biases, normalisations and small tables keep their names in a graph."""
    return {
        name.removeprefix(_PREFIX): array
        for name, array in held.items()
        if name.startswith(_PREFIX) and name.endswith((".weight", ".bias"))
    }


def _tables(held: Arrays) -> Arrays:
    """Embeddings are rows of 8 bits with a scale each."""
    return {
        name.removeprefix(_PREFIX).removesuffix("_rows"): rows.astype(np.float32)
        * held[name.removesuffix("_rows") + "_scales"]
        for name, rows in held.items()
        if name.startswith(_PREFIX) and name.endswith("_rows")
    }


def _dense(node: Any, held: Arrays) -> Arrays:
    if _SIDE.match(node.input[1]):
        return _side(node, held)
    match = _DENSE.match(node.output[0])
    matrix = _matrix(node.input[1], held) if match else None
    if match is None or matrix is None:
        return {}
    return {f"{match[1].replace('/', '.')}.weight": matrix.T}


def _side(node: Any, held: Arrays) -> Arrays:
    """Queries, keys or values by a product of their own, each with its bias.

    Keys may have none in such a graph: it would add the same to all scores of a token, which their
    softmax takes out. Zeros make the same model.
    """
    match, matrix = _ATTENTION.match(node.output[0]), _matrix(node.input[1], held)
    named = _SIDE.match(node.input[1])
    if match is None or matrix is None or named is None:
        return {}
    stem, side = named[1], named[2]
    name = f"{match[1].replace('/', '.')}.{_PARTS['qkv'.index(side)]}"
    bias = held.get(f"{stem}_bias_{side}", np.zeros(matrix.shape[1], np.float32))
    return {f"{name}.weight": matrix.T, f"{name}.bias": bias}


def _attention(node: Any, held: Arrays) -> Arrays:
    """One product makes queries, keys and values: (hidden, 3 * hidden), side by side."""
    match = _ATTENTION.match(node.output[0])
    matrix = _matrix(node.input[1], held)
    if match is None or matrix is None:
        return {}
    name = match[1].replace("/", ".")
    found: Arrays = {}
    biases = np.split(held[node.input[2]], 3)
    for part, columns, bias in zip(_PARTS, np.split(matrix, 3, axis=1), biases, strict=True):
        found[f"{name}.{part}.weight"] = columns.T
        found[f"{name}.{part}.bias"] = bias
    return found


def _matrix(name: str, held: Arrays) -> NDArray[Any] | None:
    """A matrix (in, out) by its name in the graph, its 8 bits multiplied out.

    Where columns of its input are evened (int8.smooth), its rows hold what divided them.
    """
    array = held.get(name)
    if array is None:
        return None
    stem = name.removesuffix("_quantized")
    if array.dtype.kind in "iu":  # 8 bits; float16 is as it is
        moved = array.astype(np.float32) - held[f"{stem}_zero_point"].astype(np.float32)
        array = moved * held[f"{stem}_scale"]
    if stem.endswith(EVENED):
        array = array * held[stem.removesuffix(EVENED) + FACTORS][:, None]
    return array
