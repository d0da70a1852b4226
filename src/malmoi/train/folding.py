"""A fused float32 graph → the same graph with fewer biases to add.

A bias is a pass over all states. Two of a layer's can be taken into numbers that are there anyway.
The weights of attention add up to 1, so the values' bias comes out of it as it went in, and may go
through the next product beforehand. And a feed-forward part's last bias is added to the residual,
which is a normalisation's output with a shift of its own: the shift takes it, and what else reads
that output, the first product, takes it out of its bias again.
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Constants = dict[str, onnx.TensorProto]
Values = NDArray[np.float64]

_SKIP = "SkipLayerNormalization"
_SHIFT = {_SKIP: 3, "LayerNormalization": 2}  # which input of a normalisation is its shift
_ADDERS = ("Add", "BiasGelu", "FastGelu")
_BIAS = 4  # which input of a normalisation with a residual is the bias


def fold_biases(graph: onnx.GraphProto, constants: Constants) -> None:
    """Take the biases of values and of feed-forward outputs into others, in place."""
    fold = _Fold(graph, constants)
    for node in graph.node:
        if node.op_type == "Attention" and node.input[2] in constants:
            fold.values(node)
        elif node.op_type == _SKIP:
            fold.residual(node)


class _Fold:
    """A graph with who makes and who reads what."""

    def __init__(self, graph: onnx.GraphProto, constants: Constants) -> None:
        self._graph, self._constants = graph, constants
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in set(node.input):
                self._readers.setdefault(name, []).append(node)
        self._given = {output.name for output in graph.output}

    def values(self, attention: onnx.NodeProto) -> None:
        """Send the values' bias through the product after attention."""
        product = self._only_reader(attention.output[0])
        normalisation = self._only_reader(product.output[0]) if product is not None else None
        if product is None or not self._is_product(product) or not self._has_bias(normalisation):
            return
        weight, biases = self._array(product.input[1]), self._array(attention.input[2])
        size = len(weight)
        if len(biases) != 3 * size or normalisation is None:
            return
        values = np.concatenate([np.zeros(2 * size), biases[2 * size :]])
        by = f"{attention.input[2]}_{product.input[1]}"
        self._add(normalisation, _BIAS, values[2 * size :] @ weight, by=by)
        self._add(attention, 2, -values, by="values")

    def residual(self, last: onnx.NodeProto) -> None:
        """Let the normalisation before a feed-forward part add that part's last bias."""
        if not self._has_bias(last):
            return
        for name in last.input[:2]:
            before = self._makers.get(name)
            products = [node for node in self._readers[name] if node is not last]
            adders = [adder for node in products if (adder := self._adder(node)) is not None]
            shifts = before is not None and before.op_type in _SHIFT and name not in self._given
            if before is not None and shifts and len(adders) == len(products):
                self._move(last, before, products, adders)
                return

    def _move(
        self,
        last: onnx.NodeProto,
        before: onnx.NodeProto,
        products: list[onnx.NodeProto],
        adders: list[onnx.NodeProto],
    ) -> None:
        name = last.input[_BIAS]
        bias = self._array(name)
        self._add(before, _SHIFT[before.op_type], bias, by=name)
        for product, adder in zip(products, adders, strict=True):
            weight = product.input[1]
            self._add(adder, 1, -(bias @ self._array(weight)), by=f"{name}_{weight}")
        del last.input[_BIAS:]

    def _only_reader(self, name: str) -> onnx.NodeProto | None:
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._given else None

    def _is_product(self, node: onnx.NodeProto) -> bool:
        return node.op_type == "MatMul" and node.input[1] in self._constants

    def _adder(self, product: onnx.NodeProto) -> onnx.NodeProto | None:
        """The node that adds a bias to what a product gives, where nobody else reads that."""
        reader = self._only_reader(product.output[0]) if self._is_product(product) else None
        if reader is None or reader.op_type not in _ADDERS or len(reader.input) != 2:
            return None
        bias = self._constants.get(reader.input[1])
        return reader if bias is not None and len(bias.dims) == 1 else None

    def _has_bias(self, node: onnx.NodeProto | None) -> bool:
        return (
            node is not None
            and node.op_type == _SKIP
            and len(node.output) == 1
            and len(node.input) > _BIAS
            and node.input[_BIAS] in self._constants
        )

    def _array(self, name: str) -> Values:
        array: Values = numpy_helper.to_array(self._constants[name]).astype(np.float64)
        return array

    def _add(self, node: onnx.NodeProto, place: int, more: Values, *, by: str) -> None:
        """Give one input of a node another value; layers that share weights share the new one."""
        name = f"{node.input[place]}_{by}"
        if name not in self._constants:
            array = (self._array(node.input[place]) + more).astype(np.float32)
            self._constants[name] = numpy_helper.from_array(array, name)
            self._graph.initializer.append(self._constants[name])
        node.input[place] = name
