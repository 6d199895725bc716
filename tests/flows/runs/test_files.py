"""The files of a sandbox are kept when they changed, and when nobody can tell."""

from collections.abc import Iterator
from time import sleep, time

import pytest

from flows.runs import checkpoints
from flows.runs.checkpoints import SnapshotTracker
from sandbox.scripted import ScriptedSandbox


@pytest.fixture
def sandbox() -> Iterator[ScriptedSandbox]:
    with ScriptedSandbox() as made:
        yield made


def test_only_what_changed_is_kept_anew(sandbox: ScriptedSandbox) -> None:
    kept = SnapshotTracker(sandbox, None, 60)
    assert kept.save() is None
    sandbox.write_file("one.txt", b"one")
    sleep(0.05)  # what is changed within a tick of being kept is kept twice
    first = kept.save()
    assert first is not None
    assert kept.save() == first
    sandbox.write_file("two.txt", b"two")
    assert kept.save() not in (first, None)


def test_a_clock_that_is_set_back_hides_no_change(
    sandbox: ScriptedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SnapshotTracker(sandbox, None, 60)
    monkeypatch.setattr(checkpoints, "time", lambda: time() - 3600)
    first = kept.save()
    assert first is not None


class Behind(ScriptedSandbox):
    """On an engine whose clock is a second behind ours."""

    def now(self) -> float:
        return super().now() - 1

    def changed_since(self, moment: float) -> bool:
        return super().changed_since(moment + 1)


def test_the_clock_of_another_machine_hides_no_change() -> None:
    with Behind() as sandbox:
        kept = SnapshotTracker(sandbox, None, 60)
        sleep(0.05)
        sandbox.write_file("one.txt", b"one")
        assert kept.save() is not None


def test_what_was_kept_too_late_is_kept_again(sandbox: ScriptedSandbox) -> None:
    kept = SnapshotTracker(sandbox, None, 60)
    sandbox.write_file("one.txt", b"one")
    late = kept.save()
    kept.discard()
    assert kept.save() != late


def test_keeping_is_dear_once_it_took_its_share_of_the_time(
    sandbox: ScriptedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_FREE_S", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 0.0)
    kept = SnapshotTracker(sandbox, None, 60)
    assert not kept.is_expensive
    sandbox.write_file("one.txt", b"one")
    kept.save()
    assert kept.is_expensive
