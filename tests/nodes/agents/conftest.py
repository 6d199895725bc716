from pathlib import Path

import pytest

from tests.support.folder_sandbox import FolderSandbox


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def sandbox(work_dir: Path) -> FolderSandbox:
    return FolderSandbox(work_dir)
