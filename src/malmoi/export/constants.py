"""A graph's constants: small ones inside it, large ones in a file next to it.

A graph with its weights would be in memory two or three times while it is changed, and a file of
protocol buffers, which ONNX is, ends at 2 GiB. Here only nodes and small constants are in memory:
weights are mapped from the file, and new ones appended to it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_DATA = "weights.data"
# Smaller constants stay in the graph, where the fuser reads them.
_SMALL = 1 << 16
# From this many bytes on the weights of a finished graph stay in a file of their own.
_SPLIT = 1_500_000_000
_ALIGNED = 64
_COPIED = 1 << 24  # bytes at once


class Constants:
    """The constants of a graph in `folder`, by name."""

    def __init__(self, graph: onnx.GraphProto, folder: Path) -> None:
        self._graph, self._folder = graph, folder
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def get(self, name: str) -> TensorProto | None:
        """Give a constant's name, type and size."""
        return self._tensors.get(name)

    def array(self, name: str) -> NDArray[Any]:
        """Give a constant's values, mapped where they are large."""
        return read_array(self._tensors[name], self._folder)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Put an array into the graph, once: layers may share their weights."""
        if name not in self._tensors:
            self.stream(name, array.shape, array.dtype, [array])

    def replace(self, name: str, array: NDArray[Any]) -> None:
        """Give a small constant other values."""
        self._tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))

    def stream(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
        blocks: Iterable[NDArray[Any]],
    ) -> None:
        """Put an array into the graph that is made block by block, and never held whole."""
        size = int(np.prod(shape)) * dtype.itemsize
        if size <= _SMALL:
            whole = np.concatenate([block.reshape(-1) for block in blocks]).reshape(shape)
            tensor = numpy_helper.from_array(np.ascontiguousarray(whole), name)
        else:
            tensor = TensorProto(name=name, dims=shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(dtype)
            with (self._folder / _DATA).open("ab") as file:
                _place(tensor, _DATA, _align(file), size)
                for block in blocks:
                    file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
        self._graph.initializer.append(tensor)
        self._tensors[name] = self._graph.initializer[-1]

    def put_inside(self, name: str) -> None:
        """Read a constant into the graph itself, for a library that looks for it there."""
        tensor = self._tensors[name]
        tensor.CopyFrom(numpy_helper.from_array(np.array(self.array(name)), name))

    def put_outside(self) -> None:
        """Move all large constants to the file."""
        for tensor in list(self._graph.initializer):
            if not is_outside(tensor) and tensor.ByteSize() > _SMALL:
                array = numpy_helper.to_array(tensor)
                self._graph.initializer.remove(tensor)
                del self._tensors[tensor.name]
                self.add(tensor.name, array)


def is_outside(tensor: TensorProto) -> bool:
    """Tell whether a constant's values are in a file next to the graph."""
    return tensor.data_location == TensorProto.EXTERNAL


def read_array(tensor: TensorProto, folder: Path) -> NDArray[Any]:
    """Give a constant's values; those in a file are mapped."""
    if not is_outside(tensor):
        return numpy_helper.to_array(tensor)
    where = {entry.key: entry.value for entry in tensor.external_data}
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.memmap(
        folder / where["location"],
        dtype,
        "r",
        offset=int(where.get("offset", 0)),
        shape=tuple(tensor.dims),
    )


def load_graph(path: Path) -> onnx.ModelProto:
    """Read a graph without the weights next to it."""
    return onnx.load(path, load_external_data=False)


def save_graph(model: onnx.ModelProto, path: Path) -> None:
    """Write a graph whose large weights are in the file next to it already."""
    path.write_bytes(model.SerializeToString())


def write_graph_file(model: onnx.ModelProto, folder: Path, target: Path) -> None:
    """Write a finished graph: one file, or two where its weights are too many for one.

    `folder` holds the graph's weights. Those for a second file are copied one after another, so
    that none but the one being written is in memory.
    """
    outside = [tensor for tensor in model.graph.initializer if is_outside(tensor)]
    if sum(_size(tensor) for tensor in outside) > _SPLIT:
        name = f"{target.name}_data"  # what the hub calls it
        with target.with_name(name).open("wb") as file:
            for tensor in outside:
                start = _align(file)
                _copy(tensor, folder, file)
                _place(tensor, name, start, _size(tensor))
    else:
        for tensor in outside:
            array = np.array(read_array(tensor, folder))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    save_graph(model, target)


def _size(tensor: TensorProto) -> int:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return int(np.prod(tensor.dims)) * dtype.itemsize


def _copy(tensor: TensorProto, folder: Path, file: BinaryIO) -> None:
    values = read_array(tensor, folder).reshape(-1).view(np.uint8)
    for start in range(0, len(values), _COPIED):
        file.write(values[start : start + _COPIED].data)


def _align(file: BinaryIO) -> int:
    """Fill up to the next place where an array may start, and give it."""
    at = file.seek(0, 2)
    file.write(bytes(-at % _ALIGNED))
    return at + -at % _ALIGNED


def _place(tensor: TensorProto, location: str, start: int, size: int) -> None:
    tensor.ClearField("external_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", start), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
