"""all-mpnet-base-v2 as an ONNX graph with 8-bit weights: token ids in, a unit vector out.

Weights use seven of the eight bits. With eight, processors without VNNI overflow when they add
two products.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from providers.mpnet import DIMENSIONS, MAX_TOKENS

if TYPE_CHECKING:
    Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    ReadWeight = Callable[[str], Floats]

LAYERS, HEADS, INNER = 12, 12, 3_072

_OUTLIERS = {
    0: (74, 128, 1459, 1895, 2662, 2854),
    1: (1140, 1293),
    2: (1751,),
    3: (1462, 2584),
    5: (2605,),
    6: (60, 2644),
    7: (288, 916),
    8: (255, 471, 529, 680),
    9: (1223, 1490, 1893, 2975),
    10: (1276, 2662, 2779),
}
"""Neurons of each layer whose activations reach 12 to 100, while all others stay below 12. They
keep 32-bit weights: a scale that includes them would leave the others too few steps."""

_EPSILON = 1e-5
_CONTRIB = "com.microsoft"


def network(read: "ReadWeight") -> ModelProto:
    """Return the network; `read` returns a weight by its published name."""
    graph = _Graph(read)
    hidden = graph.normalised(graph.embedded("ids"), "embeddings")
    bias = graph.position_bias("ids")
    for layer in range(LAYERS):
        hidden = graph.layer(layer, hidden, bias)
    mean = graph.add("ReduceMean", hidden, graph.constant("axis", np.array([1])), keepdims=0)
    graph.add("LpNormalization", mean, into="vector", axis=-1, p=2)
    return graph.model()


class _Graph:
    """Collects nodes and weights. Every method returns the name of the value that it adds."""

    def __init__(self, read: "ReadWeight") -> None:
        self._read = read
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, TensorProto] = {}

    def model(self) -> ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])
        vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, DIMENSIONS])
        weights = list(self._weights.values())
        graph = helper.make_graph(self._nodes, "mpnet", [ids], [vector], weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def add(
        self,
        kind: str,
        *inputs: str,
        into: str = "",
        domain: str = "",
        **options: float | Sequence[int],
    ) -> str:
        name = into or f"value{len(self._nodes)}"
        node = helper.make_node(kind, inputs, [name], None, None, domain, None, **options)
        self._nodes.append(node)
        return name

    def constant(self, name: str, value: "Array") -> str:
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def embedded(self, ids: str) -> str:
        """Add the vectors of tokens, each with its own 8-bit scale, and of their positions."""
        words = self._read("embeddings.word_embeddings.weight")
        scale = _largest(words) / np.float32(127)
        quantized = self.constant("words", np.rint(words / scale).astype(np.int8))
        word = self.add(
            "Mul",
            self.add("Cast", self.add("Gather", quantized, ids), to=TensorProto.FLOAT),
            self.add("Gather", self.constant("words.scale", scale), ids),
        )
        # The first two positions are for padding.
        positions = self._read("embeddings.position_embeddings.weight")[2 : 2 + MAX_TOKENS]
        first = self.constant("first", np.array([0]))
        count = self.add("Shape", ids, start=1, end=2)
        position = self.add("Slice", self.constant("places", positions), first, count)
        return self.add("Add", word, position)

    def position_bias(self, ids: str) -> str:
        """Add the attention bias of each head for the distance between two tokens."""
        table = self._read("encoder.relative_attention_bias.weight")
        distances = np.arange(1 - MAX_TOKENS, MAX_TOKENS)
        by_distance = self.constant("bias", table[_bucket(distances)].T)
        count = self.add("Squeeze", self.add("Shape", ids, start=1, end=2))
        zero, one = self.constant("zero", np.array(0)), self.constant("one", np.array(1))
        numbers = self.add("Range", zero, count, one)
        column = self.add("Unsqueeze", numbers, self.constant("axis", np.array([1])))
        distance = self.add("Sub", numbers, column)
        row = self.add("Add", distance, self.constant("nearest", np.array(MAX_TOKENS - 1)))
        return self.add("Gather", by_distance, row, axis=1)

    def layer(self, number: int, hidden: str, bias: str) -> str:
        name = f"encoder.layer.{number}"
        attended = self._attention(f"{name}.attention", hidden, bias)
        hidden = self.normalised(self.add("Add", attended, hidden), f"{name}.attention")
        output = self._feed_forward(name, hidden, _OUTLIERS.get(number, ()))
        return self.normalised(self.add("Add", output, hidden), f"{name}.output")

    def normalised(self, value: str, name: str) -> str:
        weight, bias = (
            self.constant(f"{name}.norm.{part}", self._read(f"{name}.LayerNorm.{part}"))
            for part in ("weight", "bias")
        )
        return self.add("LayerNormalization", value, weight, bias, axis=-1, epsilon=_EPSILON)

    def _attention(self, name: str, hidden: str, bias: str) -> str:
        weights, biases = (
            [self._read(f"{name}.attn.{one}.{part}") for one in "qkv"]
            for part in ("weight", "bias")
        )
        scale = np.float32(np.sqrt(DIMENSIONS // HEADS))
        weights[0], biases[0] = weights[0] / scale, biases[0] / scale
        projected = self._linear(name, hidden, np.concatenate(weights), np.concatenate(biases))
        heads = self.constant("heads", np.array([0, 0, 3 * HEADS, DIMENSIONS // HEADS]))
        parts = self.add("Transpose", self.add("Reshape", projected, heads), perm=[0, 2, 1, 3])
        query, key, value = (
            self.add(
                "Slice",
                parts,
                self.constant(f"from{HEADS * part}", np.array([HEADS * part])),
                self.constant(f"from{HEADS * (part + 1)}", np.array([HEADS * (part + 1)])),
                self.constant("axis", np.array([1])),
            )
            for part in range(3)
        )
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        attention = self.add("Softmax", self.add("Add", scores, bias), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", attention, value), perm=[0, 2, 1, 3])
        flat = self.add("Reshape", mixed, self.constant("flat", np.array([0, 0, DIMENSIONS])))
        out = (self._read(f"{name}.attn.o.{part}") for part in ("weight", "bias"))
        return self._linear(f"{name}.out", flat, *out)

    def _feed_forward(self, name: str, hidden: str, outliers: tuple[int, ...]) -> str:
        up, up_bias = (
            self._read(f"{name}.intermediate.dense.{part}") for part in ("weight", "bias")
        )
        down, down_bias = (self._read(f"{name}.output.dense.{part}") for part in ("weight", "bias"))
        others = np.setdiff1d(np.arange(INNER), outliers)
        inner = self.add("Gelu", self._linear(f"{name}.in", hidden, up[others], up_bias[others]))
        output = self._linear(f"{name}.out", inner, down[:, others], down_bias)
        if not outliers:
            return output
        few = list(outliers)
        inner = self.add("MatMul", hidden, self.constant(f"{name}.loud.in", up[few].T))
        inner = self.add("Add", inner, self.constant(f"{name}.loud.bias", up_bias[few]))
        inner = self.add("Gelu", inner)
        down_few = self.constant(f"{name}.loud.out", down[:, few].T)
        return self.add("Add", output, self.add("MatMul", inner, down_few))

    def _linear(self, name: str, value: str, weight: "Floats", bias: "Floats") -> str:
        scale = _largest(weight) / np.float32(64)
        return self.add(
            "DynamicQuantizeMatMul",
            value,
            self.constant(f"{name}.steps", np.rint(weight / scale).astype(np.int8).T),
            self.constant(f"{name}.scale", scale[:, 0]),
            "",
            self.constant(f"{name}.bias", bias),
            domain=_CONTRIB,
        )


def _largest(weight: "Floats") -> "Floats":
    largest: Floats = np.abs(weight).max(axis=1, keepdims=True)
    return largest


def _bucket(distances: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> "Array":
    """Return the bucket of each distance, of 32: small distances have one each, others share."""
    exact, buckets, farthest = 8, 16, 128
    away = np.abs(distances)
    steps = np.log(np.maximum(away, 1) / exact) / np.log(farthest / exact) * (buckets - exact)
    shared = np.minimum(exact + steps.astype(int), buckets - 1)
    return np.where(distances > 0, buckets, 0) + np.where(away < exact, away, shared)
