"""What git on the host says, and what is made of it."""

import tracemalloc
from pathlib import Path

import pytest

from contracts.errors import GitFailed
from sandbox.git import error_text, git


def test_the_last_words_of_an_endless_error_take_little_memory() -> None:
    stderr = b"warning: x\n" * 500_000 + b"fatal: no more\n"
    tracemalloc.start()
    try:
        assert error_text(stderr).endswith("; no more")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(stderr)


def test_a_folder_that_nobody_can_enter_is_no_missing_git(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match=r"git cannot work in .*gone"):
        git("status", at=tmp_path / "gone")
