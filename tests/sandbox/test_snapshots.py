"""Snapshots stay small, hold no secret and last as long as wanted."""

import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import Command, SnapshotId
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes, list_snapshots, reap, remove_checkpoints
from sandbox.spec import SandboxSpec
from tests.support.sandboxes import images_that_name, inspected

pytestmark = pytest.mark.docker


@pytest.fixture
def spec(engine: DockerEngine) -> Iterator[SandboxSpec]:
    made = SandboxSpec(image=BASE_IMAGE, owner=f"harness-tests-{uuid4().hex[:8]}", run_id="r")
    yield made
    reap(engine, made.owner, everything=True)


def test_a_snapshot_holds_what_changed_and_not_the_image_again(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    with DockerSandbox.start(engine, spec) as sandbox:
        sandbox.write_file("file", b"x" * (3 << 20))
        snapshot = sandbox.snapshot()
        with engine.client("look at a snapshot") as client:
            size = client.api.history(snapshot)[0]["Size"]
    assert 3 << 20 <= size < 4 << 20


def test_a_snapshot_holds_no_environment_of_a_command(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    with DockerSandbox.start(engine, spec) as sandbox:
        sandbox.exec(Command(argv=("env",), env={"KEY": "a-secret"}, stdin=b"a-secret"))
        found = inspected(engine, sandbox.snapshot())
    assert "a-secret" not in found
    assert "KEY" not in found


WORK = """
import sys
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec
engine, spec = DockerEngine(), SandboxSpec.model_validate_json(sys.argv[1])
with DockerSandbox.start(engine, spec) as sandbox:
    sandbox.restore(sandbox.snapshot())
    sandbox.checkpoint(ttl_s=-1)
    sandbox.fork(sandbox.snapshot()).teardown()
"""


def test_every_image_of_ours_bears_our_labels_and_none_is_left(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    subprocess.run([sys.executable, "-c", WORK, spec.model_dump_json()], check=True)
    kept = {info.id for info in list_snapshots(engine, spec.owner)}
    assert len(kept) > 0
    assert images_that_name(engine, spec.owner) == kept
    assert set(reap(engine, spec.owner).snapshots) == kept
    assert images_that_name(engine, spec.owner) == set()


def test_several_forks_of_one_snapshot_do_not_see_each_other(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    with DockerSandbox.start(engine, spec) as origin:
        origin.write_file("file", b"shared")
        snapshot = origin.snapshot()
        with origin.fork(snapshot) as one, origin.fork(snapshot) as two:
            one.write_file("file", b"one")
            assert (two.read_file("file"), origin.read_file("file")) == (b"shared", b"shared")
    assert list_sandboxes(engine, spec.owner) == ()


def test_a_checkpoint_outlives_its_run_and_starts_the_next(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    with DockerSandbox.start(engine, spec) as sandbox:
        sandbox.write_file("file", b"kept")
        sandbox.snapshot()
        checkpoint = sandbox.checkpoint(ttl_s=600)
    assert reap(engine, spec.owner).snapshots == ()
    with DockerSandbox.start(engine, spec, checkpoint=checkpoint) as next_one:
        assert next_one.read_file("file") == b"kept"
    assert [info.id for info in list_snapshots(engine, spec.owner)] == [checkpoint]


def test_a_checkpoint_goes_at_its_deadline(engine: DockerEngine, spec: SandboxSpec) -> None:
    with DockerSandbox.start(engine, spec) as sandbox:
        checkpoint = sandbox.checkpoint(ttl_s=-1)
    assert reap(engine, spec.owner).snapshots == (checkpoint,)


def test_only_the_checkpoints_of_one_run_are_removed(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    other = spec.model_copy(update={"run_id": "other"})
    with DockerSandbox.start(engine, spec) as a, DockerSandbox.start(engine, other) as b:
        a.checkpoint(ttl_s=600)
        kept = b.checkpoint(ttl_s=600)
        remove_checkpoints(engine, spec.owner, spec.run_id)
    assert [info.id for info in list_snapshots(engine, spec.owner)] == [kept]


def test_starting_from_a_removed_checkpoint_is_a_lost_sandbox(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    with pytest.raises(SandboxLost, match="is gone"):
        DockerSandbox.start(engine, spec, checkpoint=SnapshotId("sha256:" + "0" * 64))
