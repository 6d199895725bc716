"""Warm sandboxes are taken once, and nobody's leftovers stay."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from subprocess import PIPE
from uuid import uuid4

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import Command
from sandbox import spec as sandbox_spec
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.pool import SandboxPool, take_from_pool
from sandbox.reap import claim_leftover, list_sandboxes, list_snapshots, reap
from sandbox.spec import SandboxLimits, SandboxSpec
from tests.support.waiting import LONG_S

pytestmark = pytest.mark.docker


@pytest.fixture
def spec(engine: DockerEngine) -> Iterator[SandboxSpec]:
    made = SandboxSpec(image=BASE_IMAGE, owner=f"harness-tests-{uuid4().hex[:8]}", run_id="r")
    yield made
    reap(engine, made.owner, everything=True)


def taken(engine: DockerEngine, spec: SandboxSpec) -> DockerSandbox:
    sandbox = take_from_pool(engine, spec)
    assert sandbox is not None
    return sandbox


def test_an_empty_pool_returns_none(engine: DockerEngine, spec: SandboxSpec) -> None:
    assert take_from_pool(engine, spec) is None


def test_a_warm_sandbox_is_a_whole_sandbox(engine: DockerEngine, spec: SandboxSpec) -> None:
    assert SandboxPool(engine, spec, size=1).fill() == 1
    with taken(engine, spec) as sandbox:
        sandbox.write_file("file", b"kept")
        snapshot = sandbox.snapshot()
        sandbox.write_file("file", b"changed")
        sandbox.restore(snapshot)
        assert sandbox.exec(Command(argv=("cat", "file"))).stdout == b"kept"
    assert list_sandboxes(engine, spec.owner) == ()


def test_a_checkpoint_of_a_pooled_sandbox_is_not_part_of_the_pool(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    pool = SandboxPool(engine, spec, size=1)
    pool.fill()
    with taken(engine, spec) as sandbox:
        kept = sandbox.checkpoint(ttl_s=60)
        with (
            sandbox.fork(sandbox.snapshot()) as fork,
            DockerSandbox.start(engine, spec, checkpoint=kept) as resumed,
        ):
            pool.fill()
            for one in (fork, resumed):
                assert one.exec(Command(argv=("true",))).ok
            told = {info.id: info.state for info in list_sandboxes(engine, spec.owner)}
            assert {told[one.container_id] for one in (sandbox, fork, resumed)} == {"in use"}


def test_many_takers_at_once_never_get_the_same(engine: DockerEngine, spec: SandboxSpec) -> None:
    SandboxPool(engine, spec, size=2).fill()
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: take_from_pool(DockerEngine(), spec), range(6)))
    sandboxes = [sandbox for sandbox in found if sandbox is not None]
    assert len({sandbox.container_id for sandbox in sandboxes}) == len(sandboxes) == 2
    for sandbox in sandboxes:
        assert sandbox.exec(Command(argv=("true",))).ok
        sandbox.teardown()


def test_a_full_pool_starts_nothing_and_a_taken_sandbox_is_replaced(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    pool = SandboxPool(engine, spec, size=1)
    assert (pool.fill(), pool.fill()) == (1, 0)
    with taken(engine, spec):
        assert pool.fill() == 1


RACER = """
import sys
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec
from sandbox.pool import take_from_pool
engine, spec, taken = DockerEngine(), SandboxSpec.model_validate_json(sys.argv[1]), []
engine.running({})
print("ready", flush=True)
for _ in sys.stdin:
    taken.append(take_from_pool(engine, spec))
    print(taken[-1] and taken[-1].container_id, flush=True)
"""


def test_only_one_of_two_racing_processes_gets_a_sandbox(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    argv = [sys.executable, "-c", RACER, spec.model_dump_json()]
    winners = list[str]()
    with ExitStack() as stack:
        racers = [
            stack.enter_context(subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, text=True))
            for _ in range(2)
        ]
        assert [said(racer) for racer in racers] == ["ready", "ready"]
        for _ in range(4):
            SandboxPool(engine, spec, size=1).fill()
            for racer in racers:
                tell(racer, "go")
            told = [said(racer) for racer in racers]
            assert "None" in told
            winners += [found for found in told if found != "None"]
        for racer in racers:
            racer.kill()
    assert len(set(winners)) == 4


def said(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()


def tell(racer: "subprocess.Popen[str]", line: str) -> None:
    assert racer.stdin is not None
    racer.stdin.write(f"{line}\n")
    racer.stdin.flush()


def test_a_leftover_that_a_run_takes_while_the_reaper_looks_stays(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    SandboxPool(engine, spec, size=1).fill()
    (seen,) = list_sandboxes(engine, spec.owner)
    of_a_dead_keeper = replace(seen, boot=f"{seen.boot}0")
    with taken(engine, spec) as sandbox:
        assert of_a_dead_keeper.is_leftover
        assert not claim_leftover(engine, of_a_dead_keeper)
        assert sandbox.exec(Command(argv=("true",))).ok


def test_a_pooled_sandbox_with_another_supervisor_is_not_used(
    engine: DockerEngine, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    SandboxPool(engine, spec, size=1).fill()
    argv = ["python3", "newer", "60"]
    monkeypatch.setattr(sandbox_spec, "supervisor_argv", lambda _: argv)
    assert take_from_pool(engine, spec) is None


def test_a_pooled_sandbox_of_another_kind_is_not_used(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    SandboxPool(engine, spec, size=1).fill()
    assert (
        take_from_pool(engine, spec.model_copy(update={"limits": SandboxLimits(pids=64)})) is None
    )
    assert take_from_pool(engine, spec.model_copy(update={"owner": spec.owner + "-not"})) is None


@pytest.fixture
def own_image(engine: DockerEngine, spec: SandboxSpec) -> Iterator[SandboxSpec]:
    """The same, with an image that is nobody else's."""
    image = f"{spec.owner}:latest"
    with engine.client("name an image") as client:
        client.images.get(BASE_IMAGE).tag(image)
    yield spec.model_copy(update={"image": image})
    engine.remove_image(image)


def test_a_rebuilt_image_replaces_the_waiting_sandboxes(
    engine: DockerEngine, own_image: SandboxSpec
) -> None:
    pool = SandboxPool(engine, own_image, size=1)
    pool.fill()
    with taken(engine, own_image) as in_use:
        pool.fill()
        in_use.write_file("newer", b"")
        with engine.client("build the image anew") as client:
            client.images.get(in_use.snapshot()).tag(own_image.image)
        assert take_from_pool(engine, own_image) is None
        assert pool.fill() == 1
        with taken(engine, own_image) as fresh:
            assert fresh.read_file("newer") == b""
        left = [info.id for info in list_sandboxes(engine, own_image.owner)]
        assert left == [in_use.container_id]
        assert in_use.exec(Command(argv=("true",))).ok


def test_a_warm_sandbox_belongs_to_no_run_and_its_snapshots_to_their_run(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    SandboxPool(engine, spec, size=1).fill()
    (info,) = list_sandboxes(engine, spec.owner)
    assert (info.run_id, info.state) == (None, "warm, waiting")
    with taken(engine, spec) as sandbox:
        (info,) = list_sandboxes(engine, spec.owner)
        assert (info.run_id, info.pooled, info.state) == (None, True, "in use")
        sandbox.snapshot()
        (kept,) = list_snapshots(engine, spec.owner)
        assert (kept.run_id, kept.state) == (spec.run_id, "in use")


def test_closing_the_pool_removes_waiting_sandboxes(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    stop = threading.Event()
    pool = SandboxPool(engine, spec, size=2)
    pool.fill()
    with taken(engine, spec) as sandbox:
        stop.set()
        pool.keep_filled(stop)
        assert [info.id for info in list_sandboxes(engine, spec.owner)] == [sandbox.container_id]
        assert sandbox.exec(Command(argv=("true",))).ok


def test_the_reaper_removes_waiting_and_not_taken_sandboxes_of_a_dead_pool(
    engine: DockerEngine, spec: SandboxSpec
) -> None:
    program = (
        "from sandbox.engine import DockerEngine\n"
        "from sandbox.spec import SandboxSpec\n"
        "from sandbox.pool import SandboxPool\n"
        f"spec = SandboxSpec.model_validate_json({spec.model_dump_json()!r})\n"
        "SandboxPool(DockerEngine(), spec, size=2).fill()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with taken(engine, spec) as sandbox:
        assert len(reap(engine, spec.owner).containers) == 1
        assert sandbox.exec(Command(argv=("true",))).ok
    assert list_sandboxes(engine, spec.owner) == ()


def test_a_taker_that_hangs_up_ends_its_sandbox(engine: DockerEngine, spec: SandboxSpec) -> None:
    SandboxPool(engine, spec, size=1).fill()
    sandbox = taken(engine, spec)
    sandbox._live_link().close()
    with pytest.raises(SandboxLost):
        sandbox.exec(Command(argv=("true",)))
    with engine.client("wait for the container") as client:
        client.api.wait(sandbox.container_id, condition="removed", timeout=LONG_S)
    assert list_sandboxes(engine, spec.owner) == ()
