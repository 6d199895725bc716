"""The real agents in a hardened container with no network, and a gateway that they can reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.agents import AGENTS
from flows.execution.toolchain import agents_image
from nodes.agents.cli import GATEWAY_PORT
from providers.client import Gateway
from providers.models import litellm
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import ensure_image
from sandbox.spec import SandboxSpec
from tests.support.agents import Bench
from tests.support.running_gateway import running_gateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    litellm()  # else the first request of codex and gemini waits for its import
    with running_gateway(sleep=_at_once) as client:
        yield client


def _at_once(_: float) -> None:
    """Waits for no rate limit to pass."""


@pytest.fixture(scope="module")
def agents_sandbox(gateway: Gateway) -> Iterator[DockerSandbox]:
    engine = DockerEngine()
    image = ensure_image(engine, agents_image(AGENTS), print)
    spec = SandboxSpec(image=image, owner="harness-tests", run_id="agents")
    with DockerSandbox.start(engine, spec) as started:
        started.forward(GATEWAY_PORT, gateway.connect)
        yield started


@pytest.fixture
def bench(gateway: Gateway, agents_sandbox: DockerSandbox, tmp_path: Path) -> Bench:
    return Bench(gateway, agents_sandbox, tmp_path)
