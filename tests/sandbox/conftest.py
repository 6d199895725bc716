"""A real sandbox for the tests that need one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sandbox.container import DockerSandbox
from sandbox.engine import Engine
from sandbox.flags import Limits, SandboxSpec
from sandbox.images import BASE_IMAGE

StartSandbox = Callable[[Limits], DockerSandbox]
OWNER = "harness-tests"


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def start_sandbox(engine: Engine) -> Iterator[StartSandbox]:
    """Starts sandboxes with these limits; they are gone after the test."""
    with ExitStack() as stack:

        def start(limits: Limits) -> DockerSandbox:
            spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test", limits=limits)
            return stack.enter_context(DockerSandbox.start(engine, spec))

        yield start


@pytest.fixture
def docker_sandbox(start_sandbox: StartSandbox) -> DockerSandbox:
    return start_sandbox(Limits(memory_mb=512, pids=128, file_size_mb=8))
