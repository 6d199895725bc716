"""The local embedding model is built only from the published weights."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from providers.mpnet_build import build


def test_weights_with_another_checksum_are_refused(tmp_path: Path) -> None:
    parts, into = tmp_path / "parts", tmp_path / "made"
    for number in ("001", "002"):
        (parts / number / "input").mkdir(parents=True)
    with ZipFile(tmp_path / "whole.zip", "w") as archive:
        for name in ("tokenizer.json", "model.safetensors"):
            archive.writestr(f"all-mpnet-base-v2/{name}", "other")
    whole = (tmp_path / "whole.zip").read_bytes()
    for number, piece in (("001", whole[:50]), ("002", whole[50:])):
        (parts / number / "input" / f"all-mpnet-base-v2.zip.{number}").write_bytes(piece)
    with pytest.raises(ValueError, match="SHA-256"):
        build(parts, into)
    assert not into.exists()
