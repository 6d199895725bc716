"""Opening the sandbox of a run removes what dead runs left."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from blueprints.dsl import blueprint, deterministic
from flows.config.settings import Settings, load_settings
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from nodes.commands import command
from sandbox.images import BASE_IMAGE
from sandbox.process_label import process_label
from sandbox.reap import list_sandboxes, reap
from sandbox.spec import CREATOR_LABEL, SandboxSpec, container_labels, create_flags
from tests.support.flows import Ask

pytestmark = pytest.mark.docker

NOTHING = blueprint("nothing", "Nothing", [deterministic("do", "do nothing", command("true"))])


@pytest.fixture
def settings() -> Iterator[Settings]:
    made = load_settings()
    yield made
    reap(docker_engine(), sandbox_owner(made), everything=True)


def test_a_run_removes_what_a_dead_run_left(settings: Settings, ask: Ask) -> None:
    owner = sandbox_owner(settings)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        dead = process_label(process.pid)
    spec = SandboxSpec(image=BASE_IMAGE, owner=owner, run_id="dead")
    left = docker_engine().create(
        create_flags(spec) | {"labels": container_labels(spec) | {CREATOR_LABEL: dead}}
    )
    docker_engine().start(left)

    opened = build_dependencies(settings).open_sandbox(ask(NOTHING), "r-1", lambda _: None, None)
    with opened:
        (in_use,) = [info for info in list_sandboxes(docker_engine(), owner) if info.id != left]
        assert (in_use.run_id, in_use.state) == ("r-1", "in use")

    assert list_sandboxes(docker_engine(), owner) == ()
