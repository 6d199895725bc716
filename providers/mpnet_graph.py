"""all-mpnet-base-v2 as a network of 8-bit numbers: token ids in, a vector of length one out.

Weights take seven of the eight bits: with all of them, processors without VNNI overflow where they
add two products.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from providers.mpnet import DIMENSIONS, MAX_TOKENS

if TYPE_CHECKING:
    Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    Read = Callable[[str], Floats]

LAYERS, HEADS, INNER = 12, 12, 3_072

_LOUD = {
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
"""Neurons of each layer that reach 12 to 100 where all others stay below. One scale for all of
them would leave those others too few steps: these keep 32-bit numbers."""

_EPSILON = 1e-5
_CONTRIB = "com.microsoft"


def network(read: "Read") -> ModelProto:
    """The network of the weights that `read` gives by their published names."""
    graph = _Graph(read)
    hidden = graph.normalised(graph.embedded("ids"), "embeddings")
    bias = graph.position_bias("ids")
    for layer in range(LAYERS):
        hidden = graph.layer(layer, hidden, bias)
    mean = graph.add("ReduceMean", hidden, graph.constant("axis", np.array([1])), keepdims=0)
    graph.add("LpNormalization", mean, into="vector", axis=-1, p=2)
    return graph.model()


class _Graph:
    """Nodes and weights as they are added; every method gives the name of what it adds."""

    def __init__(self, read: "Read") -> None:
        self._read = read
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, TensorProto] = {}

    def model(self) -> ModelProto:
        said = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])
        made = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, DIMENSIONS])
        graph = helper.make_graph(
            self._nodes, "mpnet", [said], [made], list(self._weights.values())
        )
        known = [helper.make_opsetid("", 20), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=known, ir_version=9)

    def add(
        self,
        kind: str,
        *given: str,
        into: str = "",
        domain: str = "",
        **options: float | Sequence[int],
    ) -> str:
        name = into or f"value{len(self._nodes)}"
        node = helper.make_node(kind, given, [name], None, None, domain, None, **options)
        self._nodes.append(node)
        return name

    def constant(self, name: str, value: "Array") -> str:
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def embedded(self, ids: str) -> str:
        """The vector of each token and of its place; each token's has a scale of its own."""
        words = self._read("embeddings.word_embeddings.weight")
        scale = _largest(words) / np.float32(127)
        steps = self.constant("words", np.rint(words / scale).astype(np.int8))
        word = self.add(
            "Mul",
            self.add("Cast", self.add("Gather", steps, ids), to=TensorProto.FLOAT),
            self.add("Gather", self.constant("words.scale", scale), ids),
        )
        # The first two places are for padding.
        places = self._read("embeddings.position_embeddings.weight")[2 : 2 + MAX_TOKENS]
        first = self.constant("first", np.array([0]))
        count = self.add("Shape", ids, start=1, end=2)
        place = self.add("Slice", self.constant("places", places), first, count)
        return self.add("Add", word, place)

    def position_bias(self, ids: str) -> str:
        """What each head adds for the distance from one token to another."""
        table = self._read("encoder.relative_attention_bias.weight")
        apart = np.arange(1 - MAX_TOKENS, MAX_TOKENS)
        by_distance = self.constant("bias", table[_bucket(apart)].T)
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
        thought = self._feed_forward(name, hidden, _LOUD.get(number, ()))
        return self.normalised(self.add("Add", thought, hidden), f"{name}.output")

    def normalised(self, given: str, name: str) -> str:
        weight, bias = (
            self.constant(f"{name}.norm.{part}", self._read(f"{name}.LayerNorm.{part}"))
            for part in ("weight", "bias")
        )
        return self.add("LayerNormalization", given, weight, bias, axis=-1, epsilon=_EPSILON)

    def _attention(self, name: str, hidden: str, bias: str) -> str:
        weights, biases = (
            [self._read(f"{name}.attn.{one}.{part}") for one in "qkv"]
            for part in ("weight", "bias")
        )
        scale = np.float32(np.sqrt(DIMENSIONS // HEADS))
        weights[0], biases[0] = weights[0] / scale, biases[0] / scale
        asked = self._linear(name, hidden, np.concatenate(weights), np.concatenate(biases))
        heads = self.constant("heads", np.array([0, 0, 3 * HEADS, DIMENSIONS // HEADS]))
        parts = self.add("Transpose", self.add("Reshape", asked, heads), perm=[0, 2, 1, 3])
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
        like = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        share = self.add("Softmax", self.add("Add", like, bias), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", share, value), perm=[0, 2, 1, 3])
        flat = self.add("Reshape", mixed, self.constant("flat", np.array([0, 0, DIMENSIONS])))
        out = (self._read(f"{name}.attn.o.{part}") for part in ("weight", "bias"))
        return self._linear(f"{name}.out", flat, *out)

    def _feed_forward(self, name: str, hidden: str, loud: tuple[int, ...]) -> str:
        into, into_bias = (
            self._read(f"{name}.intermediate.dense.{part}") for part in ("weight", "bias")
        )
        out, out_bias = (self._read(f"{name}.output.dense.{part}") for part in ("weight", "bias"))
        quiet = np.setdiff1d(np.arange(INNER), loud)
        heard = self.add("Gelu", self._linear(f"{name}.in", hidden, into[quiet], into_bias[quiet]))
        made = self._linear(f"{name}.out", heard, out[:, quiet], out_bias)
        if not loud:
            return made
        few = list(loud)
        felt = self.add("MatMul", hidden, self.constant(f"{name}.loud.in", into[few].T))
        felt = self.add("Add", felt, self.constant(f"{name}.loud.bias", into_bias[few]))
        felt = self.add("Gelu", felt)
        return self.add(
            "Add",
            made,
            self.add("MatMul", felt, self.constant(f"{name}.loud.out", out[:, few].T)),
        )

    def _linear(self, name: str, given: str, weight: "Floats", bias: "Floats") -> str:
        scale = _largest(weight) / np.float32(64)
        return self.add(
            "DynamicQuantizeMatMul",
            given,
            self.constant(f"{name}.steps", np.rint(weight / scale).astype(np.int8).T),
            self.constant(f"{name}.scale", scale[:, 0]),
            "",
            self.constant(f"{name}.bias", bias),
            domain=_CONTRIB,
        )


def _largest(weight: "Floats") -> "Floats":
    made: Floats = np.abs(weight).max(axis=1, keepdims=True)
    return made


def _bucket(apart: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> "Array":
    """Which of 32 numbers stands for a distance: near ones each have one, far ones share."""
    exact, most, farthest = 8, 16, 128
    away = np.abs(apart)
    grown = np.log(np.maximum(away, 1) / exact) / np.log(farthest / exact) * (most - exact)
    shared = np.minimum(exact + grown.astype(int), most - 1)
    return np.where(apart > 0, most, 0) + np.where(away < exact, away, shared)
