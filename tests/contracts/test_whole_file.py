"""A file that is written whole: its rights, its link, and what stays when it cannot be written."""

from pathlib import Path
from stat import S_IMODE

import pytest

from contracts.files import write_atomically


def rights(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


def test_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    for text in ("first", "second \udcff"):
        write_atomically(file, text)
        assert file.read_text(errors="surrogateescape") == text
    assert list(tmp_path.iterdir()) == [file]


def test_a_private_one_is_for_this_user_whatever_stood_there_or_was_left_behind(
    tmp_path: Path,
) -> None:
    for name in ("one.json", "one.part"):
        (tmp_path / name).touch(mode=0o644)
    write_atomically(tmp_path / "one.json", "secret", private=True)
    assert rights(tmp_path / "one.json") == 0o600


def test_another_has_the_rights_of_the_one_that_it_replaces(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.touch()
    file.chmod(0o640)
    write_atomically(file, "new")
    assert rights(file) == 0o640


def test_a_link_goes_on_leading_where_it_led(tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "own.toml")
    write_atomically(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "own.toml").read_text() == "new"


def test_the_old_one_stays_when_it_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text("old")
    (tmp_path / "one.part").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
