"""A real sandbox for the tests that need one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from contracts.sandbox import Sandbox
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.repos import BaseCommit, fetch_base
from sandbox.scripted import ScriptedSandbox
from sandbox.spec import SandboxLimits, SandboxSpec
from sandbox.workspace import clone_into_sandbox
from tests.support.git_repos import make_repo
from tests.support.sandboxes import OWNER, StartSandbox
from tests.support.workspace_work import BRANCH, inside


@pytest.fixture
def engine() -> DockerEngine:
    return DockerEngine()


@pytest.fixture
def start_sandbox(engine: DockerEngine) -> Iterator[StartSandbox]:
    """Starts sandboxes with these limits; they are gone after the test."""
    with ExitStack() as stack:

        def start(limits: SandboxLimits) -> DockerSandbox:
            spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test", limits=limits)
            return stack.enter_context(DockerSandbox.start(engine, spec))

        yield start


@pytest.fixture(scope="module")
def limited_sandbox() -> Iterator[DockerSandbox]:
    """One for the tests of a file, with less of everything."""
    limits = SandboxLimits(memory_mb=512, pids=128, file_size_mb=8)
    spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test", limits=limits)
    with DockerSandbox.start(DockerEngine(), spec) as sandbox:
        yield sandbox


@pytest.fixture
def docker_sandbox(limited_sandbox: DockerSandbox) -> DockerSandbox:
    """The one of this file, with nothing in its folders."""
    inside(limited_sandbox, "find . /tmp -mindepth 1 -delete")
    return limited_sandbox


@pytest.fixture(scope="session")
def lasting_sandbox() -> Iterator[DockerSandbox]:
    """One for many tests, each of which begins by emptying its workspace."""
    spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test")
    with DockerSandbox.start(DockerEngine(), spec) as sandbox:
        yield sandbox


@pytest.fixture(params=["scripted", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with nothing in its workspace."""
    if request.param == "docker":
        sandbox: Sandbox = request.getfixturevalue("lasting_sandbox")
        inside(sandbox, "find . -mindepth 1 -delete")
        yield sandbox
        return
    sandbox = ScriptedSandbox()
    yield sandbox
    sandbox.teardown()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "shop", {"hello.txt": b"hello\n", "src/a.py": b"a = 1\n"})


@pytest.fixture
def base(tmp_path: Path, repo: Path) -> BaseCommit:
    return fetch_base(str(repo), store=tmp_path / "store")


@pytest.fixture
def work_in(sandbox: Sandbox, base: BaseCommit) -> Sandbox:
    """A sandbox with the base commit put in."""
    clone_into_sandbox(sandbox, base, BRANCH)
    return sandbox
