"""What every sandbox promises of files, snapshots and its end."""

import tracemalloc
from pathlib import Path

import pytest

from contracts.errors import (
    SandboxFileMissing,
    SandboxFileTooLarge,
    SandboxLost,
    SandboxNotAFile,
)
from contracts.sandbox import Command, Sandbox, SnapshotId
from tests.support.contract import sh


@pytest.mark.parametrize("data", [b"", b"text\n", bytes(range(256)), b"x" * (50 << 20)])
def test_read_file_returns_the_written_bytes(sandbox: Sandbox, data: bytes) -> None:
    sandbox.write_file("some/new/place/file", data)
    assert sandbox.read_file("some/new/place/file") == data
    assert sandbox.read_file(f"{sandbox.work_dir}/some/new/place/file") == data


@pytest.mark.parametrize(
    "name", ["a b", "-rf", "ünï", "new\nline", "\udcff\udcfe", "'\"$(x)", "x" * 255]
)
def test_file_names_with_special_characters_work(sandbox: Sandbox, name: str) -> None:
    sandbox.write_file(name, name.encode(errors="surrogateescape"))
    assert sandbox.read_file(name) == name.encode(errors="surrogateescape")


def test_writing_again_replaces_the_whole_file_and_keeps_its_mode(sandbox: Sandbox) -> None:
    sandbox.write_file("again", b"#!/bin/sh\necho a longer text\n")
    sh(sandbox, "chmod +x again")
    sandbox.write_file("again", b"#!/bin/sh\necho new\n")
    assert sandbox.exec(Command(argv=("./again",))).stdout == b"new\n"


def test_many_files_are_uploaded_at_once(sandbox: Sandbox) -> None:
    files = {f"many/{number}/file": b"%d" % number for number in range(500)}
    sandbox.upload_files(files)
    assert sh(sandbox, "find many -type f | wc -l").stdout.strip() == b"500"
    assert sandbox.read_file("many/499/file") == b"499"


def test_files_of_the_host_are_written_beside_bytes(sandbox: Sandbox, tmp_path: Path) -> None:
    large = bytes(range(256)) * (3 << 12)
    (tmp_path / "large").write_bytes(large)
    (tmp_path / "empty").touch()
    sandbox.upload_files(
        {"a": tmp_path / "large", "b": b"bytes", "c": tmp_path / "empty", "d": tmp_path / "large"}
    )
    assert [sandbox.read_file(name) for name in "abcd"] == [large, b"bytes", b"", large]


def test_a_file_of_the_host_is_not_held_in_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(256 << 20)
    tracemalloc.start()
    try:
        sandbox.write_file("large", tmp_path / "large")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sh(sandbox, "wc -c < large; rm large").stdout.strip() == b"%d" % (256 << 20)
    assert peak < 32 << 20


def test_a_missing_file_of_the_host_leaves_the_sandbox_usable(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        sandbox.write_file("a", tmp_path / "none")
    sandbox.write_file("a", b"whole")
    assert sandbox.read_file("a") == b"whole"


def test_a_missing_file_is_missing(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxFileMissing, match="no/such/file"):
        sandbox.read_file("no/such/file")


@pytest.mark.parametrize(
    "make", ["mkdir odd", "mkfifo odd", "ln -s /etc/hostname odd", "ln -s odd odd"]
)
def test_only_regular_files_are_read_and_written(sandbox: Sandbox, make: str) -> None:
    sh(sandbox, f"rm -rf odd; {make}")
    with pytest.raises(SandboxNotAFile):
        sandbox.read_file("odd")
    with pytest.raises(SandboxNotAFile):
        sandbox.write_file("odd", b"x")


def test_a_directory_is_refused_in_pythons_own_words(sandbox: Sandbox) -> None:
    sh(sandbox, "mkdir -p folder")
    with pytest.raises(SandboxNotAFile, match="wanted to read 'folder': Is a directory"):
        sandbox.read_file("folder")
    with pytest.raises(SandboxNotAFile, match="wanted to write 'folder': Is a directory"):
        sandbox.write_file("folder", b"x")


def test_a_device_is_not_a_file(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxNotAFile):
        sandbox.read_file("/dev/zero")


def test_a_link_out_by_a_directory_is_refused(sandbox: Sandbox) -> None:
    sh(sandbox, "ln -sfn /etc out")
    with pytest.raises(SandboxNotAFile):
        sandbox.read_file("out/hostname")


def test_a_link_within_the_workspace_is_followed(sandbox: Sandbox) -> None:
    sandbox.write_file("docs/real", b"text")
    sh(sandbox, "ln -sfn docs/real link")
    assert sandbox.read_file("link") == b"text"


def test_a_file_over_the_limit_is_refused(sandbox: Sandbox) -> None:
    sandbox.write_file("big", b"x" * 1001)
    assert len(sandbox.read_file("big", limit=1001)) == 1001
    with pytest.raises(SandboxFileTooLarge, match="1000"):
        sandbox.read_file("big", limit=1000)


def test_restore_brings_every_file_back(sandbox: Sandbox) -> None:
    sandbox.upload_files({"kept": b"before", "removed": b"before"})
    snapshot = sandbox.snapshot()
    sandbox.upload_files({"kept": b"after", "added": b"after"})
    sh(sandbox, "rm removed")
    sandbox.restore(snapshot)
    assert (sandbox.read_file("kept"), sandbox.read_file("removed")) == (b"before", b"before")
    with pytest.raises(SandboxFileMissing):
        sandbox.read_file("added")
    assert sh(sandbox, "echo fine").stdout == b"fine\n"


def test_a_snapshot_can_be_restored_more_than_once(sandbox: Sandbox) -> None:
    sandbox.write_file("counter", b"0")
    snapshot = sandbox.snapshot()
    for _ in range(2):
        sandbox.write_file("counter", b"1")
        sandbox.restore(snapshot)
        assert sandbox.read_file("counter") == b"0"


def test_an_unknown_snapshot_is_lost(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxLost, match="no-such-snapshot"):
        sandbox.restore(SnapshotId("no-such-snapshot"))


def test_after_teardown_the_sandbox_is_lost(
    sandbox: Sandbox,
) -> None:
    sandbox.teardown()
    sandbox.teardown()
    with pytest.raises(SandboxLost):
        sandbox.exec(Command(argv=("true",)))
    with pytest.raises(SandboxLost):
        sandbox.read_file("kept")
