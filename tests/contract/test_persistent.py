"""What every sandbox promises whose files can outlive it."""

import time

import pytest

from contracts.sandbox import Command, PersistentSandbox

TICK_S = 0.03
"""Longer than the kernel's clock for change times takes to move on."""


def sh(sandbox: PersistentSandbox, line: str) -> None:
    assert sandbox.exec(Command(argv=("sh", "-c", line))).ok


def moment(sandbox: PersistentSandbox) -> float:
    """Now, with everything before it surely earlier and everything after it surely later."""
    time.sleep(TICK_S)
    now = sandbox.now()
    time.sleep(TICK_S)
    return now


def test_a_command_that_only_reads_is_not_a_change(sandbox: PersistentSandbox) -> None:
    sh(sandbox, "mkdir -p seen/deep && echo 1 > seen/deep/file")
    since = moment(sandbox)
    sh(sandbox, "cat seen/deep/file && ls -la seen")
    assert not sandbox.changed_since(since)


@pytest.mark.parametrize(
    "line",
    [
        "echo 2 > made",
        "echo 2 >> there/file",
        "rm there/file",
        "mv there/file there/other",
        "chmod 600 there/file",
        "echo 2 >> there/file; touch -d 2001-01-01 there/file there",
        "ln -sf elsewhere there/link",
        "mkdir there/locked && chmod 000 there/locked",
    ],
)
def test_every_change_is_seen(sandbox: PersistentSandbox, line: str) -> None:
    sh(sandbox, "mkdir -p there && echo 1 > there/file")
    since = moment(sandbox)
    sh(sandbox, line)
    assert sandbox.changed_since(since)
    sh(sandbox, "chmod -R u+rwx there; rm -rf there made")


def test_a_fork_has_the_files_and_changes_independently(sandbox: PersistentSandbox) -> None:
    sandbox.write_file("shared", b"before")
    fork = sandbox.fork(sandbox.snapshot())
    try:
        fork.write_file("shared", b"after")
        assert (fork.read_file("shared"), sandbox.read_file("shared")) == (b"after", b"before")
        sandbox.restore(fork.snapshot())
        assert sandbox.read_file("shared") == b"after"
    finally:
        fork.teardown()
