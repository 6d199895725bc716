"""A snapshot put down anew as one layer: nothing is lost by it, and nothing gets out."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from contracts.errors import SandboxNotAFile
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_snapshots
from sandbox.snapshots import MAX_LAYERS, SnapshotStore
from sandbox.spec import SandboxSpec
from tests.support.sandboxes import images_that_name
from tests.support.workspace_work import slim

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-flattened", run_id="r")
ENGINE_LAYERS = 125
"""What the overlay2 driver takes."""
CYCLES = 3
TRAPS = """
ln -s "$CANARY" link-to-it
ln -s ../../../../.. far-up
ln -s / root
ln link-to-it hard-link
mkfifo pipe
touch -- --to-command=sh "$(printf 'a\\nb')" '..\\..\\x' C:x
mkdir -p 'deep/.. ' && ln -s "$CANARY" 'deep/.. /link'
mknod device c 1 3
"""
LISTING = Command(
    argv=("sh", "-c", "find . ! -name 'file-*' ! -name mine -printf '%y %p %l\\n' | sort")
)
ENV = Command(argv=("env",))


class Flattened(NamedTuple):
    """A sandbox full of traps that was snapshot and restored until its layers were put into one."""

    sandbox: DockerSandbox
    canary: Path
    layers: list[int]
    listing: str
    env: bytes


@pytest.fixture(scope="module")
def flattened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flattened]:
    engine, canary = DockerEngine(), tmp_path_factory.mktemp("host") / "canary"
    canary.write_text("untouched")
    shelf = SnapshotStore(engine, max_layers=engine.layers(BASE_IMAGE) + 1)
    with DockerSandbox.start(engine, SPEC, store=shelf) as sandbox:
        sandbox.exec(Command(argv=("sh", "-c", TRAPS), env={"CANARY": str(canary)}))
        slim(engine, sandbox.container_id)
        found = Flattened(sandbox, canary, [], sandbox.exec(LISTING).text, sandbox.exec(ENV).stdout)
        for cycle in range(CYCLES):
            sandbox.write_file(f"file-{cycle}", b"kept")
            snapshot = sandbox.snapshot()
            found.layers.append(engine.layers(snapshot))
            sandbox.restore(snapshot)
        yield found
    assert list_snapshots(engine, SPEC.owner) == ()


def test_layers_never_run_out(flattened: Flattened, engine: DockerEngine) -> None:
    base = engine.layers(BASE_IMAGE)
    assert flattened.layers == [base + 1, 1, 2]
    assert base + MAX_LAYERS < ENGINE_LAYERS


def test_each_image_bears_our_labels(flattened: Flattened, engine: DockerEngine) -> None:
    ours = {info.id for info in list_snapshots(engine, SPEC.owner)}
    assert images_that_name(engine, SPEC.owner) == ours != set()


def test_files_and_environment_are_as_before(flattened: Flattened) -> None:
    names = flattened.sandbox.exec(Command(argv=("sh", "-c", "ls file-*"))).text.split()
    assert names == [f"file-{cycle}" for cycle in range(CYCLES)]
    assert flattened.sandbox.exec(ENV).stdout == flattened.env
    assert flattened.sandbox.exec(Command(argv=("touch", "mine"))).ok


def test_an_archive_of_traps_is_passed_on_and_never_unpacked_here(flattened: Flattened) -> None:
    assert flattened.sandbox.exec(LISTING).text == flattened.listing
    assert "link-to-it" in flattened.listing
    with pytest.raises(SandboxNotAFile):
        flattened.sandbox.write_file("link-to-it", b"touched")
    assert flattened.canary.read_text() == "untouched"
    assert list(flattened.canary.parent.iterdir()) == [flattened.canary]


def test_nothing_here_can_unpack_an_archive() -> None:
    rooms = ("sandbox", "nodes", "blueprints", "flows")
    sources = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    # Not what a command in the sandbox imports: that is text.
    unpackers = re.compile(
        r"^ *(import|from) .*(tarfile|zipfile)|unpack_archive|get_archive", re.MULTILINE
    )
    assert len(sources) > 80
    assert [path for path in sources if unpackers.search(path.read_text())] == []
