"""The sandboxes that must keep the same contract."""

from collections.abc import Iterator

import pytest

from contracts.sandbox import PersistentSandbox
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.scripted import ScriptedSandbox
from sandbox.spec import SandboxSpec


@pytest.fixture(
    scope="module", params=["scripted", pytest.param("docker", marks=pytest.mark.docker)]
)
def sandbox(request: pytest.FixtureRequest) -> Iterator[PersistentSandbox]:
    """One sandbox for a module's tests: what one test does must not disturb the next."""
    if request.param == "scripted":
        with ScriptedSandbox() as scripted:
            yield scripted
        return
    spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests", run_id="contract")
    with DockerSandbox.start(DockerEngine(), spec) as docker:
        yield docker
