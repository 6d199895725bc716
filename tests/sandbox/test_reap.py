"""Leftovers are found by label, and only one's own."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from docker import APIClient

from contracts.sandbox import Command
from sandbox import spec
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.process_label import has_exited, process_label
from sandbox.reap import Reaped, list_sandboxes, list_snapshots, reap
from sandbox.spec import SandboxSpec, create_flags

ROOT = Path(__file__).parents[2]


@pytest.fixture
def owner(engine: DockerEngine) -> Iterator[str]:
    name = f"harness-tests-{uuid4().hex[:8]}"
    yield name
    reap(engine, name, everything=True)


def spec_of(owner: str) -> SandboxSpec:
    return SandboxSpec(image=BASE_IMAGE, owner=owner, run_id="reaped")


def dead_label() -> str:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return process_label(process.pid)


def leave(engine: DockerEngine, owner: str, **labels: str) -> str:
    """A container such as a killed harness leaves, with these labels changed."""
    made = create_flags(spec_of(owner))
    of_spec = spec.container_labels(spec_of(owner))
    container = engine.create(made | {"labels": of_spec | labels})
    engine.start(container)
    return container


def test_only_the_same_process_counts_as_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        label = process_label(process.pid)
        assert not has_exited(label)
        assert has_exited(label + "0")
    assert has_exited(label)


@pytest.mark.parametrize("label", ["another-boot/pid[1]:1:1", "", "nonsense", "unknown:1:-"])
def test_a_process_of_another_machine_does_not_count_as_exited(label: str) -> None:
    assert not has_exited(label)


@pytest.mark.docker
def test_sandboxes_in_use_stay(engine: DockerEngine, owner: str) -> None:
    with DockerSandbox.start(engine, spec_of(owner)) as sandbox:
        sandbox.snapshot()
        assert reap(engine, owner) == Reaped((), ())
        (info,) = list_sandboxes(engine, owner)
        assert (info.id, info.run_id, info.is_leftover) == (sandbox.container_id, "reaped", False)


@pytest.mark.docker
@pytest.mark.parametrize("why", ["deadline", "owner dead"])
def test_leftovers_are_removed(engine: DockerEngine, owner: str, why: str) -> None:
    past = {
        spec.DEADLINE_LABEL: str(int(time.time()) - 1),
        spec.CREATOR_LABEL: "another-boot/pid[1]:1:1",
    }
    changed = past if why == "deadline" else {spec.CREATOR_LABEL: dead_label()}
    container = leave(engine, owner, **changed)
    image = engine.commit(container, spec.container_labels(spec_of(owner)) | changed)
    assert reap(engine, owner) == Reaped((container,), (image,))
    assert (list_sandboxes(engine, owner), list_snapshots(engine, owner)) == ((), ())


@pytest.mark.docker
def test_a_clock_jump_removes_no_running_sandbox(engine: DockerEngine, owner: str) -> None:
    leave(engine, owner, **{spec.DEADLINE_LABEL: "1"})
    assert reap(engine, owner) == Reaped((), ())


@pytest.mark.docker
def test_containers_of_another_owner_stay_in_any_state(engine: DockerEngine, owner: str) -> None:
    leave(engine, owner, **{spec.CREATOR_LABEL: dead_label()})
    reap(engine, owner + "-not", everything=True)
    assert len(list_sandboxes(engine, owner)) == 1
    assert owner in {info.owner for info in list_sandboxes(engine)}


@pytest.mark.docker
def test_everything_means_everything_of_the_owner(engine: DockerEngine, owner: str) -> None:
    container = leave(engine, owner)
    image = engine.commit(container, spec.container_labels(spec_of(owner)))
    assert reap(engine, owner, everything=True) == Reaped((container,), (image,))


@pytest.mark.docker
def test_teardown_removes_the_snapshots(engine: DockerEngine, owner: str) -> None:
    with DockerSandbox.start(engine, spec_of(owner)) as sandbox:
        first = sandbox.snapshot()
        sandbox.restore(first)
        sandbox.snapshot()
        assert len(list_snapshots(engine, owner)) == 2
    assert (list_sandboxes(engine, owner), list_snapshots(engine, owner)) == ((), ())


@pytest.mark.docker
def test_a_fork_survives_the_teardown_of_its_origin(engine: DockerEngine, owner: str) -> None:
    with DockerSandbox.start(engine, spec_of(owner)) as origin:
        origin.write_file("file", b"shared")
        fork = origin.fork(snapshot := origin.snapshot())
    with fork:
        fork.write_file("file", b"changed")
        fork.restore(snapshot)
        assert fork.read_file("file") == b"shared"
        assert fork.exec(Command(argv=("true",))).ok
    assert (list_sandboxes(engine, owner), list_snapshots(engine, owner)) == ((), ())


DIES = """
import os, signal, sys
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec
from sandbox.snapshots import SnapshotStore
from tests.support.workspace_work import slim

class Dying(DockerEngine):
    def remove(self, container):
        os.kill(os.getpid(), signal.SIGKILL)

spec = SandboxSpec(image=sys.argv[1], owner=sys.argv[2], run_id="r")
store = SnapshotStore(engine := Dying(), max_layers=0)
sandbox = DockerSandbox.start(engine, spec, store=store).__enter__()
slim(engine, sandbox.container_id)
sandbox.checkpoint(600)
"""
"""Puts files down as one layer, and is killed before the container that this took is removed."""


@pytest.mark.docker
def test_a_process_killed_while_flattening_leaves_nothing_after_a_reap(
    engine: DockerEngine, owner: str
) -> None:
    argv = (sys.executable, "-c", DIES, BASE_IMAGE, owner)
    assert subprocess.run(argv, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert list_sandboxes(engine, owner), "the sandbox ends by itself, the other never began"
    reap(engine, owner)
    assert list_sandboxes(engine, owner) == ()


@pytest.mark.docker
def test_a_listed_container_that_no_longer_exists_is_not_reported(
    engine: DockerEngine, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = spec.container_labels(spec_of(owner)) | {spec.CREATOR_LABEL: dead_label()}
    gone = {"Id": "0" * 64, "Created": 0, "Labels": labels, "Names": ["/gone"]}
    there = APIClient.containers
    monkeypatch.setattr(APIClient, "containers", lambda *a, **k: [*there(*a, **k), gone])
    kept = leave(engine, owner)
    assert [info.id for info in list_sandboxes(engine, owner)] == [kept]
    assert reap(engine, owner) == Reaped((), ())
