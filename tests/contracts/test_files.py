"""A file that is replaced in one step: its mode, its link target, a failed write."""

from pathlib import Path
from stat import S_IMODE

import pytest

from contracts.files import write_atomically


def rights(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    for text in ("first", "second \udcff"):
        write_atomically(file, text)
        assert file.read_text(errors="surrogateescape") == text
    assert list(tmp_path.iterdir()) == [file]


def test_a_private_file_can_only_be_read_by_this_user(
    tmp_path: Path,
) -> None:
    for name in ("one.json", "one.part"):
        (tmp_path / name).touch(mode=0o644)
    write_atomically(tmp_path / "one.json", "secret", private=True)
    assert rights(tmp_path / "one.json") == 0o600


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.touch()
    file.chmod(0o640)
    write_atomically(file, "new")
    assert rights(file) == 0o640


def test_a_link_keeps_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "own.toml")
    write_atomically(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "own.toml").read_text() == "new"


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text("old")
    (tmp_path / "one.part").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
