"""`harness sandbox list` and `reap` show leftovers and clear them."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flows.config.settings import load_settings
from flows.execution.wiring import docker_engine, sandbox_owner
from sandbox.container import DockerSandbox
from sandbox.images import BASE_IMAGE
from sandbox.process_label import process_label
from sandbox.reap import reap
from sandbox.spec import CREATOR_LABEL, SandboxSpec, container_labels, create_flags
from tests.support.app import Harness

pytestmark = pytest.mark.docker


@pytest.fixture
def spec(asked: Harness) -> Iterator[SandboxSpec]:
    made = SandboxSpec(image=BASE_IMAGE, owner=sandbox_owner(load_settings()), run_id="r-1")
    yield made
    reap(docker_engine(), made.owner, everything=True)


@pytest.fixture
def left(spec: SandboxSpec) -> str:
    """A container and a snapshot of a run that is dead; the container's id."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        dead = container_labels(spec) | {CREATOR_LABEL: process_label(process.pid)}
    container = docker_engine().create(create_flags(spec) | {"labels": dead})
    docker_engine().start(container)
    docker_engine().commit(container, dead)
    return container


def test_leftovers_are_listed_and_cleared_and_what_is_in_use_stays(
    asked: Harness, spec: SandboxSpec, left: str
) -> None:
    with DockerSandbox.start(docker_engine(), spec) as used:
        table = [line.split() for line in asked("sandbox", "list").stdout.splitlines()]
        states = {
            line[0]: " ".join(line[4:])
            for line in table
            if line[0] in (left[:12], used.container_id[:12])
        }
        assert states == {left[:12]: "left over", used.container_id[:12]: "in use"}
        listed = json.loads(asked("sandbox", "list", "--json").stdout)
        assert {info["id"] for info in listed} == {left, used.container_id}
        reaped = asked("sandbox", "reap").stdout
        assert "removed 1 containers and 1 snapshots" in reaped
        remaining = json.loads(asked("sandbox", "list", "--json").stdout)
        assert [(info["run_id"], info["state"]) for info in remaining] == [("r-1", "in use")]
        assert left not in {info["id"] for info in remaining}
        everything = json.loads(asked("sandbox", "reap", "--all", "--json").stdout)
        assert everything["containers"] == [used.container_id]
    assert "no sandboxes" in asked("sandbox", "list").stdout
